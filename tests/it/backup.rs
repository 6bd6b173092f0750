//! Backup and restore on a real disk: what is in a copy, what it shares, where none is made, and that neither side ever
//! changes the other.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests look at the disk behind the engine's back"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use foldlog::event::{Event, Fence, Field, Item, Patch};
use foldlog::session::Liveness;
use foldlog::store::inspect;
use foldlog::vfs::os::Os;
use foldlog::vfs::{Open, Vfs};
use foldlog::view::{BACKUPS_MAX, Index};
use foldlog::{
    CopyOptions, CopyReport, Durability, ErrorKind, Housekeeping, Link, Options, Phase, Place, Recovery, Seq,
    Severity, State, Store, TaskStore, Tasks, Vocabulary,
};

use crate::task_rules::id;
use crate::worker::bytes_of;

/// Something that happens to a backup, and its name.
type Damage = (&'static str, fn(&Path));

fn options() -> Options {
    Options::default().housekeeping(Housekeeping::Off).segment_size(4096).label("the writer")
}

fn place() -> Place {
    Place::Key("project".into())
}

fn open(root: &Path, options: Options) -> (TaskStore, Tasks) {
    let store = TaskStore::open(root, options).unwrap();
    let home = store.home(&place()).unwrap();
    (store, home)
}

fn create(tasks: &Tasks, name: &str) {
    let item = Item::new(&id(name)).with(Field::Mode, "m".repeat(300).as_str());
    let _ = tasks.create(item, Durability::Durable).unwrap();
}

/// A store with some sealed segments and a blob, open.
fn filled(root: &Path) -> (TaskStore, Tasks) {
    let (store, tasks) = open(root, options());
    (0..30).for_each(|i| create(&tasks, &format!("t{i}")));
    let large = Patch::new().set(Field::Task, "large ".repeat(20_000).as_str());
    let _ = tasks.patch(&id("t3"), large, Durability::Durable).unwrap();
    create(&tasks, "last");
    (store, tasks)
}

fn hash(tasks: &Tasks) -> blake3::Hash {
    tasks.workspace().log().read(State::hash).unwrap()
}

fn segments(root: &Path) -> Vec<PathBuf> {
    let mut workspaces =
        std::fs::read_dir(root.join("workspaces")).unwrap().map(|entry| entry.unwrap().path());
    let is_ours = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("project-");
    let workspace = workspaces.find(is_ours).unwrap();
    let mut all: Vec<_> =
        std::fs::read_dir(workspace.join("log")).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

/// The segments by name, each with whether the other store has the very same file.
fn shared(one: &Path, other: &Path) -> Vec<bool> {
    let file = |path: &Path| Os.open(path, Open::Read).unwrap().stat().unwrap().id;
    let others: Vec<_> = segments(other).iter().map(|path| file(path)).collect();
    segments(one).iter().map(|path| others.contains(&file(path))).collect()
}

fn code(result: foldlog::Result<CopyReport>) -> (&'static str, String) {
    let error = result.map(|report| report.target).unwrap_err();
    assert!(!error.path().as_os_str().is_empty() && !error.kind().remedy().is_empty(), "{error:?}");
    (error.code(), error.to_string())
}

#[test]
fn backup_has_all_there_was_and_shares_what_is_sealed() {
    let dir = tempfile::tempdir().unwrap();
    let (root, target) = (dir.path().join("store"), dir.path().join("far/away/backup"));
    let (store, tasks) = filled(&root);
    let before = hash(&tasks);
    let other = store.home(&Place::None).unwrap();
    create(&other, "elsewhere");
    let report = store.store().backup(&target, &CopyOptions::default()).unwrap();
    assert!(report.is_whole() && report.workspaces.len() == 2 && report.dead_sessions == 0, "{report:?}");
    assert_eq!(report.target, std::fs::canonicalize(&target).unwrap());
    assert_eq!(report.store_id, store.store().meta().store_id);
    let copy = report.workspaces.iter().find(|copy| copy.name == tasks.workspace().name()).unwrap();
    assert_eq!((copy.state_hash, copy.log, copy.blobs), (before, tasks.workspace().log().id(), 1));
    assert_eq!(copy.cursor, tasks.workspace().log().read(State::cursor).unwrap());
    assert_eq!(copy.seq(), copy.cursor.seq);
    let files = segments(&root).len() as u64;
    assert!(copy.segments > 3, "{copy:?}");
    // The successor that was prepared is nobody's yet, and stays behind.
    assert!(files - copy.segments as u64 <= 1, "{copy:?} of {files}");
    assert_eq!(copy.linked.files, copy.segments as u64 - 1 + 1, "all but the last segment, and the blob");
    assert_eq!(copy.copied.files, 1, "{copy:?}");
    let last = std::fs::metadata(segments(&target).last().unwrap()).unwrap().len();
    assert_eq!(copy.copied.bytes, last);
    let shares = shared(&target, &root);
    assert!(shares.iter().rev().skip(1).all(|is| *is) && !shares.last().unwrap(), "{shares:?}");
    // Nothing of whoever is alive.
    assert_eq!(std::fs::read_dir(target.join("sessions")).unwrap().count(), 0);
    let workspace = target.join("workspaces").join(tasks.workspace().name());
    let mut names: Vec<_> = std::fs::read_dir(&workspace)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["COMPACT", "LOCK", "META", "SYNC0", "SYNC1", "blobs", "log", "quarantine"]);
    let mut names: Vec<_> = std::fs::read_dir(&target)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["BIND", "META", "sessions", "workspaces"]);
    let reader = TaskStore::open(&target, options().read_only(true)).unwrap();
    let copied = reader.home(&place()).unwrap();
    assert_eq!(copied.workspace().open_report().findings, []);
    assert_eq!(hash(&copied), before);
    let task = copied.get("t3").unwrap().unwrap();
    assert_eq!(task.task.item.text(&Field::Task).unwrap(), "large ".repeat(20_000));
    assert_eq!(inspect::workspace(&Os, &workspace, &mut |_| {}).unwrap().worst(), None);
}

#[test]
fn backup_of_one_workspace_has_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let (root, target) = (dir.path().join("store"), dir.path().join("backup"));
    let (store, tasks) = filled(&root);
    create(&store.home(&Place::None).unwrap(), "elsewhere");
    let name = tasks.workspace().name();
    let report =
        store.store().backup(&target, &CopyOptions::default().workspace(name).link(Link::Never)).unwrap();
    assert_eq!(report.workspaces.iter().map(|copy| copy.name.as_str()).collect::<Vec<_>>(), [name]);
    assert!(shared(&target, &root).iter().all(|is| !is), "nothing was to be shared");
    assert_eq!(report.workspaces[0].linked.files, 0);
    assert_eq!(Store::open(&target, options().read_only(true)).unwrap().workspace_names().unwrap(), [name]);
    let absent = store.store().backup(dir.path().join("b2"), &CopyOptions::default().workspace("none"));
    assert_eq!(code(absent).0, "not-found");
    assert!(!dir.path().join("b2").exists());
}

/// A writer appends to the last segment alone, which was copied; what mends a log writes files of new names.
#[test]
fn whatever_becomes_of_the_backup_the_store_stays_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let (store, tasks) = filled(&root);
    tasks.workspace().clone().close().unwrap();
    let damages: [Damage; 5] = [
        ("nothing", |_| {}),
        ("the end is torn", |target| {
            let last = segments(target).pop().unwrap();
            let mut bytes = std::fs::read(&last).unwrap();
            bytes.truncate(bytes.len() - 5);
            std::fs::write(&last, bytes).unwrap();
        }),
        ("the last segment's header is damaged", |target| {
            let last = segments(target).pop().unwrap();
            let mut bytes = std::fs::read(&last).unwrap();
            bytes[40] ^= 1;
            std::fs::write(&last, bytes).unwrap();
        }),
        ("the last segment is gone", |target| std::fs::remove_file(segments(target).pop().unwrap()).unwrap()),
        ("a segment in the middle is gone", |target| std::fs::remove_file(&segments(target)[2]).unwrap()),
    ];
    for (i, (what, damage)) in damages.into_iter().enumerate() {
        let target = dir.path().join(format!("backup{i}"));
        let _ = store.store().backup(&target, &CopyOptions::default()).unwrap();
        assert!(shared(&target, &root)[0], "nothing is shared, so nothing is proven");
        let before = bytes_of(&root);
        damage(&target);
        let mender =
            Store::open(&target, Options::default().vocabulary(Vocabulary::all()).segment_size(4096))
                .unwrap();
        let workspace = mender.workspace(&place()).unwrap();
        let _ = workspace.log().repair().unwrap_or_else(|e| panic!("{what}: {e}"));
        workspace.close().unwrap();
        drop(mender);
        let (copy, copied) = open(&target, options());
        (0..40).for_each(|i| create(&copied, &format!("later{i}")));
        copied.workspace().clone().close().unwrap();
        drop((copy, copied));
        assert!(bytes_of(&root) == before, "{what}: the store has changed");
    }
    assert!(tasks.get("last").unwrap().is_some());
}

/// Two faults at once: the segment that both share is damaged, and the backup has lost the one behind it. Mending the backup
/// would write into the shared file; it gets one of its own.
#[test]
fn repair_of_a_backup_writes_into_no_file_of_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let (root, target) = (dir.path().join("store"), dir.path().join("backup"));
    let (store, tasks) = filled(&root);
    tasks.workspace().clone().close().unwrap();
    let _ = store.store().backup(&target, &CopyOptions::default()).unwrap();
    drop((store, tasks));
    let all = segments(&target);
    let mut bytes = std::fs::read(&all[0]).unwrap();
    bytes[600] ^= 1;
    // In place: an editor that writes a new file would have parted them.
    let file = Os.open(&all[0], Open::Write).unwrap();
    foldlog::vfs::write_full(&*file, &bytes, 0).unwrap();
    drop(file);
    all[1..].iter().for_each(|path| std::fs::remove_file(path).unwrap());
    let before = bytes_of(&root);
    assert!(shared(&target, &root)[0]);
    let mender = Store::open(&target, Options::default().vocabulary(Vocabulary::all())).unwrap();
    let report = mender.workspace(&place()).unwrap().log().repair().unwrap();
    assert!(!report.steps.is_empty());
    assert!(bytes_of(&root) == before, "the store has changed");
}

#[test]
fn place_that_is_taken_is_refused_and_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let (store, tasks) = filled(&root);
    let backup = dir.path().join("backup");
    let _ = store.store().backup(&backup, &CopyOptions::default()).unwrap();
    let full = dir.path().join("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("notes.txt"), "mine").unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    let unfinished = dir.path().join("unfinished");
    std::fs::create_dir(&unfinished).unwrap();
    std::fs::write(unfinished.join("UNFINISHED"), "").unwrap();
    let before = bytes_of(dir.path());
    let restore = |target: &Path| code(TaskStore::restore(&backup, target, &CopyOptions::default()));
    for (target, says) in [
        (&full, "the folder is not empty: notes.txt is in it"),
        (&file, "it is no folder"),
        (&unfinished, "was never finished"),
        (&backup, "a store is there; nobody has it open"),
    ] {
        for (code, text) in [code(store.store().backup(target, &CopyOptions::default())), restore(target)] {
            assert!(code == "occupied" && text.contains(says), "{target:?}: {text}");
        }
    }
    // A store that is alive, and who has it open.
    let (code_of, text) = restore(&root);
    assert!(code_of == "occupied" && text.contains("in use by the writer (pid"), "{text}");
    for inside in [root.join("backup"), root.join("workspaces/x/y")] {
        let (code, text) = code(store.store().backup(&inside, &CopyOptions::default()));
        assert!(code == "invalid" && text.contains("lies in the store"), "{text}");
    }
    assert!(bytes_of(dir.path()) == before, "something was touched");
    drop((store, tasks));
    let text = restore(&root).1;
    assert!(
        text.contains("a store is there; nobody has it open"),
        "a dead one is not overwritten either: {text}"
    );
    // What was never finished says so to whoever opens it, and so does an older release, which knows no such file.
    let error = Store::open(&unfinished, options()).unwrap_err();
    assert!(error.code() == "foreign" && error.to_string().contains("never finished"), "{error}");
}

#[test]
fn empty_folder_of_the_users_own_may_be_the_target_and_stays_at_failure() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _tasks) = filled(&dir.path().join("store"));
    let target = dir.path().join("mine");
    std::fs::create_dir(&target).unwrap();
    let cancelled = CopyOptions::default().cancel(Arc::new(AtomicBool::new(true)));
    assert_eq!(code(store.store().backup(&target, &cancelled)).0, "cancelled");
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0, "the folder is there, and empty again");
    let _ = store.store().backup(&target, &CopyOptions::default()).unwrap();
    let absent = dir.path().join("absent");
    assert_eq!(code(store.store().backup(&absent, &cancelled)).0, "cancelled");
    assert!(!absent.exists());
}

#[test]
fn progress_goes_up_and_cancelling_at_any_step_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _tasks) = filled(&dir.path().join("store"));
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let watched =
        CopyOptions::default().on_progress(move |progress| told.lock().unwrap().push(progress.clone()));
    let _ = store.store().backup(dir.path().join("whole"), &watched).unwrap();
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.first().unwrap().phase, Phase::Reading);
    assert_eq!(seen.last().unwrap().phase, Phase::Verifying);
    let copying: Vec<_> = seen.iter().filter(|progress| progress.phase == Phase::Copying).collect();
    assert!(copying.len() > 3 && copying.windows(2).all(|pair| pair[0].done < pair[1].done), "{copying:?}");
    assert!(copying.iter().all(|progress| progress.done <= progress.total), "{copying:?}");
    for step in 0..seen.len() {
        let (cancel, steps) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
        let set = Arc::clone(&cancel);
        let options = CopyOptions::default().cancel(cancel).on_progress(move |_| {
            set.store(steps.fetch_add(1, Ordering::Relaxed) >= step, Ordering::Release);
        });
        let target = dir.path().join("cancelled");
        match store.store().backup(&target, &options) {
            // Behind the last step nobody asks any more.
            Ok(_) => assert_eq!(step, seen.len() - 1),
            Err(e) => {
                assert_eq!(e.code(), "cancelled", "{e}");
                assert!(!target.exists(), "step {step}");
            }
        }
    }
}

#[test]
fn damaged_store_is_refused_or_copied_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let (store, tasks) = filled(&root);
    tasks.workspace().clone().close().unwrap();
    drop((store, tasks));
    let damaged = segments(&root)[1].clone();
    let mut bytes = std::fs::read(&damaged).unwrap();
    bytes[1000] ^= 4;
    std::fs::write(&damaged, bytes).unwrap();
    let reader = TaskStore::open(&root, options().read_only(true)).unwrap();
    let (code_of, text) = code(reader.backup(dir.path().join("no"), &CopyOptions::default()));
    assert!(code_of == "damaged" && text.contains(damaged.file_name().unwrap().to_str().unwrap()), "{text}");
    assert!(!dir.path().join("no").exists());
    let target = dir.path().join("as-it-is");
    let report = reader.backup(&target, &CopyOptions::default().as_it_is(true)).unwrap();
    assert!(!report.is_whole() && report.worst() == Some(Severity::Damage), "{report:?}");
    assert!(report.workspaces[0].findings.iter().any(|finding| finding.file == damaged), "{report:?}");
    let names = |root: &Path| -> Vec<_> {
        segments(root)
            .iter()
            .map(|path| (path.file_name().unwrap().to_owned(), std::fs::read(path).unwrap()))
            .collect()
    };
    assert!(names(&root) == names(&target), "not byte for byte");
    assert!(shared(&target, &root).iter().all(|is| !is), "a damaged file may yet be written");
    // And it can be repaired there.
    let mender = Store::open(&target, Options::default().vocabulary(Vocabulary::all())).unwrap();
    let workspace = mender.workspace(&place()).unwrap();
    assert!(!workspace.log().repair().unwrap().steps.is_empty());
    drop((workspace, mender));
    let (_store, tasks) = open(&target, options());
    assert!(tasks.get("last").unwrap().is_some(), "what lies behind the damage came along");
    // A backup that is damaged is not restored, unless that is asked for.
    let restored = dir.path().join("restored");
    assert_eq!(code(TaskStore::restore(&root, &restored, &CopyOptions::default())).0, "damaged");
    assert!(!restored.exists());
    let report = TaskStore::restore(&root, &restored, &CopyOptions::default().as_it_is(true)).unwrap();
    assert!(!report.is_whole());
}

#[test]
fn blob_that_is_missing_or_damaged_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let (store, tasks) = filled(&root);
    let backup = dir.path().join("backup");
    let _ = store.store().backup(&backup, &CopyOptions::default().link(Link::Never)).unwrap();
    let blob = |root: &Path| {
        let blobs = root.join("workspaces").join(tasks.workspace().name()).join("blobs");
        let folder = std::fs::read_dir(blobs).unwrap().next().unwrap().unwrap().path();
        std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path()
    };
    for link in [Link::Auto, Link::Never] {
        let good = std::fs::read(blob(&root)).unwrap();
        std::fs::write(blob(&root), "other bytes").unwrap();
        let (code_of, text) =
            code(store.store().backup(dir.path().join("no"), &CopyOptions::default().link(link)));
        assert!(code_of == "damaged" && text.contains(blob(&root).to_str().unwrap()), "{text}");
        let target = dir.path().join(format!("as-it-is-{link:?}"));
        let report =
            store.store().backup(&target, &CopyOptions::default().link(link).as_it_is(true)).unwrap();
        assert!(!report.is_whole() && report.workspaces[0].findings.iter().any(|f| f.code == "blob-damaged"));
        assert_eq!(std::fs::read(blob(&target)).unwrap(), b"other bytes");
        std::fs::write(blob(&root), good).unwrap();
    }
    std::fs::remove_file(blob(&backup)).unwrap();
    for result in [
        TaskStore::restore(&backup, dir.path().join("r"), &CopyOptions::default()),
        Store::open(&backup, options().read_only(true))
            .unwrap()
            .backup(dir.path().join("r"), &CopyOptions::default()),
    ] {
        assert_eq!(code(result).0, "blob-missing");
        assert!(!dir.path().join("r").exists());
    }
}

#[test]
fn note_of_a_backup_is_in_the_log_and_in_no_hash() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let (store, tasks) = filled(&root);
    let before = hash(&tasks);
    let report = store.backup(dir.path().join("one"), &CopyOptions::default()).unwrap();
    let noted = report.workspaces[0].recorded.as_ref().unwrap().as_ref().unwrap();
    assert_eq!(hash(&tasks), before, "an older release, which passes it over, comes to the same state");
    let backups = |tasks: &Tasks| tasks.read(|_, index| index.backups().to_vec()).unwrap();
    let [one] = backups(&tasks).try_into().unwrap();
    assert_eq!(
        (&*one.target, one.covers, one.seq),
        (report.target.to_str().unwrap(), report.workspaces[0].seq(), *noted)
    );
    assert!(one.time > 0 && one.covers < one.seq);
    let report = store.backup(dir.path().join("two"), &CopyOptions::default()).unwrap();
    drop((store, tasks));
    // The second backup knows of the first, and both are known to whoever reads anew.
    let (_store, copied) = open(&report.target, options().read_only(true));
    assert_eq!(backups(&copied).iter().map(|b| b.seq).collect::<Vec<_>>(), [*noted]);
    let (_store, tasks) = open(&root, options().read_only(true));
    assert_eq!(backups(&tasks).len(), 2);
    // Who only reads notes nothing, and may have it noted by another handle.
    let (reader, _) = open(&root, options().read_only(true));
    let mut report = reader.backup(dir.path().join("three"), &CopyOptions::default()).unwrap();
    assert!(report.workspaces[0].recorded.is_none());
    let (writer, tasks) = open(&root, options());
    writer.record_backup(&mut report);
    assert!(matches!(report.workspaces[0].recorded, Some(Ok(_))), "{report:?}");
    assert_eq!(backups(&tasks).len(), 3);
}

/// A commit that does not reach the disk is taken back with all it said, and the list has a bound.
#[test]
fn note_of_a_backup_is_taken_back_with_its_commit_and_the_oldest_are_forgotten() {
    use foldlog::log::fold::{Fold as _, Meanings};
    let dir = tempfile::tempdir().unwrap();
    let (_store, tasks) = open(&dir.path().join("store"), options());
    let note = |covers: u64| Event::BackedUp { target: format!("/b{covers}").into(), covers: Seq(covers) };
    let refused = tasks.workspace().log().commit(Durability::Buffered, move |_, draft| {
        draft.push(note(7).to_new(foldlog::Key::none()));
        Err(foldlog::Error::refused("no"))
    });
    assert_eq!(refused.unwrap_err().code(), "refused");
    for first in [0, 600] {
        let _ = tasks
            .workspace()
            .log()
            .commit(Durability::Buffered, move |_, draft| {
                (first..first + 600).for_each(|n| {
                    draft.push(note(n).to_new(foldlog::Key::none()));
                });
                Ok(())
            })
            .unwrap();
    }
    let covers = |index: &Index| index.backups().iter().map(|b| b.covers.0).collect::<Vec<_>>();
    let all = tasks.read(|_, index| covers(index)).unwrap();
    assert!(all.len() == BACKUPS_MAX && all.into_iter().eq(200..1200));
    // The fold by itself: applied to be taken back.
    let mut index = Index::default();
    let mut stages = Vec::new();
    tasks
        .workspace()
        .log()
        .replay(
            || (),
            |(), _, commit| {
                stages.push(covers(&index));
                index.apply(commit, Meanings::unknown(), true);
            },
        )
        .unwrap();
    assert_eq!(covers(&index).len(), BACKUPS_MAX);
    for before in stages.into_iter().rev() {
        index.take_back();
        assert_eq!(covers(&index), before);
    }
}

#[test]
fn restored_store_is_its_own_and_its_old_owners_are_dead() {
    let dir = tempfile::tempdir().unwrap();
    let (root, backup, target) =
        (dir.path().join("store"), dir.path().join("backup"), dir.path().join("restored"));
    let (store, tasks) = filled(&root);
    let _ = tasks.delegate(&id("t1"), Item::new(&id("child")), Durability::Durable).unwrap();
    let (held, _) = tasks.attach(&id("child"), Durability::Durable).unwrap();
    let (own, _) = tasks.attach(&id("t5"), Durability::Durable).unwrap();
    assert_eq!(held.session, own.session);
    let before = hash(&tasks);
    let made = store.backup(&backup, &CopyOptions::default()).unwrap();
    let kept = bytes_of(&backup);
    let report = TaskStore::restore(&backup, &target, &CopyOptions::default()).unwrap();
    assert_eq!((report.dead_sessions, report.workspaces[0].linked.files), (1, 0), "{report:?}");
    assert_eq!(report.workspaces[0].state_hash, before);
    assert_ne!(report.store_id, made.store_id, "two stores that may live at once are not one");
    assert!(shared(&target, &backup).iter().all(|is| !is));
    assert!(bytes_of(&backup) == kept, "restoring changed the backup");
    // In the original the owner lives, and here it is dead for good, by name.
    assert_eq!(store.store().liveness(held.session).unwrap().0, Liveness::Alive);
    let (restored, there) = open(&target, options().label("next"));
    let (liveness, info) = restored.store().liveness(held.session).unwrap();
    assert_eq!((liveness, info.unwrap().label.as_str()), (Liveness::Dead, "the writer"));
    assert_eq!(there.get("t5").unwrap().unwrap().task.fence, own);
    let (fence, _) = there.attach(&id("t5"), Durability::Durable).unwrap();
    assert_eq!(fence.number, own.number + 1);
    // The first commit brings to an end what nobody alive will: the parent goes on.
    assert_eq!(there.orphans().unwrap(), []);
    assert_eq!(there.get("t1").unwrap().unwrap().task.status(), foldlog::TaskStatus::Active);
    assert!(there.owned_by(held.session).unwrap().is_empty());
    // In the original nothing of that has happened.
    assert_eq!(tasks.get("t1").unwrap().unwrap().task.status(), foldlog::TaskStatus::Delegated);
    assert_eq!(tasks.get("t5").unwrap().unwrap().task.fence, Fence { ..own });
    // Nothing is that session's any more, so the next open sweeps its proof away.
    drop((restored, there));
    let (again, _there) = open(&target, options());
    assert_eq!(again.store().liveness(held.session).unwrap().0, Liveness::Unknown);
}

/// A program with a vocabulary of its own tells foldlog nothing of who owns what: all that have written are dead.
#[test]
fn store_without_tasks_is_restored_with_every_writer_dead() {
    let dir = tempfile::tempdir().unwrap();
    let (root, backup, target) =
        (dir.path().join("store"), dir.path().join("backup"), dir.path().join("restored"));
    let (store, workspace) = crate::worker::open(&root, crate::worker::options());
    let _ = crate::worker::commit(&workspace, "a", "1", Durability::Durable).unwrap();
    let session = workspace.log().session().unwrap().id();
    let _ = store.backup(&backup, &CopyOptions::default()).unwrap();
    let report = Store::restore(&backup, &target, &CopyOptions::default()).unwrap();
    assert_eq!(report.dead_sessions, 1);
    let (restored, _workspace) = crate::worker::open(&target, crate::worker::options());
    assert_eq!(restored.liveness(session).unwrap().0, Liveness::Dead);
}

/// Both go on from where the backup ended, each in a history of its own: what was stored of one is never taken for the other's.
#[test]
fn restored_store_beside_its_original_confuses_neither() {
    let dir = tempfile::tempdir().unwrap();
    let (root, backup, target) =
        (dir.path().join("store"), dir.path().join("backup"), dir.path().join("restored"));
    let (store, tasks) = filled(&root);
    let report = store.store().backup(&backup, &CopyOptions::default()).unwrap();
    let end = report.workspaces[0].cursor;
    let _ = TaskStore::restore(&backup, &target, &CopyOptions::default()).unwrap();
    let (other, there) = open(&target, options());
    assert_eq!(
        tasks.workspace().log().id(),
        there.workspace().log().id(),
        "the log is the same, up to there"
    );
    let cursor = |tasks: &Tasks| tasks.workspace().log().read(State::cursor).unwrap();
    let resolve =
        |tasks: &Tasks, cursor| tasks.workspace().log().read(|state| state.resolve(cursor)).unwrap();
    for i in 0..30 {
        create(&tasks, &format!("here{i}"));
        create(&there, &format!("there{i}"));
    }
    let (mine, theirs) = (cursor(&tasks), cursor(&there));
    assert_ne!(mine.epoch, theirs.epoch, "who opens the restored store has no witness of its end");
    for log in [&tasks, &there] {
        assert_eq!(resolve(log, end), Ok(end.seq), "what both have");
    }
    assert_eq!(resolve(&there, mine), Err(end.seq), "what came in the original after the backup");
    assert_eq!(resolve(&tasks, theirs), Err(Seq(0)), "an epoch that the original never had");
    assert!(there.get("here0").unwrap().is_none() && tasks.get("there0").unwrap().is_none());
    // A subscriber that goes over from one to the other is told.
    let since = foldlog::Since::Cursor(mine);
    let told = there.workspace().subscribe(since).and_then(|mut s| s.try_next().map(|_| ()));
    assert!(matches!(told.unwrap_err().kind(), ErrorKind::Rewound { to } if *to == end.seq));
    // A revision that was stored in one is no revision of the other.
    let token = tasks.get("t7").unwrap().unwrap().token;
    let _ = tasks.patch(&id("t7"), Patch::new().set(Field::Mode, "a"), Durability::Durable).unwrap();
    let newer = tasks.get("t7").unwrap().unwrap().token;
    let _ = there.patch(&id("t7"), Patch::new().set(Field::Mode, "b"), Durability::Durable).unwrap();
    let expecting = |token| foldlog::CommitOptions::new().expect(&id("t7"), foldlog::TaskExpect::At(token));
    let stale = there.patch(&id("t7"), Patch::new().set(Field::Mode, "c"), expecting(newer));
    assert_eq!(stale.unwrap_err().code(), "conflict");
    let old = there.patch(&id("t7"), Patch::new().set(Field::Mode, "c"), expecting(token));
    assert_eq!(old.unwrap_err().code(), "conflict");
    assert_eq!((hash(&tasks) == hash(&there), other.store().live_sessions().unwrap().len()), (false, 1));
    for root in [&root, &target] {
        let reader =
            Store::open(root, TaskStore::options(options()).read_only(true).recovery(Recovery::Strict));
        assert_eq!(reader.unwrap().workspace(&place()).unwrap().open_report().findings, []);
    }
}

#[test]
fn quarantine_goes_along_unless_it_is_declined() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let (store, tasks) = filled(&root);
    let aside = tasks.workspace().log().paths().quarantine();
    std::fs::write(aside.join("x.bin"), "bytes").unwrap();
    std::fs::write(aside.join("x.note"), "cause: heal\n").unwrap();
    std::fs::write(aside.join(".new-x"), "half").unwrap();
    for (name, options, expected) in [
        ("with", CopyOptions::default(), vec!["x.bin", "x.note"]),
        ("copied", CopyOptions::default().link(Link::Never), vec!["x.bin", "x.note"]),
        ("without", CopyOptions::default().quarantine(false), vec![]),
    ] {
        let target = dir.path().join(name);
        let _ = store.store().backup(&target, &options).unwrap();
        let aside = target.join("workspaces").join(tasks.workspace().name()).join("quarantine");
        let mut names: Vec<_> = std::fs::read_dir(&aside)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, expected, "{name}");
        assert!(names.is_empty() || std::fs::read(aside.join("x.bin")).unwrap() == b"bytes");
    }
}
