//! One of the processes that change tasks in a demo. It acknowledges on stdout what the library told it stands.

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use foldlog::task::{CommitOptions, Op, TaskExpect, TaskStore, Tasks};
use foldlog::{
    Durability, ErrorKind, Field, Housekeeping, Item, Options, Patch, Store, TaskId, TaskStatus, Value,
};
use foldlog_requests::Failure;

use super::plan::{self, Step};
use super::tear::{Tearing, Trap};
use super::told::{Ack, Told, hex};
use crate::args::DemoWriter;
use crate::exit::Exit;
use crate::out::Out;

/// Runs the hidden verb.
pub(crate) fn run(verb: &DemoWriter, out: &mut Out) -> Result<Exit, Failure> {
    match write(verb, out) {
        Ok(()) => Ok(Exit::Fine),
        Err(failure) => {
            let message = format!("{}: {}", failure.code(), failure.message());
            out.line(&Told::Failed { message }.line())?;
            Ok(Exit::of(&failure))
        }
    }
}

/// Halfway through a write: says so, and does nothing more. Nobody is told that the commit stands, since it does not.
fn dead(written: u64, of: u64) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{}", Told::Torn { written, of }.line()).and_then(|()| stdout.flush());
    // Until the kill; or until whoever was to kill this process is gone itself.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    std::process::exit(Exit::Io.number().into());
}

fn write(verb: &DemoWriter, out: &mut Out) -> Result<(), Failure> {
    let name = plan::WRITERS.get(verb.writer).copied().unwrap_or_default();
    let trap = Trap::new(dead);
    let options = Options::default().create(false).label(name).housekeeping(Housekeeping::Off);
    let vfs = Arc::new(Tearing(Arc::clone(&trap)));
    let store = TaskStore::of(Store::open_on(vfs, &verb.dir, TaskStore::options(options))?);
    let (_, home) = store.homes()?.into_iter().next().ok_or_else(|| {
        Failure::not_found("the store has no workspace", "start the demo again; it makes one")
    })?;
    let home = home?;
    // All begin together, or nobody would meet anybody.
    wait(&Told::Ready, out)?;
    let kill = plan::kill(verb.seed);
    let mut conflicts = 0;
    let steps = plan::steps(verb.seed, verb.writer);
    for (at, step) in steps.iter().enumerate().skip(verb.from) {
        // Nobody is done before the kill: it happens to a store that others are at work on.
        if at == steps.len() / 2 && verb.writer != kill.writer {
            wait(&Told::Half, out)?;
        }
        let dies = verb.dies && (verb.writer, at) == (kill.writer, kill.step);
        if dies {
            trap.set(kill.cut);
        }
        let mut ack = Ack {
            writer: name.to_owned(),
            step: at,
            what: step.name().to_owned(),
            id: String::new(),
            op_id: hex(plan::op_id(verb.seed, verb.writer, at)),
            first: 0,
            last: 0,
            tasks: Vec::new(),
            tokens_in: 0,
            tokens_out: 0,
        };
        let done = loop {
            let (op, options) = request(&home, step, &mut ack)?;
            let options = options.op_id(plan::op_id(verb.seed, verb.writer, at));
            match home.commit(vec![op], options.durability(Durability::Durable)) {
                // Somebody else has changed it since it was read. Nothing was written: read it again.
                Err(e) if matches!(e.kind(), ErrorKind::Conflict(_)) => conflicts += 1,
                done => break done?,
            }
        };
        if dies {
            let (message, remedy) = ("a write that was to be torn was whole", "report this with the seed");
            return Err(Failure::Own {
                code: "refused",
                message: message.into(),
                remedy: remedy.into(),
                file: None,
            });
        }
        // What is so already is not written again, and there is nothing to be lost.
        if done.count == 0 {
            continue;
        }
        ack.first = done.first.0;
        ack.last = done.last().0;
        ack.tasks =
            done.tasks.iter().map(|(id, token)| (id.to_string(), token.revision.0, token.at.seq.0)).collect();
        out.line(&Told::Ack(ack).line())?;
        out.flush()?;
    }
    home.workspace().clone().close()?;
    out.line(&Told::Done { conflicts }.line())
}

/// Says how far it is, and waits for the answer.
fn wait(told: &Told, out: &mut Out) -> Result<(), Failure> {
    out.line(&told.line())?;
    out.flush()?;
    // An end without an answer is one too: whoever would have given it is gone, and hears nothing more.
    let _ = std::io::stdin().read_line(&mut String::new());
    Ok(())
}

/// A step as a request: what rests on what was read says so.
fn request(home: &Tasks, step: &Step, ack: &mut Ack) -> Result<(Op, CommitOptions), Failure> {
    let free = CommitOptions::new();
    let (Step::Use { id: name, .. }
    | Step::Rename { id: name, .. }
    | Step::Size { id: name, .. }
    | Step::Turn { id: name }
    | Step::Delegate { id: name, .. }
    | Step::Complete { id: name, .. }) = step;
    name.clone_into(&mut ack.id);
    let id = TaskId::new(name)?;
    Ok(match step {
        Step::Use { tokens_in, tokens_out, eighths, .. } => {
            let read = home.require(&id)?;
            let sum = |field: Field, more: u64| {
                let before = read.task.item.get(&field).and_then(Value::as_u64).unwrap_or(0);
                (field, before + more)
            };
            let (tokens, more) = (sum(Field::TokensIn, *tokens_in), sum(Field::TokensOut, *tokens_out));
            let cost = read.task.item.get(&Field::TotalCost).and_then(Value::as_f64).unwrap_or(0.0);
            #[expect(clippy::cast_precision_loss, reason = "at most four of them")]
            let cost = Value::parse(&(cost + *eighths as f64 / 8.0).to_string()).unwrap_or(Value::Int(0));
            let patch = Patch::new().set(tokens.0, tokens.1).set(more.0, more.1).set(Field::TotalCost, cost);
            (ack.tokens_in, ack.tokens_out) = (*tokens_in, *tokens_out);
            (Op::Patch { id: id.clone(), patch }, free.expect(&id, TaskExpect::At(read.token)))
        }
        Step::Rename { title, .. } => (Op::Rename { id, title: Value::text(title.as_str()) }, free),
        Step::Size { size, .. } => (Op::Patch { id, patch: Patch::new().set(Field::Size, *size) }, free),
        Step::Turn { .. } => match home.require(&id)?.task.status() {
            TaskStatus::Interrupted => (Op::Resume { id }, free),
            _ => (Op::SetStatus { id, status: TaskStatus::Interrupted }, free),
        },
        Step::Delegate { child, title, .. } => {
            let ts = child.parse::<u64>().unwrap_or(0);
            let child = Item::new(&TaskId::new(child)?).with(Field::Task, title.as_str());
            (Op::Delegate { parent: id, child: child.with(Field::Ts, ts) }, free)
        }
        Step::Complete { summary, .. } => {
            (Op::Complete { id, summary: Some(Value::text(summary.as_str())) }, free)
        }
    })
}
