//! Any bytes as a small legacy folder: reading it ends and changes nothing, and what is chosen parses, is the same a
//! second time, and has every record it is not equal to as evidence.
#![no_main]

use std::ops::ControlFlow;
use std::path::Path;

use foldlog::event::{Field, Item, Status};
use foldlog::legacy::Source;
use foldlog::vfs::sim::{Profile, SimMachine};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let machine = SimMachine::new(Profile::Linux, 1);
    for (path, bytes) in foldlog_fuzz::legacy_tree(data) {
        // A file may be in the way of a folder.
        let _ = machine.with_disk(|disk| disk.plant(&path, bytes));
    }
    let process = machine.process("reader");
    let before = machine.disk().content_hash();
    let read = || {
        let source = Source::find(&process, Path::new("/host"))?;
        source.read(&process, &mut |_| ControlFlow::Continue(()))
    };
    let found = match read() {
        Ok(found) => found,
        Err(e) => {
            assert!(matches!(e.code(), "not-found" | "unstable"), "{e}");
            return;
        }
    };
    assert_eq!(machine.disk().content_hash(), before);
    assert!(found.tasks.is_sorted_by(|a, b| a.id < b.id));
    for task in &found.tasks {
        let item = task.item();
        assert_eq!(&Item::parse(&item.to_json()).unwrap(), item);
        assert_eq!(item.text(&Field::Id).as_deref(), Some(task.id.as_str()));
        assert!(item.get(&Field::Status).is_none_or(|s| Status::of(&s.as_str().unwrap()).is_some()));
        assert!(task.kept.len() >= task.decision.kept.len());
    }
    let report = |found: &foldlog::legacy::Found| format!("{:?}", found.report());
    assert_eq!(report(&read().unwrap()), report(&found));
});
