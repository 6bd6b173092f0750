//! `foldlog demo`: the main job, with real processes, on a store that is made for it.
//!
//! A [`sample`] history is imported by this very program. Four [`writer`]s, processes of their own, follow their [`plan`]s;
//! one of them is killed inside a write ([`tear`]), and is started again. Then other processes, that have seen none of it,
//! look at what there is: [`check`] holds it against what was acknowledged, `verify`, `tasks` and `stats` do what they do
//! for everybody. What is printed is what those say.

use std::cmp::Ordering;
use std::ffi::OsString;
use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};

use foldlog::vfs::Vfs as _;
use foldlog::vfs::os::Os;
use foldlog_requests::Failure;
use serde::Serialize;
use serde_json::Value;

pub(crate) mod check;
mod plan;
mod sample;
mod tear;
mod told;
pub(crate) mod writer;

use check::{LEDGER, Report, STORE};
use told::Told;

use crate::args::Demo;
use crate::exit::Exit;
use crate::interrupt;
use crate::out::Out;
use crate::process::{self, Child, Ended, PATIENCE, Running};
use crate::selftest;
use crate::table;

/// The folder of the old history.
const OLD: &str = "old";

/// All figures, as `--json` prints them.
#[derive(Serialize)]
struct Figures<'a> {
    seed: u64,
    /// The folder, if it was kept.
    kept: Option<String>,
    imported: Imported,
    writers: usize,
    killed: Killed,
    conflicts: u64,
    #[serde(flatten)]
    report: &'a Report,
    tasks: u64,
    tokens_in: u64,
    tokens_out: u64,
    total_cost: f64,
    events: u64,
    commits: u64,
    bytes: u64,
    state_hash: String,
    /// What `verify` ended with: 0 = fine.
    verify: i32,
}

/// What importing the sample came to.
#[derive(Clone, Copy, Debug, Serialize)]
struct Imported {
    tasks: u64,
    created: u64,
    verified: u64,
}

/// Which writer was killed, and where.
#[derive(Clone, Copy, Debug, Serialize)]
struct Killed {
    writer: &'static str,
    /// In its n-th commit, from 1.
    commit: usize,
    /// So many bytes were written of so many.
    written: u64,
    of: u64,
    /// How many commits of the others were acknowledged after it was dead.
    others_after: u64,
}

/// What the writers did.
#[derive(Default)]
struct Written {
    acks: Vec<Told>,
    torn: Option<(u64, u64)>,
    others_after: u64,
    conflicts: u64,
}

/// Runs the verb.
pub(crate) fn run(verb: &Demo, out: &mut Out) -> Result<Exit, Failure> {
    let seed = match verb.seed {
        Some(seed) => seed,
        None => {
            let mut random = [0; 2];
            Os.random(&mut random).map_err(|e| Failure::io("draw a seed for", Path::new("demo"), &e))?;
            u16::from_le_bytes(random).into()
        }
    };
    let dir = match &verb.keep {
        Some(dir) => empty_folder(dir)?,
        None => selftest::new_folder(&std::env::temp_dir(), "demo")?,
    };
    interrupt::leaves(Some(dir.clone()));
    let done =
        show(seed, &dir, verb.keep.is_some(), out).map_err(|failure| name_folder(failure, &dir, seed))?;
    if verb.keep.is_none() && done == Exit::Fine {
        selftest::remove(&dir).map_err(|e| Failure::io("remove", &dir, &e))?;
    }
    interrupt::leaves(None);
    Ok(done)
}

/// A folder that this demo has for itself.
fn empty_folder(dir: &Path) -> Result<PathBuf, Failure> {
    let dir = std::path::absolute(dir).map_err(|e| Failure::io("find", dir, &e))?;
    match Os.list(&dir) {
        Ok(entries) if entries.is_empty() => Ok(dir),
        Ok(_) => Err(Failure::Own {
            code: "refused",
            message: format!("{} is not empty", dir.display()),
            remedy: "give a folder that is empty, or not there yet".into(),
            file: Some(dir),
        }),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => sample::folder(&dir).map(|()| dir),
        Err(e) => Err(Failure::io("look at", &dir, &e)),
    }
}

/// What went wrong stays to be looked at, and is told by the folder's name and the seed.
fn name_folder(failure: Failure, dir: &Path, seed: u64) -> Failure {
    let there = format!("{} has what was made; the same again is --seed {seed}", dir.display());
    match failure {
        Failure::Own { code, message, remedy, file } => {
            let remedy = if remedy.is_empty() { there } else { format!("{remedy}; {there}") };
            Failure::Own { code, message, remedy, file: file.or_else(|| Some(dir.into())) }
        }
        failure @ Failure::Library(_) => failure,
    }
}

fn failed(why: impl Into<String>) -> Failure {
    Failure::Own { code: "demo-failed", message: why.into(), remedy: String::new(), file: None }
}

fn show(seed: u64, dir: &Path, kept: bool, out: &mut Out) -> Result<Exit, Failure> {
    let (old, store) = (dir.join(OLD), dir.join(STORE));
    let people = !out.json;
    let mut say = |text: String| -> Result<(), Failure> {
        if people {
            out.line(&text)?;
            out.flush()?;
        }
        Ok(())
    };
    say(format!("foldlog demo, seed {seed}, in {}\n", dir.display()))?;
    sample::write(&old)?;
    let imported = import(&old, &store)?;
    told_import(&imported, &mut say)?;

    let mut ledger = before(&store)?;
    say(format!(
        "\n2. {} processes change the tasks at the same time, every commit durable: {}.",
        plan::WRITERS.len(),
        plan::WRITERS.join(", ")
    ))?;
    let written = write(seed, &store)?;
    let kill = plan::kill(seed);
    let Some((bytes, of)) = written.torn else { return Err(failed("no write was torn")) };
    let name = plan::WRITERS.get(kill.writer).copied().unwrap_or_default();
    let killed = Killed {
        writer: name,
        commit: kill.step + 1,
        written: bytes,
        of,
        others_after: written.others_after,
    };
    ledger.extend(written.acks);
    ledger.push(Told::Torn { written: bytes, of });
    let text: String = ledger.iter().map(|told| told.line() + "\n").collect();
    sample::file(&dir.join(LEDGER), &text)?;
    say(format!(
        "   {name} was killed inside its commit no. {}, with {bytes} of {of} bytes written and the write\n   \
         lock held. The others went on and made {} more. It was started again, sent its request once\n   \
         more, and finished. Conflicts, each told and tried again: {}",
        killed.commit, killed.others_after, written.conflicts
    ))?;

    let (report, exit) = checked(dir)?;
    say("\n3. What processes find that are started now:".into())?;
    told_check(&report, &mut say)?;
    let verify = this(&store, ["verify", "--json"], None)?;
    let stats = lines(&expect(this(&store, ["stats", "--json"], None)?, "stats")?)?;
    let log = stats.first().ok_or_else(|| failed("stats printed nothing"))?;
    let tasks = lines(&expect(this(&store, ["tasks", "--tree", "--json"], None)?, "tasks")?)?;
    let total = |key: &str| -> u64 {
        let tops = tasks.iter().filter(|task| task["depth"] == 0);
        tops.map(|task| number_at(task, &format!("/totals/{key}"))).sum()
    };
    let cost =
        tasks.iter().filter(|task| task["depth"] == 0).filter_map(|t| at(t, "/totals/totalCost").as_f64());
    let number = |key: &str| log[key].as_u64().unwrap_or(0);
    let figures = Figures {
        seed,
        kept: kept.then(|| dir.display().to_string()),
        imported: {
            let number = |key: &str| number_at(&imported, &format!("/import/{key}"));
            Imported { tasks: number("tasks"), created: number("created"), verified: number("verified") }
        },
        writers: plan::WRITERS.len(),
        killed,
        conflicts: written.conflicts,
        report: &report,
        tasks: total("tasks"),
        tokens_in: total("tokensIn"),
        tokens_out: total("tokensOut"),
        total_cost: cost.sum(),
        events: number("events"),
        commits: number("commits"),
        bytes: number("bytes"),
        state_hash: log["state_hash"].as_str().unwrap_or_default().to_owned(),
        verify: verify.code,
    };
    #[expect(clippy::cast_precision_loss, reason = "three digits of it are printed")]
    let (size, tokens) = (figures.bytes as f64, (figures.tokens_in + figures.tokens_out) as f64);
    say(format!(
        "   Verify: {}; {} events in {} commits, {}\n   Tasks: {}, with {} tokens and a cost of {}\n",
        if verify.code == 0 { "every byte checks" } else { "NOT fine, see below" },
        figures.events,
        figures.commits,
        table::size(size),
        figures.tasks,
        table::count(tokens),
        table::cost(figures.total_cost),
    ))?;
    let tree = this(&store, ["tasks", "--tree"], table::width())?;
    say(expect(tree, "tasks")?.trim_end().to_owned())?;
    if verify.code != 0 {
        say(verify.out.clone())?;
    }
    say(format!("\n{}", last_words(seed, &store, kept)))?;
    let exit = match verify.code {
        0 => exit,
        1 => exit.worse(Exit::Findings),
        _ => exit.worse(Exit::Damaged),
    };
    if out.json {
        out.line(&serde_json::to_string(&figures).unwrap_or_default())?;
    }
    if exit != Exit::Fine {
        out.talk(&format!("not all is well; {} stays to be looked at", dir.display()));
    }
    Ok(exit)
}

/// A value somewhere in an answer; null if it is not there.
fn at<'a>(answer: &'a Value, path: &str) -> &'a Value {
    answer.pointer(path).unwrap_or(&Value::Null)
}

fn number_at(answer: &Value, path: &str) -> u64 {
    at(answer, path).as_u64().unwrap_or(0)
}

/// Runs this program on the store, to its end.
fn this<const N: usize>(store: &Path, words: [&str; N], columns: Option<usize>) -> Result<Ended, Failure> {
    let store = [OsString::from("--store"), store.into()];
    process::run(store.into_iter().chain(words.map(OsString::from)), columns).map_err(failed)
}

/// What a run printed that must end well.
fn expect(ended: Ended, verb: &str) -> Result<String, Failure> {
    match ended.code {
        0 => Ok(ended.out),
        code => Err(failed(format!("{verb} ended with {code}: {}{}", ended.out, ended.err))),
    }
}

fn lines(text: &str) -> Result<Vec<Value>, Failure> {
    let all = text.lines().map(serde_json::from_str).collect::<Result<_, _>>();
    all.map_err(|e| failed(format!("no JSON: {e}: {text}")))
}

fn import(old: &Path, store: &Path) -> Result<Value, Failure> {
    let words = [OsString::from("--store"), store.into(), "--json".into(), "import".into(), old.into()];
    let ended = process::run(words, None).map_err(failed)?;
    let report = lines(&expect(ended, "import")?)?;
    report.into_iter().next().ok_or_else(|| failed("import printed nothing"))
}

fn told_import(report: &Value, say: &mut dyn FnMut(String) -> Result<(), Failure>) -> Result<(), Failure> {
    let import = &report["import"];
    say("1. A history of the older layout, JSON files as hosts left them, is imported.".into())?;
    say(format!(
        "   {} tasks, {} taken over, {} read back and the same.",
        import["tasks"], import["created"], import["verified"]
    ))?;
    let tasks = at(report, "/source/tasks").as_array().into_iter().flatten();
    for task in tasks.filter(|task| task["kept"].as_array().is_some_and(|kept| !kept.is_empty())) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        say(format!(
            "   Two records of {} differ: {} was chosen ({}), though\n   {} is newer; that one is kept as evidence.",
            text(&task["id"]),
            text(&task["base"]),
            text(&task["why"]),
            text(at(task, "/kept/0"))
        ))?;
    }
    Ok(())
}

/// What each task had used when the writers began.
fn before(store: &Path) -> Result<Vec<Told>, Failure> {
    let tasks = lines(&expect(this(store, ["tasks", "--json"], None)?, "tasks")?)?;
    let items = tasks.iter().map(|task| &task["item"]).filter(|item| item.is_object());
    let number = |item: &Value, key: &str| item[key].as_u64().unwrap_or(0);
    let told = items.map(|item| Told::Before {
        id: item["id"].as_str().unwrap_or_default().to_owned(),
        tokens_in: number(item, "tokensIn"),
        tokens_out: number(item, "tokensOut"),
    });
    Ok(told.collect())
}

/// What is heard from a writer; nothing = its output has ended.
type Heard = (usize, Option<String>);

/// Starts a writer; a thread hands on what it says.
fn start(
    seed: u64,
    store: &Path,
    writer: usize,
    from: usize,
    heard: &Sender<Heard>,
) -> Result<Running, Failure> {
    let mut words = vec![
        OsString::from("demo-writer"),
        store.into(),
        format!("--seed={seed}").into(),
        format!("--writer={writer}").into(),
        format!("--from={from}").into(),
    ];
    // Only the first time.
    if from == 0 {
        words.push("--dies".into());
    }
    let (running, lines) = Child::start(words).map_err(failed)?.split();
    let heard = heard.clone();
    std::thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            // Without a hearer there is nothing left to be heard.
            let _ = heard.send((writer, Some(line)));
        }
        let _ = heard.send((writer, None));
    });
    Ok(running)
}

fn write(seed: u64, store: &Path) -> Result<Written, Failure> {
    let (heard, hear) = mpsc::channel();
    let mut running: Vec<Option<Running>> = Vec::new();
    for writer in 0..plan::WRITERS.len() {
        running.push(Some(start(seed, store, writer, 0, &heard)?));
    }
    let mut written = Written::default();
    let (kill, mut killed, mut ready) = (plan::kill(seed), None, 0);
    let mut waiting = Vec::new();
    while running.iter().any(Option::is_some) {
        let (writer, line) = hear.recv_timeout(PATIENCE).map_err(|e| match e {
            RecvTimeoutError::Timeout => failed(format!("no writer said a word in {} s", PATIENCE.as_secs())),
            RecvTimeoutError::Disconnected => failed("the writers are gone"),
        })?;
        let name = plan::WRITERS.get(writer).copied().unwrap_or_default();
        let Some(slot) = running.get_mut(writer) else { continue };
        match line.as_deref().map(Told::read).transpose().map_err(failed)? {
            Some(Told::Ready) => {
                ready += 1;
                let begin = match ready.cmp(&plan::WRITERS.len()) {
                    Ordering::Less => &mut [],
                    Ordering::Equal => running.as_mut_slice(),
                    Ordering::Greater => std::slice::from_mut(slot),
                };
                begin.iter_mut().flatten().try_for_each(|begins| begins.tell("begin")).map_err(failed)?;
            }
            Some(Told::Half) if written.torn.is_some() => {
                slot.iter_mut().try_for_each(|goes_on| goes_on.tell("go on")).map_err(failed)?;
            }
            Some(Told::Half) => waiting.push(writer),
            Some(told @ Told::Ack(_)) => {
                written.others_after += u64::from(written.torn.is_some() && writer != kill.writer);
                written.acks.push(told);
            }
            Some(Told::Torn { written: bytes, of }) => {
                if let Some(victim) = slot.take() {
                    victim.kill().map_err(failed)?;
                }
                (written.torn, killed) = (Some((bytes, of)), Some(writer));
                // A window is opened again: it has kept what it was about to do.
                *slot = Some(start(seed, store, writer, kill.step, &heard)?);
                for waits in waiting.drain(..) {
                    let mut waits = running.get_mut(waits).into_iter().flatten();
                    waits.try_for_each(|goes_on| goes_on.tell("go on")).map_err(failed)?;
                }
            }
            Some(Told::Done { conflicts }) => written.conflicts += conflicts,
            Some(Told::Failed { message }) => return Err(failed(format!("{name} gave up: {message}"))),
            Some(Told::Before { .. }) => {}
            // The output of the one that was killed; its successor has one of its own.
            None if killed == Some(writer) => killed = None,
            None => {
                if let Some(ended) = slot.take() {
                    ended.end().map_err(failed)?;
                }
            }
        }
    }
    Ok(written)
}

fn checked(dir: &Path) -> Result<(Report, Exit), Failure> {
    let ended = process::run([OsString::from("demo-check"), dir.into()], None).map_err(failed)?;
    let exit = match ended.code {
        0 => Exit::Fine,
        1 => Exit::Findings,
        code => return Err(failed(format!("the check ended with {code}: {}{}", ended.out, ended.err))),
    };
    let report = serde_json::from_str(&ended.out);
    Ok((report.map_err(|e| failed(format!("the check says: {}: {e}", ended.out)))?, exit))
}

fn told_check(report: &Report, say: &mut dyn FnMut(String) -> Result<(), Failure>) -> Result<(), Failure> {
    say(format!(
        "   Commits: {} of the {} acknowledged are in the log, each under its number and name{}",
        report.found,
        report.acknowledged,
        if report.missing.is_empty() { "." } else { ". MISSING:" }
    ))?;
    report.missing.iter().try_for_each(|missing| say(format!("     {missing}")))?;
    for healed in &report.healed {
        say(format!(
            "   Torn ({}): {} bytes before event {}, healed and kept as\n   quarantine/{}",
            healed.verdict, healed.bytes, healed.event, healed.note
        ))?;
    }
    say(format!(
        "   Tokens: {} sent, {} received; those before and all that were added: {}, {}",
        report.tokens.0, report.tokens.1, report.tokens_due.0, report.tokens_due.1
    ))?;
    report.wrong.iter().try_for_each(|wrong| say(format!("   WRONG: {wrong}")))
}

fn last_words(seed: u64, store: &Path, kept: bool) -> String {
    if !kept {
        return format!(
            "The folder is gone again. To tear the same write and look further: foldlog demo --seed {seed} --keep DIR"
        );
    }
    let store = store.display();
    format!(
        "To look further:\n  foldlog --store {store} tasks --tree\n  foldlog --store {store} history 1785900000000\n  \
         foldlog --store {store} dump --raw\n  foldlog --store {store} verify"
    )
}
