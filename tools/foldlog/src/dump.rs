//! `foldlog dump`: the events, or the frames, of a store, a workspace or one segment's file.

use std::path::Path;

use foldlog::Seq;
use foldlog::event::{Event, kinds};
use foldlog::log::envelope::{Envelope, KeyKind, Preamble};
use foldlog::log::format::{EVENT_ELIDED, EVENT_NOTHING};
use foldlog::log::reader::Visit;
use foldlog::log::scan::Content;
use foldlog::store::inspect::{self, Inspection};
use foldlog::vfs::os::Os;
use foldlog_requests::Failure;
use foldlog_requests::event_json::event_line;
use foldlog_requests::event_json::rfc3339;
use foldlog_requests::json;

use crate::args::{Dump, Global};
use crate::decoded;
use crate::escape;
use crate::exit::Exit;
use crate::follow;
use crate::out::Out;
use crate::raw;
use crate::target::{self, What};

/// Runs the verb.
pub(crate) fn run(global: &Global, verb: &Dump, out: &mut Out) -> Result<Exit, Failure> {
    let what = match &verb.path {
        Some(path) => target::what(path)?,
        None => What::Store(target::root(global)?),
    };
    match what {
        What::File(_) if verb.follow => Err(Failure::usage(
            "a segment's file cannot be followed: the log goes on in others",
            "give its store or its workspace's folder",
        )),
        What::File(path) => segment(&path, verb, out),
        What::Workspace(dir) => {
            let name = target::name_of(&dir);
            let (exit, last) = workspace(&name, &dir, verb, false, out)?;
            // Behind damage nothing comes.
            if !verb.follow || exit == Exit::Damaged {
                return Ok(exit);
            }
            let root = dir.ancestors().nth(2).unwrap_or(&dir);
            Ok(exit.worse(follow::run(&target::open(root)?, &[(name, last)], verb, out)?))
        }
        What::Store(root) => {
            let store = target::open(&root)?;
            let subjects = target::subjects(&store, global)?;
            let (mut exit, several) = (Exit::Fine, subjects.len() > 1);
            let mut ends = Vec::new();
            for subject in &subjects {
                let mut keep = |(exit, last)| {
                    if exit != Exit::Damaged {
                        ends.push((subject.name.clone(), last));
                    }
                    exit
                };
                let done = workspace(&subject.name, &subject.dir, verb, several, out).map(&mut keep);
                exit = exit.worse(one_of(several, done, out)?);
            }
            if subjects.is_empty() {
                out.talk("the store has no workspace yet");
            }
            if verb.follow && !ends.is_empty() {
                exit = exit.worse(follow::run(&store, &ends, verb, out)?);
            }
            Ok(exit)
        }
    }
}

/// Among several workspaces one that cannot be looked at does not keep the others from being printed.
pub(crate) fn one_of(several: bool, done: Result<Exit, Failure>, out: &mut Out) -> Result<Exit, Failure> {
    match done {
        Err(failure @ Failure::Library(_)) if several => {
            out.error(&failure);
            Ok(Exit::of(&failure))
        }
        done => done,
    }
}

/// Returns the last event's number too.
fn workspace(name: &str, dir: &Path, verb: &Dump, head: bool, out: &mut Out) -> Result<(Exit, Seq), Failure> {
    if head && !out.json {
        out.line(&format!("workspace {name}"))?;
    }
    let mut printer = Printer { name: Some(name), verb, out, segment: None, failed: None, last: Seq(0) };
    let found = inspect::workspace(&Os, dir, &mut |visit| printer.visit(visit));
    let last = printer.last;
    Ok((printer.done(found?)?, last))
}

fn segment(path: &Path, verb: &Dump, out: &mut Out) -> Result<Exit, Failure> {
    let mut printer = Printer { name: None, verb, out, segment: None, failed: None, last: Seq(0) };
    let found = inspect::segment(&Os, path, &mut |visit| printer.visit(visit));
    printer.done(found?)
}

/// Prints frames as a look meets them.
struct Printer<'a> {
    /// The workspace; a lone file is named by its log.
    name: Option<&'a str>,
    verb: &'a Dump,
    out: &'a mut Out,
    /// The segment whose frames are being printed.
    segment: Option<foldlog::log::SegmentId>,
    failed: Option<Failure>,
    /// The last number that any frame took.
    last: Seq,
}

impl Printer<'_> {
    fn visit(&mut self, visit: &Visit<'_, '_>) {
        if self.failed.is_none() {
            self.failed = self.print(visit).err();
        }
    }

    fn print(&mut self, visit: &Visit<'_, '_>) -> Result<(), Failure> {
        let header = &visit.located.frame.header;
        self.last = self.last.max(Seq((header.seq + u64::from(header.count)).saturating_sub(1)));
        if (header.seq + u64::from(header.count)).saturating_sub(1) < self.verb.from {
            return Ok(());
        }
        if self.verb.raw {
            if self.segment.replace(visit.header.segment_id) != Some(visit.header.segment_id)
                && !self.out.json
            {
                self.out.line(&raw::segment_text(visit.header, visit.path))?;
            }
            let text = if self.out.json { raw::frame_json(visit) } else { raw::frame_text(visit) };
            return self.out.line(&text);
        }
        let Content::Commit(commit) = &visit.located.content else { return Ok(()) };
        let log;
        let name = match self.name {
            Some(name) => name,
            None => {
                log = visit.header.log_id.to_string();
                &log
            }
        };
        for event in commit.events() {
            if event.seq.0 + u64::from(event.takes) <= self.verb.from || !wanted(self.verb, &event) {
                continue;
            }
            let line = event_of(
                name,
                self.verb,
                self.out.json,
                &commit.preamble,
                (header.seq, header.count),
                &event,
            );
            self.out.line(&line)?;
        }
        Ok(())
    }

    /// Says what the look found, behind what it printed.
    fn done(self, found: Inspection) -> Result<Exit, Failure> {
        if let Some(failure) = self.failed {
            return Err(failure);
        }
        if self.verb.raw {
            for walked in &found.walk.segments {
                if self.out.json {
                    self.out.line(&raw::end_json(walked)?)?;
                } else {
                    self.out.line(&raw::end_text(walked)?)?;
                }
                if !walked.verdict.is_damage() {
                    // Behind damage they were handed out by the look itself.
                    let mut lines = Vec::new();
                    inspect::behind(&Os, walked, &mut |visit| {
                        lines.push(if self.out.json {
                            raw::frame_json(visit)
                        } else {
                            raw::frame_text(visit)
                        });
                    })?;
                    lines.iter().try_for_each(|line| self.out.line(line))?;
                }
            }
        }
        self.out.flush()?;
        found.findings.iter().for_each(|finding| self.out.tell(finding));
        Ok(Exit::of_severity(found.worst()))
    }
}

/// The line of one event. `frame`: the commit's first number, and how many it takes.
pub(crate) fn event_of(
    workspace: &str,
    verb: &Dump,
    json: bool,
    preamble: &Preamble,
    frame: (u64, u16),
    event: &Envelope<'_>,
) -> String {
    if !json {
        return event_text(preamble, event);
    }
    let mut line = event_line(workspace, preamble, frame.0, frame.1, event);
    if verb.decode && line.pop().is_some() {
        json::raw("event", decoded::json(event), &mut line);
        line.push('}');
    }
    line
}

/// Whether an event is one of the task and the kinds that were asked for.
pub(crate) fn wanted(verb: &Dump, event: &Envelope<'_>) -> bool {
    let of_task = |id: &String| event.key_kind == KeyKind::TASK && event.key == id;
    verb.task.as_ref().is_none_or(of_task) && (verb.kind.is_empty() || verb.kind.contains(&event.kind))
}

/// One event for people, on one line: what it says, and where this release cannot tell, its body.
pub(crate) fn event_text(preamble: &Preamble, event: &Envelope<'_>) -> String {
    let mut text = format!("{:>8}  {}  ", event.seq.0, rfc3339(preamble.time));
    let event_is = match event.kind {
        EVENT_ELIDED => return text + &format!("{} number(s) elided by compaction", event.takes),
        EVENT_NOTHING => {
            text += "nothing";
            None
        }
        kind => {
            match kinds::name(kind) {
                Some(name) => text += &format!("{name} v{}", event.version),
                None => text += &format!("kind {kind} v{}", event.version),
            }
            Event::decode(event).ok().flatten().map(|event| decoded::members(&event))
        }
    };
    if event.key_kind != KeyKind::NONE {
        text += &format!("  {}", event.to_key().to_string().escape_debug());
    }
    if event.revision.0 > 0 {
        text += &format!(" r{}", event.revision);
    }
    match event_is {
        Some(said) if said == "{}" => {}
        Some(said) => {
            let bytes = said.len() as u64;
            text += &format!("  {}", escape::short(escape::json(&said), bytes, false));
        }
        None if event.body.is_empty() => {}
        None => text += &format!("  {}", preview(event.body)),
    }
    text
}

/// The start of a body: as text where it is text, else as hex.
fn preview(body: &[u8]) -> String {
    const CHARS: usize = 60;
    match str::from_utf8(body) {
        Ok(text) => {
            let start: String = text.chars().take(CHARS).collect();
            let more =
                if start.len() < text.len() { format!("… {} bytes", body.len()) } else { String::new() };
            format!("{start:?}{more}")
        }
        Err(_) => {
            let hex: String = body.iter().take(CHARS / 2).map(|b| format!("{b:02x}")).collect();
            let more =
                if body.len() > CHARS / 2 { format!("… {} bytes", body.len()) } else { String::new() };
            format!("0x{hex}{more}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preview_is_short_and_cannot_steer_a_terminal() {
        assert_eq!(preview(b"a\x1b[31m"), "\"a\\u{1b}[31m\"");
        assert_eq!(preview(&[0xff, 1]), "0xff01");
        assert!(preview("ä".repeat(500).as_bytes()).ends_with("… 1000 bytes"));
        assert!(preview(&[0xff; 500]).ends_with("… 500 bytes"));
    }
}
