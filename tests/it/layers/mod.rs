//! The architecture as a test: which room of `src/` may use which, and what no file of this repository may hold.
//!
//! A layer reaches downwards only. A new edge, a new room or an exception is a design decision: it is made in the
//! tables of this file, and `ARCHITECTURE.md` changes with them. The rules are functions over a path and its text;
//! [`planted`] shows each of them one file that breaks it.
#![expect(clippy::disallowed_methods, reason = "reads the repository, not a store")]

mod planted;
mod tokens;

use std::collections::BTreeMap;
use std::path::Path;

use tokens::code;

/// What each room of the library may name under `crate::`, from the bottom up. A plain name is a whole room; a path
/// opens that part of a room and no other.
const ROOMS: &[(&str, &[&str])] = &[
    // The one error type carries the log's own words (a finding, a conflict, a seq) and stays below everybody.
    ("error", &["log"]),
    ("vfs", &[]),
    ("session", &["error", "vfs"]),
    ("log", &["error", "vfs", "session"]),
    ("store", &["error", "vfs", "session", "log"]),
    ("event", &["error", "log"]),
    ("view", &["error", "log", "event"]),
    ("task", &["error", "session", "log", "store", "event", "view"]),
    ("document", &["error", "vfs", "log", "store", "event", "view", "task"]),
    ("files", &["error", "vfs", "log", "store", "event", "view", "task"]),
    ("transcript", &["error", "vfs", "log", "store", "event", "view", "task", "files"]),
    ("legacy", &["error", "vfs", "log", "store", "event", "view", "task", "files", "transcript"]),
];

/// The operating system: paths and names that only [`OS_ROOM`] may spell in code.
const OS_PATHS: &[&str] =
    &["std::fs", "std::os", "fs4", "rustix", "libc", "windows_sys", "getrandom", "nix", "memmap2"];
/// What a `cfg` may not ask for outside [`OS_ROOM`].
const OS_CFGS: &[&str] = &["unix", "windows", "target_os", "target_family", "target_vendor"];
/// The one folder that makes system calls and may hold `unsafe`.
const OS_ROOM: &str = "src/vfs/os";

/// Longest source file, in lines.
const LINES_MAX: usize = 800;

/// Marks of unfinished work. In two halves, so that this file does not hold them.
const MARKS: &[(&str, &str)] = &[("TO", "DO"), ("FIX", "ME"), ("XX", "X")];
/// Names of package registries and folders of one machine: both belong into nobody's checkout.
const FOREIGN: &[(&str, &str)] = &[
    ("/wo", "rk/"),
    ("/fa", "rm/"),
    ("/ro", "ot/"),
    ("crates", ".io"),
    ("pypi", ".org"),
    ("python", "hosted.org"),
    ("npmjs", ".org"),
    ("npmjs", ".com"),
    ("deb", ".debian"),
];

/// Which room a file of the library belongs to; `None` for `lib.rs`, the root that re-exports.
fn room(path: &str) -> Option<&str> {
    let name = path.strip_prefix("src/")?.split('/').next()?;
    let name = name.strip_suffix(".rs").unwrap_or(name);
    (name != "lib").then_some(name)
}

/// The module path of a file of the library: `src/log/frame.rs` is `log::frame`.
fn module(path: &str) -> Vec<&str> {
    let inner = path.strip_prefix("src/").unwrap_or(path);
    let inner = inner.strip_suffix(".rs").unwrap_or(inner);
    let mut parts: Vec<&str> = inner.split('/').collect();
    if matches!(parts.last(), Some(&"mod" | &"lib")) {
        parts.pop();
    }
    parts
}

/// Where each name that `lib.rs` re-exports comes from: `Error` is `error::Error`.
fn re_exports(lib: &str) -> BTreeMap<String, String> {
    let all = tokens::paths(&code(lib), &[]);
    let own = all.into_iter().filter(|p| p.parts.len() > 1).map(|p| p.parts);
    own.filter_map(|parts| Some((parts.last()?.clone(), parts.join("::")))).collect()
}

/// Edges of a library file that its room may not have.
fn edges(path: &str, text: &str, exported: &BTreeMap<String, String>) -> Vec<String> {
    let Some(room) = room(path) else { return Vec::new() };
    let Some((_, allowed)) = ROOMS.iter().find(|(name, _)| *name == room) else {
        return vec![format!(
            "{path}: the room {room} is in no table; say in tests/it/layers where it stands"
        )];
    };
    let mut wrong = Vec::new();
    for used in tokens::paths(&code(text), &module(path)) {
        let Some(("crate", rest)) = used.parts.split_first().map(|(first, rest)| (first.as_str(), rest))
        else {
            continue;
        };
        let Some(first) = rest.first() else { continue };
        let target = match exported.get(first) {
            Some(full) if !ROOMS.iter().any(|(name, _)| name == first) => full.clone(),
            _ => rest.join("::"),
        };
        let within = |outer: &str| target == outer || target.starts_with(&format!("{outer}::"));
        if !within(room) && !allowed.iter().any(|edge| within(edge)) {
            wrong.push(format!("{path}:{}: {room} may not use crate::{target}", used.line));
        }
    }
    wrong
}

/// System calls, platform switches and `unsafe` outside the one room for them.
fn operating_system(path: &str, text: &str) -> Vec<String> {
    let ours =
        ["src/", "bindings/requests/src/", "tools/foldlog/src/"].iter().any(|room| path.starts_with(room));
    if !ours
        || path == "src/vfs/os.rs"
        || path.strip_prefix(OS_ROOM).is_some_and(|rest| rest.starts_with('/'))
    {
        return Vec::new();
    }
    let code = code(text);
    let mut wrong = Vec::new();
    for used in tokens::paths(&code, &module(path)) {
        let full = used.parts.join("::");
        let hit = |os: &&&str| full == **os || full.starts_with(&format!("{os}::"));
        if let Some(os) = OS_PATHS.iter().find(hit) {
            wrong.push(format!("{path}:{}: {os} belongs into {OS_ROOM}", used.line));
        }
    }
    for (i, token) in code.iter().enumerate() {
        if token.is("unsafe") {
            wrong.push(format!("{path}:{}: unsafe code belongs into {OS_ROOM}", token.line));
        }
        if token.is("cfg") || token.is("cfg_attr") {
            let macro_sign = usize::from(code.get(i + 1).is_some_and(|t| t.is("!")));
            let asked =
                tokens::group(&code, i + 1 + macro_sign).iter().find(|t| OS_CFGS.iter().any(|c| t.is(c)));
            if let Some(asked) = asked {
                wrong.push(format!("{path}:{}: cfg({}) belongs into {OS_ROOM}", asked.line, asked.text));
            }
        }
    }
    wrong
}

/// Tests and examples that never run.
fn skipped(path: &str, text: &str) -> Vec<String> {
    let code = code(text);
    let attribute = |i: usize| {
        code.get(i).is_some_and(|t| t.is("#")) && code.get(i + 1).is_some_and(|t| t.is("[")) && {
            let inner = tokens::group(&code, i + 1);
            inner.first().is_some_and(|t| t.is("ignore"))
                || inner.first().is_some_and(|t| t.is("cfg_attr")) && inner.iter().any(|t| t.is("ignore"))
        }
    };
    let tests = (0..code.len()).filter(|&i| attribute(i)).filter_map(|i| code.get(i)).map(|t| t.line);
    let fence = ["``", "`"].concat();
    let examples = text.lines().enumerate().filter(|(_, line)| {
        line.trim_start_matches(['/', '!', ' ', '*'])
            .strip_prefix(&fence)
            .is_some_and(|info| info.split([',', ' ']).any(|word| word == "ignore"))
    });
    let mut wrong: Vec<String> =
        tests.map(|line| format!("{path}:{line}: an ignored test proves nothing")).collect();
    wrong.extend(
        examples.map(|(at, _)| format!("{path}:{}: an example that is not compiled may lie", at + 1)),
    );
    wrong
}

/// Marks of unfinished work, and names that belong to one machine or to a registry.
fn words(path: &str, text: &str) -> Vec<String> {
    let lock = path.ends_with(".lock") || path.ends_with("package-lock.json");
    let mut wrong = Vec::new();
    for (at, line) in text.lines().enumerate() {
        for (a, b) in MARKS {
            let mark = [*a, *b].concat();
            let word = |c: char| c.is_alphanumeric() || c == '_';
            if line.split(|c| !word(c)).any(|w| w == mark) {
                wrong.push(format!("{path}:{}: {mark} marks unfinished work", at + 1));
            }
        }
        for (a, b) in FOREIGN.iter().filter(|_| !lock) {
            let name = [*a, *b].concat();
            // A machine's folder is one only at the root, not further down in a path.
            let found = line.match_indices(&name).any(|(i, _)| {
                !name.starts_with('/')
                    || !line
                        .get(..i)
                        .is_some_and(|l| l.ends_with(|c: char| c.is_alphanumeric() || ".}_-*".contains(c)))
            });
            if found {
                wrong.push(format!("{path}:{}: {name} names one machine or a registry", at + 1));
            }
        }
    }
    wrong
}

/// Source files with more than one idea in them.
fn length(path: &str, text: &str) -> Vec<String> {
    let lines = text.lines().count();
    let source = [".rs", ".ts", ".js", ".mjs", ".py", ".sh"].iter().any(|end| path.ends_with(end));
    if source && lines > LINES_MAX {
        vec![format!("{path}: {lines} lines, at most {LINES_MAX}; it wants to be two files")]
    } else {
        Vec::new()
    }
}

/// Every text file of the checkout, by its path from the root with `/`; what `.gitignore` names is left out.
fn checkout() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ignored = std::fs::read_to_string(root.join(".gitignore")).expect(".gitignore is there");
    let mut ignored: Vec<&str> = ignored.lines().map(|l| l.trim_end_matches('/')).collect();
    ignored.push("/.git");
    let mut found = BTreeMap::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder)).expect("a folder of the checkout") {
            let entry = entry.expect("an entry of the checkout");
            let name = entry.file_name().into_string().expect("names here are Unicode");
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            if ignored.iter().any(|i| *i == name || i.strip_prefix('/') == Some(&path)) {
                continue;
            }
            let kind = entry.file_type().expect("its kind");
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file()
                && let Ok(text) = String::from_utf8(std::fs::read(entry.path()).expect("a readable file"))
            {
                found.insert(path, text);
            }
        }
    }
    found
}

/// Asks `rule` of every file whose path `wanted` takes; fails with all that it found.
fn hold(wanted: impl Fn(&str) -> bool, rule: impl Fn(&str, &str) -> Vec<String>) {
    let files: Vec<_> = checkout().into_iter().filter(|(path, _)| wanted(path)).collect();
    assert!(files.len() > 5, "the checkout was not found: {} files", files.len());
    let wrong: Vec<String> = files.iter().flat_map(|(path, text)| rule(path, text)).collect();
    assert!(wrong.is_empty(), "{} finding(s):\n{}", wrong.len(), wrong.join("\n"));
}

fn rust(path: &str) -> bool {
    path.ends_with(".rs")
}

#[test]
fn layers_reach_downwards_only() {
    let lib = checkout().remove("src/lib.rs").expect("the library has a root");
    let exported = re_exports(&lib);
    hold(|p| rust(p) && p.starts_with("src/"), |path, text| edges(path, text, &exported));
}

#[test]
fn room_table_has_no_cycle_but_error_and_log() {
    let below: Vec<&str> = ROOMS.iter().map(|(name, _)| *name).collect();
    for (at, (name, allowed)) in ROOMS.iter().enumerate() {
        for edge in *allowed {
            let target = edge.split("::").next().expect("a path has a first part");
            let place = below.iter().position(|b| *b == target).expect("edges lead to rooms of the table");
            assert!(place < at || (*name, target) == ("error", "log"), "{name} reaches up to {edge}");
        }
    }
}

#[test]
fn operating_system_is_named_in_its_room_only() {
    hold(rust, operating_system);
}

#[test]
fn tests_and_examples_all_run() {
    hold(|p| rust(p) || p.ends_with(".md"), skipped);
}

#[test]
fn files_name_no_machine_no_registry_and_nothing_unfinished() {
    hold(|_| true, words);
}

#[test]
fn source_files_are_short() {
    hold(|_| true, length);
}
