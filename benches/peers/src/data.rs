//! The workload: tasks as hosts keep them, and steps, each the change that one answer of a model makes.

/// Tasks that exist before the clock starts.
pub const TASKS: usize = 10_000;
/// Length of a task's id.
pub const ID_LEN: usize = 9;
/// Length of the text that logs append for a step. With id, envelope and header it makes a foldlog frame of 256 bytes.
pub const TEXT_LEN: usize = 179;
/// Time of the first task, ms since 1970. Steps come long after it.
pub const TS: i64 = 1_784_332_598_169;

/// `t-0001234`
pub fn id(task: usize) -> String {
    format!("t-{task:07}")
}

/// Every tenth task is the parent of the four after it.
pub fn parent(task: usize) -> Option<usize> {
    (1..=4).contains(&(task % 10)).then(|| task - task % 10)
}

/// A title of 1 KiB.
pub fn title() -> String {
    "Mend the parser. ".repeat(61)
}

/// A task as JSON, without what a step changes: those fields a catalogue keeps apart, so as not to rewrite the rest.
pub fn item(task: usize) -> String {
    let parent = parent(task).map(|p| format!(",\"parentTaskId\":\"{}\"", id(p))).unwrap_or_default();
    format!(
        "{{\"id\":\"{}\",\"number\":{}{parent},\"task\":\"{}\",\"cacheWrites\":0,\"cacheReads\":0,\"size\":0,\
         \"workspace\":\"/home/user/projects/generic\",\"mode\":\"code\",\"apiConfigName\":\"default\",\"status\":\"active\"}}",
        id(task),
        task + 1,
        title(),
    )
}

/// One change of one task: its time and cost are set, its two sums of tokens grow.
pub struct Step {
    pub task: usize,
    pub id: String,
    pub ts: i64,
    pub tokens_in: i64,
    /// By how much `tokensOut` grows is always 1: its sum over all tasks counts the steps that survive.
    pub cost: f64,
    /// The cost as JSON.
    pub cost_text: String,
    /// The step as a log stores it.
    pub text: String,
}

impl Step {
    pub fn new(task: usize, n: usize) -> Self {
        let (id, tokens_in, micros) = (id(task), 100 + n * 37 % 900, n % 1_000_000);
        let cost_text = format!("0.{micros:06}1");
        let mut text = format!(
            "{{\"id\":\"{id}\",\"ts\":{TS},\"tokensIn\":{tokens_in},\"tokensOut\":1,\"totalCost\":{cost_text},\"note\":\""
        );
        let rest = TEXT_LEN - 2 - text.len();
        text.extend(std::iter::repeat_n('x', rest));
        text.push_str("\"}");
        let cost = micros as f64 / 1e6 + 1e-7;
        Step { task, id, ts: TS, tokens_in: tokens_in as i64, cost, cost_text, text }
    }
}

/// Steps of one writer, made before the clock starts, and handed out over and over with a new time each.
pub struct Steps {
    all: Vec<Step>,
    next: usize,
    ts: i64,
}

impl Steps {
    /// On tasks drawn at random, or all on one.
    pub fn new(writer: usize, only: Option<usize>) -> Self {
        let mut random = (writer as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut task = move || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            only.unwrap_or((random >> 11) as usize % TASKS)
        };
        Steps { all: (0..4096).map(|n| Step::new(task(), n)).collect(), next: 0, ts: TS }
    }

    /// The next so many; a power of two.
    pub fn take(&mut self, count: usize) -> &[Step] {
        if self.next + count > self.all.len() {
            self.next = 0;
        }
        let steps = &mut self.all[self.next..self.next + count];
        self.next += count;
        for step in &mut *steps {
            self.ts += 1;
            step.ts = self.ts;
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_the_length_they_are_said_to_have() {
        for n in [0, 7, 999_999, 123_456_789] {
            let step = Step::new(n % TASKS, n);
            assert_eq!((step.id.len(), step.text.len()), (ID_LEN, TEXT_LEN));
            assert!(serde_json::from_str::<serde_json::Value>(&step.text).is_ok(), "{}", step.text);
        }
    }

    #[test]
    fn items_are_json_of_about_a_kibibyte() {
        for task in [0, 1, TASKS - 1] {
            let item = item(task);
            assert!((1200..1400).contains(&item.len()), "{}", item.len());
            assert!(serde_json::from_str::<serde_json::Value>(&item).is_ok(), "{item}");
        }
    }

    #[test]
    fn steps_come_round_with_new_times() {
        let mut steps = Steps::new(0, Some(3));
        let times: Vec<_> =
            (0..200).flat_map(|_| steps.take(64).iter().map(|step| step.ts).collect::<Vec<_>>()).collect();
        assert_eq!(times, (1..=200 * 64).map(|n| TS + n).collect::<Vec<_>>());
    }
}
