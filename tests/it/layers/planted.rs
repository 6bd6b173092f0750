//! Each rule, shown a file that breaks it and one that only looks like it.

use super::*;

fn lib() -> BTreeMap<String, String> {
    re_exports("pub mod error;\npub use error::{Error, Result as R};\npub use store::Store;\n")
}

#[track_caller]
fn found(wrong: &[String], expected: &[&str]) {
    assert_eq!(wrong.len(), expected.len(), "{wrong:#?}");
    for (is, must) in wrong.iter().zip(expected) {
        assert!(is.contains(must), "{is} does not tell of {must}");
    }
}

#[test]
fn edge_upwards_is_found_however_it_is_spelled() {
    let wrong = |text| edges("src/log/frame.rs", text, &lib());
    found(&wrong("use crate::store::meta::X;"), &["frame.rs:1: log may not use crate::store::meta::X"]);
    found(
        &wrong("\nuse crate::{log::x, view::{self, index::Y}, vfs};"),
        &["crate::view", "crate::view::index::Y"],
    );
    found(&wrong("fn f() { crate::task::run() }"), &["crate::task::run"]);
    found(&wrong("use super::super::store::Z;"), &["crate::store::Z"]);
    found(
        &wrong("mod tests { use super::super::super::store::Z; }\nuse super::super::event::E;"),
        &["store", ":2:"],
    );
    found(&wrong("use crate::Store;"), &["crate::store::Store"]);
    found(&wrong("macro_rules! m { () => { $crate::store::x() } }"), &["crate::store::x"]);
}

#[test]
fn edge_downwards_and_mere_mention_are_fine() {
    let fine = "//! [`crate::store`]\nuse crate::{Error, error, vfs::Vfs};\nuse super::scan::X; mod t { use super::super::Seq; }\n\
                const A: &str = \"crate::store::x\"; /* use crate::view; */ const B: &str = r#\"\"crate::task::y\"#;\n\
                fn f<'a>(c: char) -> bool { c == '\"' && c != '\\'' } // crate::task::z";
    found(&edges("src/log/frame.rs", fine, &lib()), &[]);
    found(&edges("src/lib.rs", "pub use store::Store;", &lib()), &[]);
    found(&edges("src/view/index.rs", "use crate::vfs::Vfs;", &lib()), &["view may not use crate::vfs::Vfs"]);
}

#[test]
fn room_without_a_row_is_found() {
    found(&edges("src/manager/mod.rs", "", &lib()), &["manager is in no table"]);
}

#[test]
fn system_call_outside_its_room_is_found() {
    let text = "use std::{fs::File, io};\nuse fs4::FileExt as _;\nfn f() { std::fs::read(p); unsafe { libc::getpid() } }\n\
                #[cfg(windows)]\nfn g() { if cfg!(all(test, target_os = \"macos\")) {} }";
    let all = ["std::fs", "fs4", "std::fs", "libc", ":3: unsafe", "cfg(windows)", "cfg(target_os)"];
    found(&operating_system("src/log/lock.rs", text), &all);
    found(&operating_system("tools/foldlog/src/verbs/dump.rs", "use std::fs;"), &["std::fs"]);
    found(&operating_system("bindings/requests/src/place.rs", "use std::fs;"), &["std::fs"]);
    found(&operating_system("src/vfs/os/unix.rs", text), &[]);
    found(&operating_system("tests/it/main.rs", text), &[]);
    let mention = "//! `std::fs` and libc\n#![deny(unsafe_code)]\n#[cfg(test)]\nfn unix(windows: &str) {}";
    found(&operating_system("src/vfs/mod.rs", mention), &[]);
}

#[test]
fn skipped_test_and_unchecked_example_are_found() {
    let (hash, fence) = ("#", ["``", "`"].concat());
    let text = format!("{hash}[ignore = \"slow\"]\n{hash}[cfg_attr(miri, ignore)]\n/// {fence}rust,ignore\n");
    found(&skipped("src/a.rs", &text), &[":1:", ":2:", ":3:"]);
    found(&skipped("README.md", &format!("{fence}ignore\n{fence}\n{fence}text\nignore\n")), &[":1:"]);
    found(&skipped("src/a.rs", "#[test]\nfn ignore() {}"), &[]);
}

#[test]
fn unfinished_mark_machine_path_and_registry_are_found() {
    for (a, b) in MARKS {
        found(&words("a.rs", &format!("// {a}{b}: later")), &["unfinished"]);
        found(&words("a.rs", &format!("let x{a}{b} = 1; mktemp {a}{b}{b}Y")), &[]);
    }
    for (a, b) in FOREIGN {
        found(&words("docs/a.md", &format!("see `{a}{b}`")), &["docs/a.md:1"]);
        found(&words("Cargo.lock", &format!("{a}{b}")), &[]);
    }
    found(&words("a.md", &["docs/wo", "rk/x and $HOME/ro", "ot/"].concat()), &[]);
}

#[test]
fn long_file_is_found() {
    let text = "x\n".repeat(LINES_MAX + 1);
    found(&length("src/a.rs", &text), &["801 lines"]);
    found(&length("src/a.rs", text.trim_end_matches("x\n")), &[]);
    found(&length("README.md", &text), &[]);
}
