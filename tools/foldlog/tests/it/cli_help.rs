//! Help, version, completions, man page, and the answer to a wrong command line.

use crate::support::foldlog;

#[test]
fn version_names_the_format() {
    let run = foldlog(["--version"]).ends(0);
    assert!(run.out.starts_with(&format!("foldlog {}\nformat 1 ", env!("CARGO_PKG_VERSION"))), "{}", run.out);
    assert_eq!(foldlog(["-V"]).ends(0).out, format!("foldlog {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn help_names_every_verb_and_the_exit_codes() {
    let run = foldlog(["--help"]).ends(0);
    for word in [
        "dump",
        "verify",
        "repair",
        "stats",
        "selftest",
        "completions",
        "man",
        "Exit codes: 0 fine",
        "FOLDLOG_STORE",
    ] {
        assert!(run.out.contains(word), "{word} is not in\n{}", run.out);
    }
    assert!(!run.out.contains("selftest-worker"));
}

#[test]
fn bare_command_shows_the_verbs_in_groups() {
    let groups =
        ["\nLook at tasks:\n  tasks ", "\nChange tasks:\n  create ", "\nLook after a store:\n  dump "];
    for store in [None, Some("/nowhere")] {
        let mut command = crate::support::command();
        if let Some(store) = store {
            command.env("FOLDLOG_STORE", store);
        }
        let run = crate::support::start(&mut command).ends(2);
        assert_eq!(run.out, "");
        assert!(groups.iter().all(|group| run.err.contains(group)), "{}", run.err);
    }
    assert!(groups.iter().all(|group| foldlog(["--help"]).ends(0).out.contains(group)));
    let verb = foldlog(["tasks", "--help"]).ends(0).out;
    assert!(verb.contains("--parent <ID>") && !verb.contains("Look at tasks"), "{verb}");
}

#[test]
fn completions_and_man_page_know_the_verbs() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(foldlog(["completions", shell]).ends(0).out.contains("delegate"), "{shell}");
    }
    let man = foldlog(["man"]).ends(0).out;
    assert!(
        man.contains(".TH foldlog 1")
            && man.contains("\\-\\-apply")
            && man.contains("\\-\\-cascade")
            && man.contains("FOLDLOG_STORE"),
        "{man}"
    );
    assert_eq!(man.matches(".TH ").count(), 1);
    assert!(!man.contains("selftest\\-worker"), "{man}");
}

#[test]
fn wrong_words_are_usage_errors_with_a_remedy() {
    foldlog(["--json", "frobnicate"]).fails(2, "usage");
    foldlog(["dump", "--frm", "1", "--json"]).fails(2, "usage");
    foldlog(["dump", "--from", "x", "--json"]).fails(2, "usage");
    let run = foldlog(["dump", "--frm"]).ends(2);
    assert!(run.err.starts_with("foldlog: ") && run.err.contains("\n  what to do: "), "{}", run.err);
    assert_eq!(run.out, "");
    foldlog::<&str>([]).ends(2);
}
