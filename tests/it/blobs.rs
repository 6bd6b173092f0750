//! Blobs without power cuts: what is stored, refused, missing, damaged, and put by several at once.

#![expect(clippy::unwrap_used, reason = "a test, all of it")]

use std::io;
use std::path::{Path, PathBuf};

use foldlog::log::format::BLOB_MAX;
use foldlog::store::inspect::{self, NamedBlobs};
use foldlog::vfs::sim::{Effect, End, Fault, Op, Plan, Profile, Program, SimMachine, SimProcess};
use foldlog::vfs::{FileKind, Vfs as _};
use foldlog::{
    BlobId, Durability, Error, ErrorKind, Finding, Receipt, Result, Seq, Severity, Status, Workspace,
};

use super::simulated::{folder, last, machine_with, note, open_on, options, paths, patient};

fn machine() -> SimMachine {
    machine_with(Profile::Linux, 1, &["0"])
}

pub(crate) fn content(len: usize, salt: u8) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8 ^ salt).collect()
}

/// One event that names these blobs.
pub(crate) fn commit(
    workspace: &Workspace,
    level: Durability,
    key: &str,
    blobs: Vec<BlobId>,
) -> Result<Receipt> {
    let event = note(key, "refers").blobs(blobs);
    workspace.commit(level, move |_, draft| {
        draft.push(event);
        Ok(())
    })
}

fn path(process: &SimProcess, id: &BlobId) -> PathBuf {
    paths(process).blob(id)
}

fn kind(error: &Error) -> &'static str {
    error.code()
}

/// Unfinished files anywhere under `blobs/`.
pub(crate) fn unfinished(machine: &SimMachine) -> Vec<String> {
    let tree = machine.disk().tree();
    tree.into_iter()
        .map(|(path, ..)| path)
        .filter(|p| p.contains("/blobs/") && p.contains("/.new-"))
        .collect()
}

fn findings(machine: &SimMachine) -> Vec<Finding> {
    let process = machine.process("looks");
    let mut named = NamedBlobs::default();
    let dir = folder(&process);
    inspect::workspace(&process, &dir, &mut |visit| named.note(visit)).unwrap();
    let mut found = Vec::new();
    named.check(&process, &dir, &mut |finding| found.push(finding));
    found
}

#[test]
fn blobs_are_named_by_their_contents_and_come_back() {
    let machine = machine();
    let process = machine.process("w");
    let (_store, workspace) = open_on(&process, options()).unwrap();
    let contents = [content(0, 0), content(1, 0), content(5_000, 1), content(300_000, 2), content(5_000, 1)];
    let slices: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
    let ids = workspace.put_blobs(&slices).unwrap();
    assert_eq!(ids.len(), contents.len());
    assert_eq!(ids[2], ids[4]);
    for (id, content) in ids.iter().zip(&contents) {
        assert_eq!(id.0, *blake3::hash(content).as_bytes());
        let hex = blake3::hash(content).to_hex().to_string();
        assert_eq!(id.to_string(), hex);
        assert_eq!(path(&process, id), folder(&process).join("blobs").join(&hex[..2]).join(&hex));
        assert_eq!(workspace.blob(id).unwrap(), *content);
    }
    assert_eq!(commit(&workspace, Durability::Durable, "a", ids.clone()).unwrap().first, Seq(2));
    assert_eq!((unfinished(&machine), findings(&machine)), (vec![], vec![]));
    // Who only reads has them too, and writes nothing.
    let (_store, reader) = open_on(&machine.process("r"), options().read_only(true)).unwrap();
    assert_eq!(reader.blob(&ids[3]).unwrap(), contents[3]);
    assert_eq!(kind(&reader.put_blobs(&[b"x"]).unwrap_err()), "read-only");
    assert!(workspace.put_blobs(&[]).unwrap().is_empty());
}

#[test]
fn blob_that_is_there_is_not_written_again() {
    let machine = machine();
    let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    let ids = workspace.put_blobs(&[&content(9_000, 1)]).unwrap();
    let (made, written) = (machine.calls(Op::Create), machine.calls(Op::Write));
    // Not even room is needed.
    machine.set_capacity(Some(machine.used()));
    assert_eq!(workspace.put_blobs(&[&content(9_000, 1)]).unwrap(), ids);
    assert_eq!((machine.calls(Op::Create), machine.calls(Op::Write)), (made, written));
    assert_eq!(workspace.blob(&ids[0]).unwrap(), content(9_000, 1));
    let full = workspace.put_blobs(&[&content(9_000, 2)]).unwrap_err();
    assert_eq!(kind(&full), "no-space");
    assert_eq!(unfinished(&machine), [""; 0]);
}

#[test]
fn blob_over_the_limit_is_refused_before_anything_is_written() {
    let machine = machine();
    let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    let before = super::crash_oracle::contents(&machine.disk());
    let large = vec![0; usize::try_from(BLOB_MAX).unwrap() + 1];
    let error = workspace.put_blobs(&[b"small", &large]).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::TooLarge { len, max: BLOB_MAX, .. } if *len == BLOB_MAX + 1),
        "{error}"
    );
    assert_eq!(super::crash_oracle::contents(&machine.disk()), before);
}

#[test]
fn missing_is_neither_empty_nor_damaged() {
    let machine = machine();
    let process = machine.process("w");
    let (_store, workspace) = open_on(&process, options()).unwrap();
    let id = BlobId::of(b"never stored");
    let missing = |workspace: &Workspace| {
        let error = workspace.blob(&id).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::BlobMissing { blob } if *blob == id), "{error}");
        assert_eq!(error.path(), path(&process, &id));
        assert!(error.to_string().contains(&id.to_string()) && !error.kind().remedy().is_empty());
    };
    missing(&workspace);
    workspace.put_blobs(&[b"another"]).unwrap();
    missing(&workspace);
    // An error of the system is no answer to whether it is there.
    machine.fault(Fault::on(Op::Open, Effect::Eio).path("/blobs/"));
    assert_eq!(kind(&workspace.blob(&id).unwrap_err()), "io");
    let there = workspace.put_blobs(&[b"there"]).unwrap()[0];
    machine.fault(Fault::on(Op::Read, Effect::Eio).path("/blobs/"));
    assert_eq!(kind(&workspace.blob(&there).unwrap_err()), "io");
    machine.fault(Fault::on(Op::Stat, Effect::Eio).path("/blobs/"));
    assert_eq!(kind(&commit(&workspace, Durability::Buffered, "a", vec![there]).unwrap_err()), "io");
    assert_eq!(last(&workspace), Seq(1));
    let _ = commit(&workspace, Durability::Buffered, "a", vec![there]).unwrap();
}

#[test]
fn commit_that_names_a_missing_blob_fails_alone() {
    let machine = machine();
    let process = machine.process("w");
    let (_store, workspace) = open_on(&process, patient()).unwrap();
    let there = workspace.put_blobs(&[b"there"]).unwrap()[0];
    let gone = workspace.put_blobs(&[b"gone"]).unwrap()[0];
    process.unlink(&path(&process, &gone)).unwrap();
    let before = super::crash_oracle::contents(&machine.disk());
    let error = commit(&workspace, Durability::Buffered, "a", vec![there, gone]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::BlobMissing { blob } if *blob == gone), "{error}");
    assert_eq!((super::crash_oracle::contents(&machine.disk()), last(&workspace)), (before, Seq(1)));
    // The same commit, with its blob stored again.
    workspace.put_blobs(&[b"gone"]).unwrap();
    assert_eq!(commit(&workspace, Durability::Buffered, "a", vec![there, gone]).unwrap().first, Seq(2));
    // Many threads, whose commits share batches: every third names what is not there.
    process.unlink(&path(&process, &gone)).unwrap();
    std::thread::scope(|scope| {
        for t in 0..6_usize {
            let workspace = workspace.clone();
            scope.spawn(move || {
                for i in 0..60_usize {
                    let blobs = [vec![], vec![there], vec![there, gone]][(t + i) % 3].clone();
                    let refused = blobs.contains(&gone);
                    let done = commit(&workspace, Durability::Buffered, &format!("t{t}"), blobs);
                    match done {
                        Ok(_) => assert!(!refused),
                        Err(e) => assert!(refused && e.code() == "blob-missing", "{e}"),
                    }
                }
            });
        }
    });
    assert_eq!(last(&workspace), Seq(2 + 240));
    assert_eq!(workspace.health().status, Status::Healthy);
}

/// A refused commit whose op id is new can be repeated under it: it has left nothing, its op id neither.
#[test]
fn commit_refused_for_a_missing_blob_leaves_no_op_id() {
    let machine = machine();
    let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    let id = BlobId::of(b"late");
    let send = || {
        workspace.commit(Durability::Durable, move |state, draft| {
            draft.operation(foldlog::OpId([5; 16]), b"request", state.last());
            draft.push(note("a", "refers").blobs([id]));
            Ok(())
        })
    };
    assert_eq!(kind(&send().unwrap_err()), "blob-missing");
    workspace.put_blobs(&[b"late"]).unwrap();
    let first = send().unwrap();
    assert_eq!((first.first, first.again), (Seq(2), false));
    // Once applied it is applied, whatever has become of the blob.
    let process = machine.process("x");
    process.unlink(&path(&process, &id)).unwrap();
    assert!(send().unwrap().again);
}

#[test]
fn commit_without_blobs_never_looks_at_them() {
    let machine = machine();
    let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    let id = workspace.put_blobs(&[b"x"]).unwrap()[0];
    let calls = |blobs: Vec<BlobId>| {
        let before = [Op::Stat, Op::Open, Op::Read, Op::List].map(|op| machine.calls(op));
        let _ = commit(&workspace, Durability::Buffered, "a", blobs).unwrap();
        let after = [Op::Stat, Op::Open, Op::Read, Op::List].map(|op| machine.calls(op));
        after.iter().zip(before).map(|(after, before)| after - before).sum::<u64>()
    };
    calls(vec![]);
    let plain = calls(vec![]);
    assert_eq!(calls(vec![id]), plain + 1);
    assert_eq!(calls(vec![]), plain);
    for op in [Op::Stat, Op::Open, Op::Read] {
        machine.fault(Fault::on(op, Effect::Eio).path("/blobs").always());
    }
    calls(vec![]);
}

#[test]
fn damaged_blob_is_a_finding_and_is_mended_by_storing_it_again() {
    let change: [fn(&mut Vec<u8>); 5] = [
        |bytes| bytes[4_000] ^= 1,
        |bytes| bytes.truncate(8_999),
        |bytes| bytes.push(0),
        Vec::clear,
        |bytes| bytes.fill(0),
    ];
    for change in change {
        let machine = machine();
        let process = machine.process("w");
        let (_store, workspace) = open_on(&process, options()).unwrap();
        let id = workspace.put_blobs(&[&content(9_000, 1)]).unwrap()[0];
        let _ = commit(&workspace, Durability::Durable, "a", vec![id]).unwrap();
        let file = path(&process, &id);
        machine.with_disk(|disk| disk.mutate(&file, change)).unwrap();
        let error = workspace.blob(&id).unwrap_err();
        let ErrorKind::Damaged(finding) = error.kind() else { panic!("{error}") };
        assert_eq!((finding.code, &finding.file), ("blob-damaged", &path(&process, &id)));
        assert!(!finding.remedy.is_empty());
        let found = findings(&machine);
        assert_eq!(
            found.iter().map(|f| (f.code, f.severity, f.seq, &*f.file)).collect::<Vec<_>>(),
            [("blob-damaged", Severity::Damage, Some(2), &*path(&process, &id))]
        );
        assert_eq!(workspace.health().findings, []);
        assert_eq!(workspace.put_blobs(&[&content(9_000, 1)]).unwrap(), [id]);
        assert_eq!(workspace.blob(&id).unwrap(), content(9_000, 1));
        assert_eq!(workspace.health().findings.iter().map(|f| f.code).collect::<Vec<_>>(), ["blob-mended"]);
        assert_eq!((findings(&machine), unfinished(&machine)), (vec![], vec![]));
    }
}

#[test]
fn length_is_bounded_before_anything_is_allocated() {
    let machine = machine();
    let process = machine.process("w");
    let (_store, workspace) = open_on(&process, options()).unwrap();
    let id = workspace.put_blobs(&[b"x"]).unwrap()[0];
    let file = process.open(&path(&process, &id), foldlog::vfs::Open::Write).unwrap();
    file.set_len(BLOB_MAX + 1).unwrap();
    let error = workspace.blob(&id).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Damaged(f) if f.message.contains("67108865 bytes")), "{error}");
}

#[test]
fn missing_and_unreadable_blobs_are_found() {
    let machine = machine();
    let process = machine.process("w");
    let (_store, workspace) = open_on(&process, options()).unwrap();
    let ids = workspace.put_blobs(&[b"one", b"two", b"three"]).unwrap();
    let _ = commit(&workspace, Durability::Durable, "a", vec![ids[0], ids[1]]).unwrap();
    let _ = commit(&workspace, Durability::Durable, "b", vec![ids[1], ids[2]]).unwrap();
    assert_eq!(findings(&machine), []);
    process.unlink(&path(&process, &ids[1])).unwrap();
    let found = findings(&machine);
    assert_eq!(found.len(), 1, "{found:?}");
    let Finding { severity, code, file, seq, .. } = &found[0];
    assert_eq!((*severity, *code, *seq), (Severity::Damage, "blob-missing", Some(2)));
    assert_eq!(*file, path(&process, &ids[1]));
    machine
        .fault(Fault::on(Op::Open, Effect::Fail(io::ErrorKind::PermissionDenied)).path(ids[2].to_string()));
    let mut found: Vec<_> = findings(&machine).iter().map(|f| (f.code, f.severity, f.seq)).collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [("blob-missing", Severity::Damage, Some(2)), ("blob-unreadable", Severity::Error, Some(3))]
    );
}

/// Something else stands where a blob, or a folder on the way to it, should be: nothing is read or written through it.
#[test]
fn what_is_no_file_is_neither_followed_nor_replaced() {
    let bytes = content(5_000, 3);
    let id = BlobId::of(&bytes);
    for case in 0..7 {
        let machine = machine();
        let process = machine.process("w");
        let (_store, workspace) = open_on(&process, options()).unwrap();
        let (blob, outside) = (path(&process, &id), Path::new("/outside"));
        let (sub, all) = (blob.parent().unwrap().to_path_buf(), paths(&process).blobs());
        machine.with_disk(|disk| {
            // What a link leads to is the very blob.
            disk.plant(outside.join("file"), &bytes).unwrap();
            match case {
                0 => disk.plant_symlink(&blob, outside.join("file")).unwrap(),
                1 => disk.plant_other(&blob).unwrap(),
                2 => disk.plant(blob.join("inside"), b"x").unwrap(),
                3 => disk.plant_symlink(&sub, outside).unwrap(),
                4 => disk.plant(&sub, b"x").unwrap(),
                5 => disk.plant_symlink(&all, outside).unwrap(),
                _ => disk.plant(&all, b"x").unwrap(),
            }
        });
        let before = super::crash_oracle::contents(&machine.disk());
        let error = workspace.put_blobs(&[&bytes]).unwrap_err();
        assert_eq!(kind(&error), "foreign", "{case}: {error}");
        let error = workspace.blob(&id).unwrap_err();
        assert_eq!(kind(&error), if case < 3 { "foreign" } else { "blob-missing" }, "{case}: {error}");
        let error = commit(&workspace, Durability::Buffered, "a", vec![id]).unwrap_err();
        assert_eq!(kind(&error), "blob-missing", "{case}: {error}");
        assert_eq!(super::crash_oracle::contents(&machine.disk()), before, "{case}");
        let there = process
            .stat(&if case < 3 {
                blob
            } else if case < 5 {
                sub
            } else {
                all
            })
            .unwrap()
            .kind;
        let kinds = [FileKind::Symlink, FileKind::Other, FileKind::Dir, FileKind::Symlink, FileKind::File];
        assert_eq!(there, kinds[if case < 5 { case } else { case - 2 }], "{case}");
    }
}

/// Every call of a put fails once, in every way: the answer is an error, nothing half is under a name, and the next try
/// does what the first should have.
#[test]
fn every_fault_leaves_a_blob_whole_or_absent() {
    use Op::{Create, CreateDir, Open, Read, Rename, Stat, Sync, SyncDir, Write};
    let contents = [content(9_000, 1), content(3, 2), content(9_000, 3)];
    let slices: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
    let effects = [
        Effect::Eio,
        Effect::Fail(io::ErrorKind::StorageFull),
        Effect::DoneButFails,
        Effect::Short(100),
        Effect::Short(0),
        Effect::DropsPages,
    ];
    let (mut faults, mut failed) = (0, 0);
    for op in [Create, CreateDir, Open, Read, Rename, Stat, Sync, SyncDir, Write] {
        for effect in effects {
            if matches!(effect, Effect::Short(_)) && !matches!(op, Read | Write)
                || effect == Effect::DropsPages && op != Sync
            {
                continue;
            }
            for nth in 1.. {
                let why = format!("{op:?} {effect:?} at {nth}");
                let machine = machine();
                let process = machine.process("w");
                let (_store, workspace) = open_on(&process, options()).unwrap();
                // The second is there already.
                workspace.put_blobs(&slices[1..2]).unwrap();
                let before = machine.calls(op);
                machine.fault(Fault::on(op, effect).path("/workspaces/").nth(nth));
                let put = workspace.put_blobs(&slices);
                let made = machine.calls(op) - before;
                machine.clear_faults();
                faults += 1;
                failed += u64::from(put.is_err());
                if let Err(e) = &put {
                    let expected = if matches!(effect, Effect::Fail(_)) { "no-space" } else { "io" };
                    assert_eq!(kind(e), expected, "{why}: {e}");
                    assert!(e.path().starts_with(folder(&process)), "{why}: {e}");
                }
                // An answer that was lost in creating leaves an empty file, which nobody can tell from another's.
                if (op, effect) != (Create, Effect::DoneButFails) {
                    assert_eq!(unfinished(&machine), [""; 0], "{why}");
                }
                for content in &contents {
                    match workspace.blob(&BlobId::of(content)) {
                        Ok(bytes) => assert_eq!(bytes, *content, "{why}"),
                        Err(e) => assert!(put.is_err() && kind(&e) == "blob-missing", "{why}: {e}"),
                    }
                }
                let ids = workspace.put_blobs(&slices).unwrap_or_else(|e| panic!("{why}: {e}"));
                let _ = commit(&workspace, Durability::Durable, "a", ids).unwrap();
                assert_eq!(
                    (findings(&machine), workspace.health().status),
                    (vec![], Status::Healthy),
                    "{why}"
                );
                if made < nth {
                    break;
                }
            }
        }
    }
    println!("{faults} faults, {failed} failed a put");
    assert!(failed >= 60, "{faults} faults, {failed} failed");
}

/// The disk runs full at any page.
#[test]
fn full_disk_leaves_nothing_half() {
    let contents = [content(9_000, 1), content(20_000, 2)];
    let slices: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
    for pages in 0..9 {
        let machine = machine();
        let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
        let used = machine.used();
        machine.set_capacity(Some(used + pages * 4096));
        let put = workspace.put_blobs(&slices);
        assert_eq!(put.as_ref().err().map(kind), (pages < 8).then_some("no-space"), "{pages}");
        assert_eq!(unfinished(&machine), [""; 0]);
        let there = if pages >= 3 { 3 } else { 0 } + if pages >= 8 { 5 } else { 0 };
        assert_eq!(machine.used(), used + there * 4096, "room is given back");
        if pages >= 3 {
            assert_eq!(
                workspace.blob(&BlobId::of(&contents[0])).unwrap(),
                contents[0],
                "reading needs no room"
            );
        }
        machine.set_capacity(None);
        workspace.put_blobs(&slices).unwrap();
    }
}

#[test]
fn poisoned_workspace_stores_no_blobs_before_it_is_copied_and_has_those_it_has() {
    let machine = machine();
    let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    let id = workspace.put_blobs(&[b"x"]).unwrap()[0];
    machine.fault(Fault::on(Op::Sync, Effect::DropsPages).path(".seg"));
    machine.fault(Fault::on(Op::Create, Effect::Eio).path("/log/.new-"));
    commit(&workspace, Durability::Durable, "a", vec![id]).unwrap_err();
    assert_eq!(kind(&workspace.put_blobs(&[b"y"]).unwrap_err()), "durability-lost");
    assert_eq!(workspace.blob(&id).unwrap(), b"x");
    machine.advance(std::time::Duration::from_secs(2));
    workspace.put_blobs(&[b"y"]).unwrap();
}

#[test]
fn forked_child_is_told_so() {
    let machine = machine();
    let process = machine.process("w");
    let (_store, workspace) = open_on(&process, options()).unwrap();
    let id = workspace.put_blobs(&[b"x"]).unwrap()[0];
    process.become_forked_child();
    assert_eq!(kind(&workspace.put_blobs(&[b"x"]).unwrap_err()), "forked");
    assert_eq!(kind(&workspace.blob(&id).unwrap_err()), "forked");
}

#[test]
fn threads_may_store_the_same_contents_at_once() {
    let store = foldlog::Store::memory(patient()).unwrap();
    let workspace = store.workspace(&super::simulated::place()).unwrap();
    let id = BlobId::of(&content(70_000, 0));
    std::thread::scope(|scope| {
        for t in 0..4 {
            let workspace = workspace.clone();
            scope.spawn(move || {
                for i in 0..40 {
                    let own = content(100 + i, t);
                    let ids =
                        workspace.put_blobs(&[&content(70_000, 0), &own, &content(50, i as u8)]).unwrap();
                    assert_eq!(ids[0], id);
                    for (id, content) in ids.iter().zip([content(70_000, 0), own, content(50, i as u8)]) {
                        assert_eq!(workspace.blob(id).unwrap(), content);
                    }
                    let _ = commit(&workspace, Durability::Buffered, "a", ids).unwrap();
                }
            });
        }
    });
    assert_eq!(last(&workspace), Seq(160));
    assert_eq!(workspace.health().findings, []);
}

/// The same, on the real file system.
#[test]
fn threads_may_store_the_same_files_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let os = std::sync::Arc::new(foldlog::vfs::os::Os);
    let open = || {
        let store = foldlog::Store::open_on(os.clone(), dir.path(), patient()).unwrap();
        let workspace = store.workspace(&super::simulated::place()).unwrap();
        (store, workspace)
    };
    let (_store, workspace) = open();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let workspace = workspace.clone();
            scope.spawn(move || {
                for i in 0..8 {
                    let bytes = content(20_000, i);
                    let id = workspace.put_blobs(&[&bytes]).unwrap()[0];
                    assert_eq!(workspace.blob(&id).unwrap(), bytes);
                    let _ = commit(&workspace, Durability::Durable, "a", vec![id]).unwrap();
                }
            });
        }
    });
    let blobs = workspace.log().paths().blobs();
    let names: Vec<String> = os
        .list(&blobs)
        .unwrap()
        .iter()
        .flat_map(|sub| os.list(&blobs.join(&sub.name)).unwrap())
        .map(|entry| entry.name)
        .collect();
    assert_eq!(names.len(), 8, "{names:?}");
}

/// Two processes store the same contents and commit, in every order of their calls that some seeds give, on every
/// platform, and one of them may be killed.
#[test]
fn processes_may_store_the_same_contents_at_once() {
    let contents = [content(9_000, 1), content(40, 2)];
    let slices: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
    let (mut raced, mut killed) = (0, 0);
    for seed in 0..super::simulated::budget(600) {
        let profile = [Profile::Linux, Profile::Mac, Profile::Windows][seed as usize % 3];
        let machine = machine_with(profile, seed, &[]);
        let program = |label: &'static str| {
            let slices = &slices;
            Program::new(label, move |process| {
                let (_store, workspace) = open_on(&process, options()).unwrap();
                let ids = workspace.put_blobs(slices).unwrap();
                let _ = commit(&workspace, Durability::Buffered, label, ids.clone()).unwrap();
                for (id, content) in ids.iter().zip(slices) {
                    assert_eq!(workspace.blob(id).unwrap(), *content);
                }
            })
        };
        let mut plan = Plan::new();
        if seed % 4 == 3 {
            plan = plan.kill("a", 30 + seed / 4 % 60, foldlog::vfs::sim::Kill::Half);
        }
        let run = machine.run(seed, vec![program("a"), program("b")], &plan);
        assert_eq!(run.panics(), [""; 0], "{run}");
        let a_is_killed = run.ends[0].1 == End::Killed;
        killed += u64::from(a_is_killed);
        let made =
            run.trace.iter().filter(|c| c.op == Op::Create && c.path.to_string_lossy().contains("/blobs/"));
        raced += u64::from(made.count() > 2);
        assert!(a_is_killed || unfinished(&machine).is_empty(), "{run}");
        assert_eq!(findings(&machine), [], "{run}");
        let (_store, workspace) = open_on(&machine.process("c"), options()).unwrap();
        assert_eq!(workspace.health().status, Status::Healthy);
        assert!(last(&workspace) >= Seq(2 - u64::from(a_is_killed)), "{run}");
    }
    println!("{raced} schedules in which both wrote, {killed} in which one was killed");
    assert!(raced >= 5 && killed >= 5, "{raced} {killed}");
}
