//! A process that works on a store by lines, as `bindings/node/test/worker.mjs` has it, by the Rust library.

use std::io::{BufRead as _, Write as _};

use foldlog::{
    CommitOptions, Durability, ErrorKind, Item, Options, Patch, Place, Revision, TaskExpect, TaskId,
    TaskStore, Tasks,
};
use serde_json::value::RawValue;

#[derive(serde::Deserialize)]
struct Told {
    r#do: String,
    store: Option<String>,
    id: Option<String>,
    item: Option<Box<RawValue>>,
    text: Option<String>,
    set: Option<Box<RawValue>>,
    expect: Option<u64>,
    durability: Option<String>,
    field: Option<String>,
}

type Answer = Result<String, Box<dyn std::error::Error>>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut tasks = None;
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let told: Told = serde_json::from_str(&line?)?;
        let answer = match act(&told, &mut tasks) {
            Ok(done) => format!(r#"{{"ok":{done}}}"#),
            Err(error) => match error.downcast_ref::<foldlog::Error>() {
                Some(error) => refused(error),
                None => return Err(error),
            },
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

fn refused(error: &foldlog::Error) -> String {
    let ErrorKind::Conflict(all) = error.kind() else { return format!(r#"{{"error":"{}"}}"#, error.code()) };
    let now = all.iter().find_map(|conflict| conflict.current.as_ref());
    let (revision, item) = now.map_or((0, None), |now| (now.revision.0, now.folded.clone()));
    format!(r#"{{"error":"conflict","revision":{revision},"current":{}}}"#, item.as_deref().unwrap_or("null"))
}

fn act(told: &Told, open: &mut Option<Tasks>) -> Answer {
    if told.r#do == "open" {
        let store = TaskStore::open(told.store.as_deref().ok_or("store")?, Options::default().label("rust"))?;
        *open = Some(store.home(&Place::Key("shared".into()))?);
        return Ok("{}".into());
    }
    if told.r#do == "close" {
        *open = None;
        return Ok("{}".into());
    }
    let tasks = open.as_ref().ok_or("nothing is open")?;
    let id = || Ok::<_, Box<dyn std::error::Error>>(TaskId::new(told.id.as_deref().ok_or("id")?)?);
    let buffered = told.durability.as_deref() == Some("buffered");
    let durability = if buffered { Durability::Buffered } else { Durability::Durable };
    match &*told.r#do {
        "create" => {
            let item = Item::parse(told.item.as_ref().ok_or("item")?.get())?;
            let done = tasks.create(item, durability)?;
            Ok(format!(r#"{{"revision":{}}}"#, done.tasks.first().ok_or("no task")?.1.revision))
        }
        "patch" => {
            let patch = Patch::parse(&format!(r#"{{"set":{}}}"#, told.set.as_ref().ok_or("set")?.get()))?;
            let mut options = CommitOptions::new().durability(durability);
            if let Some(revision) = told.expect {
                options = options.expect(&id()?, TaskExpect::Revision(Revision(revision)));
            }
            let done = tasks.patch(&id()?, patch, options)?;
            Ok(format!(r#"{{"revision":{}}}"#, done.token(&id()?).ok_or("no task")?.revision))
        }
        "get" => Ok(tasks.get(id()?.as_str())?.map_or("null".into(), |found| {
            format!(r#"{{"item":{},"revision":{}}}"#, found.task.item.to_json(), found.task.revision)
        })),
        "spell" => {
            let (id, text) = (id()?, told.text.as_deref().ok_or("text")?);
            let _ = tasks.create(Item::parse(&format!(r#"{{"id":"{id}","v":{text}}}"#))?, durability)?;
            Ok("{}".into())
        }
        "text" => {
            let text = tasks.get(id()?.as_str())?.map(|found| found.task.item.to_json());
            Ok(serde_json::to_string(&text)?)
        }
        "endless" => {
            let field = told.field.as_deref().ok_or("field")?;
            for n in 1_u64.. {
                let patch = Patch::parse(&format!(r#"{{"set":{{"{field}":{n}}}}}"#))?;
                let _ = tasks.patch(&id()?, patch, Durability::Buffered)?;
                println!(r#"{{"acknowledged":{n}}}"#);
            }
            Ok("{}".into())
        }
        other => Err(format!("no act {other}").into()),
    }
}
