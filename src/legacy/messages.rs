//! What a task's messages say about its record.

use std::path::Path;

use super::report::What;
use super::text::{self, Bytes};
use super::title::{is_placeholder, trim};
use crate::event::{Field, Item, TaskId, Value};
use crate::vfs::Vfs;

/// Files with a task's messages, in the order in which they are asked. The second is the name in older releases, for
/// either kind.
pub(super) const FILES: [&str; 3] =
    ["ui_messages.json", "claude_messages.json", "api_conversation_history.json"];

/// The sums of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// `tokensIn`, `tokensOut`, `cacheWrites`, `cacheReads`.
    pub tokens: [f64; 4],
    /// `totalCost`.
    pub cost: f64,
}

impl Sums {
    /// The fields, in the order of [`Sums::tokens`], the cost last.
    pub(super) const FIELDS: [Field; 5] =
        [Field::TokensIn, Field::TokensOut, Field::CacheWrites, Field::CacheReads, Field::TotalCost];

    /// Those of a record; what is missing or no number counts nothing.
    pub(super) fn of(item: &Item) -> Self {
        let [a, b, c, d, cost] =
            Self::FIELDS.map(|field| item.get(&field).and_then(Value::as_f64).unwrap_or(0.0).max(0.0));
        Sums { tokens: [a, b, c, d], cost }
    }

    pub(super) fn total(&self) -> f64 {
        self.tokens.iter().sum()
    }

    pub(super) fn is_zero(&self) -> bool {
        self.total() <= 0.0 && self.cost <= 0.0
    }

    /// Whether each of them is at most the other's. Costs are sums of fractions, so their last digits do not count.
    pub(super) fn within(&self, other: &Sums) -> bool {
        let tokens = self.tokens.iter().zip(other.tokens).all(|(a, b)| *a <= b);
        tokens && self.cost <= other.cost * (1.0 + 1e-9) + 1e-9
    }

    pub(super) fn values(&self) -> [Value; 5] {
        let [a, b, c, d] = self.tokens;
        [a, b, c, d, self.cost].map(number)
    }
}

/// A number as JavaScript spells it.
fn number(n: f64) -> Value {
    let text = if n.fract() == 0.0 && n.abs() < 1e15 { format!("{n:.0}") } else { n.to_string() };
    Value::parse(&text).unwrap_or(Value::Int(0))
}

/// What messages say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Messages {
    /// The title that the host would make of them: the text of the first one.
    pub title: Option<String>,
    /// The sums over their requests; nothing if they hold no request.
    pub sums: Option<Sums>,
    /// Time of the last one that is more than an offer to resume.
    pub ts: Option<Value>,
    /// How many there are.
    pub count: usize,
    /// A file of them is not whole.
    pub damaged: bool,
    /// A file of them that the system did not let be read, and what it said.
    pub unread: Option<(String, String)>,
}

impl Messages {
    /// Reads what there is in a task's folder. Nothing that is wrong with it is an error: it says less then.
    ///
    /// The first file that has any messages tells their sums and times; the title may stand in a later one.
    pub(super) fn read(vfs: &dyn Vfs, folder: &Path, files: &[String]) -> Self {
        let mut found = Messages::default();
        for name in FILES.iter().filter(|name| files.iter().any(|file| file == *name)) {
            let read = text::bytes(vfs, &folder.join(name), text::MANY_MAX);
            let unread = read.as_ref().err().map(|e| ((*name).to_owned(), e.to_string()));
            let of_file = match read {
                Ok(Bytes::Some(bytes)) => text::decode(bytes).ok().map(|(text, _)| Messages::of(&text)),
                _ => None,
            };
            let of_file = of_file.unwrap_or(Messages { damaged: true, ..Messages::default() });
            if found.count == 0 {
                let (damaged, unread) = (found.damaged | of_file.damaged, found.unread.or(unread));
                found = Messages { damaged, unread, ..of_file };
            } else {
                found.title = of_file.title;
                found.unread = found.unread.or(unread);
            }
            if found.title.is_some() {
                break;
            }
        }
        found
    }

    /// What the messages in a text say.
    pub(super) fn of(text: &str) -> Self {
        let text::Content { elements, fault } = text::messages(text);
        let mut found = Messages { damaged: fault.is_some(), count: elements.len(), ..Messages::default() };
        for (i, raw) in elements.iter().enumerate() {
            let kind =
                ["say", "ask"].into_iter().find_map(|name| text::member(raw, name)).unwrap_or_default();
            if i == 0 {
                found.title = title(raw);
            }
            match kind {
                "\"api_req_started\"" | "\"deleted_api_reqs\"" => found.add_request(raw),
                "\"condense_context\"" => {
                    let cost = text::member(raw, "contextCondense").and_then(|c| text::member(c, "cost"));
                    if let Some(cost) = cost.and_then(|cost| cost.parse::<f64>().ok()) {
                        found.sums.get_or_insert_default().cost += cost;
                    }
                }
                _ => {}
            }
            if !matches!(kind, "\"resume_task\"" | "\"resume_completed_task\"")
                && let Some(ts) = text::member(raw, "ts").and_then(|ts| Value::parse(ts).ok())
                && super::quality::is_time(&ts)
            {
                found.ts = Some(ts);
            }
        }
        found
    }

    fn add_request(&mut self, raw: &str) {
        let inner = text::member(raw, "text").and_then(|text| serde_json::from_str::<String>(text).ok());
        let Some(inner) = inner else { return };
        let of =
            |name| text::member(&inner, name).and_then(|n| n.parse::<f64>().ok()).filter(|n| n.is_finite());
        let [a, b, c, d, cost] = ["tokensIn", "tokensOut", "cacheWrites", "cacheReads", "cost"].map(of);
        // A request that was never answered has none.
        if [a, b, c, d, cost].iter().all(Option::is_none) {
            return;
        }
        let sums = self.sums.get_or_insert_default();
        for (sum, more) in sums.tokens.iter_mut().zip([a, b, c, d]) {
            *sum += more.unwrap_or(0.0);
        }
        sums.cost += cost.unwrap_or(0.0);
    }

    /// The record that can be made of them alone. What they do not say is absent, not guessed.
    pub(super) fn item(&self, id: &TaskId) -> Option<Item> {
        if self.count == 0 {
            return None;
        }
        let mut item = Item::new(id).with(Field::Number, 1_i64);
        if let Some(ts) = self.ts.clone().or_else(|| time_of(id)) {
            item.set(Field::Ts, ts);
        }
        item.set(Field::Task, self.title.as_deref().unwrap_or_default());
        let sums = self.sums.unwrap_or_default();
        for (field, value) in Sums::FIELDS.into_iter().zip(sums.values()) {
            item.set(field, value);
        }
        Some(item)
    }
}

/// The time in an id: older ids are one in digits, newer ones are UUIDs of version 7, which begin with one.
fn time_of(id: &TaskId) -> Option<Value> {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let ts = match id.as_str().split('-').collect::<Vec<_>>().as_slice() {
        [digits] => digits.parse().ok(),
        [a, b, c, ..] if a.len() == 8 && b.len() == 4 && c.starts_with('7') => hex(&format!("{a}{b}")),
        _ => None,
    };
    ts.map(Value::from).filter(super::quality::is_time)
}

/// The title that a first message makes: its text, as a host takes it; or, of a message that the model was sent, what
/// the host wrapped in it.
fn title(raw: &str) -> Option<String> {
    let string = |raw: &str| serde_json::from_str::<String>(raw).ok();
    let text = match (text::member(raw, "text"), text::member(raw, "content")) {
        (Some(text), _) => string(text)?,
        (None, Some(content)) => {
            let text = string(content).or_else(|| {
                let blocks: Vec<&serde_json::value::RawValue> = serde_json::from_str(content).ok()?;
                blocks.iter().find_map(|block| text::member(block.get(), "text").and_then(string))
            })?;
            let inner = |tag: &str| {
                let (_, rest) = text.split_once(&format!("<{tag}>"))?;
                rest.split_once(&format!("</{tag}>")).map(|(inner, _)| inner.to_owned())
            };
            inner("task").or_else(|| inner("user_message")).unwrap_or_else(|| text.clone())
        }
        (None, None) => return None,
    };
    let text = trim(&text);
    (!text.is_empty() && !is_placeholder(text)).then(|| text.to_owned())
}

/// What is the matter with a record made of messages.
pub(super) fn fault(messages: &Messages) -> What {
    if messages.title.is_some() { What::MadeOfMessages } else { What::NoTitle }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_over_requests_as_hosts_add_them() {
        let text = r#"[{"ts":1700000000000,"type":"say","say":"text","text":"  the title\n"},
            {"ts":1700000000001,"type":"say","say":"api_req_started","text":"{\"tokensIn\":10,\"tokensOut\":2,\"cacheReads\":3,\"cost\":0.1}"},
            {"ts":1700000000002,"type":"say","say":"api_req_started","text":"{\"apiProtocol\":\"x\"}"},
            {"ts":1700000000003,"type":"say","say":"api_req_started","text":"{\"tokensIn\":5,\"cost\":0.2}"},
            {"ts":1700000000004,"type":"say","say":"condense_context","contextCondense":{"cost":1,"summary":"s"}},
            {"ts":1700000000009,"type":"ask","ask":"resume_task"}]"#;
        let found = Messages::of(text);
        assert_eq!(found.title.as_deref(), Some("the title"));
        assert_eq!(found.ts, Some(Value::Int(1_700_000_000_004)));
        let values = found.sums.unwrap().values().map(|v| v.to_json());
        assert_eq!(values, ["15", "2", "0", "3", "1.3"]);
        assert!(!found.damaged);
    }

    #[test]
    fn messages_without_a_request_say_nothing_about_sums() {
        let found = Messages::of(r#"[{"ts":1,"type":"ask","ask":"resume_task"}]"#);
        assert_eq!(found, Messages { count: 1, ..Messages::default() });
        assert_eq!(Messages::of("[]"), Messages::default());
    }

    #[test]
    fn title_is_found_in_the_history_that_the_model_was_sent() {
        let text = r#"[{"role":"user","content":[{"type":"text","text":"<task>\nfix it\n</task>\n\n# env"}],"ts":1700000000000}]"#;
        let found = Messages::of(text);
        assert_eq!((found.title.as_deref(), found.damaged, found.count), (Some("fix it"), false, 1));
    }

    #[test]
    fn record_of_messages_takes_its_time_from_the_id_if_need_be() {
        let made = |id: &str| {
            let id = TaskId::new(id).unwrap();
            Messages { count: 1, ..Messages::default() }.item(&id).unwrap().get(&Field::Ts).cloned()
        };
        assert_eq!(made("1784332598169"), Some(Value::Int(1_784_332_598_169)));
        assert_eq!(made("019fb786-503a-76ca-8708-fee1243c878d"), Some(Value::Int(0x019f_b786_503a)));
        assert_eq!(made("0a9fb786-503a-46ca-8708-fee1243c878d"), None);
        assert_eq!(made("x"), None);
    }
}
