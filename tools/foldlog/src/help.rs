//! What is made from the command line's description: completions, the man page, and the answer to a wrong one.

use clap::error::ErrorKind;
use clap::{Command, CommandFactory as _, FromArgMatches as _};

use foldlog_requests::Failure;

use crate::args::Args;
use crate::exit::Exit;
use crate::out::{self, Out};

/// The verbs as help shows them. A verb that is in none of these is caught by a test.
const GROUPS: [(&str, &[&str]); 8] = [
    ("Begin here", &["demo"]),
    ("Look at tasks", &["tasks", "show", "history"]),
    (
        "Change tasks",
        &["create", "set", "rename", "status", "resume", "delegate", "complete", "rm", "import"],
    ),
    ("Documents", &["doc"]),
    ("Who runs what", &["who", "attach", "abandon"]),
    ("For programs", &["pipe"]),
    (
        "Look after a store",
        &[
            "dump",
            "verify",
            "repair",
            "compact",
            "retention",
            "purge",
            "backup",
            "restore",
            "stats",
            "selftest",
        ],
    ),
    ("Look after this program", &["completions", "man", "help"]),
];

/// The command line's description, its verbs in groups.
fn command() -> Command {
    let mut command = Args::command();
    command.build();
    let mut verbs = String::new();
    for (group, names) in GROUPS {
        verbs += &format!("\n{group}:\n");
        for verb in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            verbs += &format!("  {:<12} {about}\n", verb.get_name());
        }
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{verbs}\nOptions:\n{{options}}{{after-help}}"
    );
    Args::command().help_template(template)
}

/// Reads the command line.
///
/// # Errors
/// What [`refuse`] answers.
pub(crate) fn parse() -> Result<Args, clap::Error> {
    let matches = command().try_get_matches()?;
    Args::from_arg_matches(&matches).map_err(|e| e.format(&mut command()))
}

/// Answers a command line that cannot be run: help and version to stdout, anything else as an error.
pub(crate) fn refuse(refusal: &clap::Error) -> Exit {
    match refusal.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = refusal.print(); // to a closed pipe, perhaps
            Exit::Fine
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = refusal.print();
            Exit::Usage
        }
        // A store from the environment counts as an argument there.
        ErrorKind::MissingSubcommand if std::env::args_os().len() <= 1 => {
            out::say(command().render_help().to_string().trim_end());
            Exit::Usage
        }
        _ => {
            let json = std::env::args_os().any(|word| word == "--json");
            let text = refusal.render().to_string();
            let message = text.strip_prefix("error: ").unwrap_or(&text);
            let (message, hint) = message.split_once("\n\n").unwrap_or((message, ""));
            let hint = hint.split_whitespace().collect::<Vec<_>>().join(" ");
            let hint = hint.replace("For more information, try '--help'.", "See --help.");
            let remedy = if hint.is_empty() { "see foldlog --help".to_owned() } else { hint };
            let failure = Failure::usage(message.trim_end().replace("\n  ", " "), remedy);
            out::error(&failure, json, false);
            Exit::of(&failure)
        }
    }
}

/// `foldlog completions SHELL`.
pub(crate) fn completions(shell: clap_complete::Shell, out: &mut Out) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "foldlog", &mut text);
    out.bytes(&text)?;
    Ok(Exit::Fine)
}

/// `foldlog man`: the page of the program, then one for each verb, as one document.
pub(crate) fn man(out: &mut Out) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    let mut command = Args::command();
    command.build();
    let rendered = clap_mangen::Man::new(command.clone()).render(&mut text).and_then(|()| {
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
        {
            let mut page = Vec::new();
            clap_mangen::Man::new(verb.clone()).render(&mut page)?;
            // One title for the document: the verbs' own would start new pages.
            let page = String::from_utf8_lossy(&page).into_owned();
            let body = page.lines().filter(|line| !line.starts_with(".TH ")).collect::<Vec<_>>().join("\n");
            text.extend_from_slice(body.as_bytes());
            text.push(b'\n');
        }
        Ok(())
    });
    rendered.map_err(|e| Failure::output(&e))?;
    out.bytes(&text)?;
    Ok(Exit::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_in_one_group() {
        let mut command = Args::command();
        command.build();
        let mut verbs: Vec<&str> =
            command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        verbs.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(verbs, grouped);
    }
}
