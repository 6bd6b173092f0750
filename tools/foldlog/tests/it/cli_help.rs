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
fn completions_and_man_page_know_the_verbs() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(foldlog(["completions", shell]).ends(0).out.contains("verify"), "{shell}");
    }
    let man = foldlog(["man"]).ends(0).out;
    assert!(
        man.contains(".TH foldlog 1") && man.contains("\\-\\-apply") && man.contains("FOLDLOG_STORE"),
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
