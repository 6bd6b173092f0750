//! `foldlog retention`: says how much of the history is kept, or sets it.

use std::time::Duration;

use foldlog::event::Retention;
use foldlog::task::Op;
use foldlog::{Durability, TaskId};
use foldlog_requests::{Failure, place, retention};

use crate::args::{Global, Keep};
use crate::escape;
use crate::exit::Exit;
use crate::homes;
use crate::out::Out;
use crate::target;
use crate::write;

/// Runs the verb.
pub(crate) fn run(global: &Global, verb: &Keep, out: &mut Out) -> Result<Exit, Failure> {
    let id = verb.id.as_deref().map(TaskId::new).transpose()?;
    let op = match (said(verb), verb.pin, verb.unpin, &id) {
        (None, false, false, _) => return show(global, out),
        (Some(retention), false, false, _) => Op::SetRetention { id: id.clone(), retention },
        (None, pinned, _, Some(id)) => Op::Pin { id: id.clone(), pinned },
        (Some(_), ..) => {
            return Err(Failure::usage("limits and --pin are two things", "say one after the other"));
        }
        (None, .., None) => {
            return Err(Failure::usage(
                "--pin and --unpin are about a task",
                "name it, before them or behind them",
            ));
        }
    };
    let (home, done) = match &id {
        Some(_) => write::commit(global, "retention", op, Durability::Durable.into())?,
        None => {
            let store = homes::open(global, "retention", false)?;
            let name = match &global.workspace {
                Some(text) => place::find(store.store(), text)?,
                None => target::find_here(store.store())?,
            };
            let home = store.named(&name)?;
            let done = home.commit(vec![op], Durability::Durable)?;
            (home, done)
        }
    };
    if out.json {
        return write::tell(&home, &done, out);
    }
    out.line(if done.count == 0 { "that is how it is" } else { "set; compaction keeps to it from now on" })?;
    home.workspace().clone().close()?;
    Ok(Exit::Fine)
}

fn said(verb: &Keep) -> Option<Option<Retention>> {
    if verb.none {
        return Some(None);
    }
    if verb.keep_all {
        return Some(Some(Retention::KeepAll));
    }
    let Keep { age, count, bytes, .. } = verb;
    let any = age.is_some() || count.is_some() || bytes.is_some();
    any.then_some(Some(Retention::Limits { age: *age, count: *count, bytes: *bytes }))
}

fn show(global: &Global, out: &mut Out) -> Result<Exit, Failure> {
    let mut homes = homes::look(global, out)?;
    for home in &homes.all {
        let name = home.workspace().name();
        let all = home.read(|_, index| index.retention().as_ref().clone())?;
        if out.json {
            let mut line = retention::all(&all);
            line.insert_str(1, &format!("\"name\":{},", serde_json::to_string(name).unwrap_or_default()));
            out.line(&line)?;
            continue;
        }
        out.line(&format!("{name}: {}", words(all.workspace())))?;
        for (id, retention) in all.tasks() {
            out.line(&format!("  {}: {}", escape::text(id.as_str()), words(Some(retention))))?;
        }
        for id in all.pinned() {
            out.line(&format!("  {}: pinned, all of it is kept", escape::text(id.as_str())))?;
        }
    }
    homes::tell_unread(&mut homes, out);
    Ok(homes.exit)
}

fn words(retention: Option<Retention>) -> String {
    match retention {
        None => "nothing is set; what later events overwrite is not kept".into(),
        Some(Retention::KeepAll) => "all history is kept".into(),
        Some(Retention::Limits { age, count, bytes }) => {
            let mut all = Vec::new();
            all.extend(age.map(|age| format!("not older than {} s", age.as_secs_f64())));
            all.extend(count.map(|count| format!("the newest {count} events of each task")));
            all.extend(bytes.map(|bytes| format!("the newest {bytes} bytes")));
            format!("history is kept within: {}", all.join(", "))
        }
    }
}

/// `90s`, `15m`, `12h`, `30d`, `4w`.
pub(crate) fn parse_age(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text} is no age; say it as 90s, 15m, 12h, 30d or 4w");
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3_600,
        Some('d') => 86_400,
        Some('w') => 604_800,
        _ => return Err(bad()),
    };
    let number: u64 = text.get(..text.len() - 1).and_then(|number| number.parse().ok()).ok_or_else(bad)?;
    Ok(Duration::from_secs(number.checked_mul(unit).ok_or_else(bad)?))
}

/// `1048576`, `64K`, `64M`, `2G`, in powers of 1024.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let bad = || format!("{text} is no number of bytes; say it as 1048576, 64K, 64M or 2G");
    let (number, shift) = match text.chars().last() {
        Some('K') => (text.strip_suffix('K'), 10),
        Some('M') => (text.strip_suffix('M'), 20),
        Some('G') => (text.strip_suffix('G'), 30),
        _ => (Some(text), 0),
    };
    let number: u64 = number.and_then(|number| number.parse().ok()).ok_or_else(bad)?;
    number.checked_mul(1 << shift).ok_or_else(bad)
}
