//! What is made from the command line's description: completions, the man page, and the answer to a wrong one.

use clap::CommandFactory as _;
use clap::error::ErrorKind;

use crate::args::Args;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::{self, Out};

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
            failure.exit()
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
