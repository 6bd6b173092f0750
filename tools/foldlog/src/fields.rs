//! `field=value` on the command line.

use std::io::Read as _;

use foldlog::event::ITEM_LEN_MAX;
use foldlog::{Field, Value};
use foldlog_requests::Failure;

/// One of them; without a value it is to be removed.
pub(crate) type Assigned = (Field, Option<Value>);

/// Reads them all. A value is JSON where it reads as JSON, and then kept as it is spelled; else it is a plain string.
///
/// # Errors
/// Usage errors: no `=`, no name, a field that comes twice; and stdin's own.
pub(crate) fn parse(words: &[String]) -> Result<Vec<Assigned>, Failure> {
    let mut all: Vec<Assigned> = Vec::with_capacity(words.len());
    let mut stdin = Some(std::io::stdin());
    for word in words {
        let (name, text) = match word.split_once('=') {
            Some((name, text)) if !name.is_empty() => (name, text),
            _ => {
                let message = format!("{word:?} is no FIELD=VALUE");
                return Err(Failure::usage(message, "write the field's name, = and the value: 'mode=code'"));
            }
        };
        let field = Field::of(name);
        if all.iter().any(|(other, _)| *other == field) {
            return Err(Failure::usage(format!("the field {name} comes twice"), "give each field once"));
        }
        let value = match text {
            "" => None,
            "@-" => {
                let Some(stdin) = stdin.take() else {
                    return Err(Failure::usage("two fields want stdin", "give @- to one field only"));
                };
                let text = read(stdin.lock())?;
                Some(value(name, text.strip_suffix('\n').unwrap_or(&text))?)
            }
            text => Some(value(name, text)?),
        };
        all.push((field, value));
    }
    Ok(all)
}

/// Fields of a task that is not there yet: the id stands before them, and there is nothing to remove.
///
/// # Errors
/// As [`parse`].
pub(crate) fn parse_new(words: &[String]) -> Result<Vec<(Field, Value)>, Failure> {
    let new = |(field, value): Assigned| match value {
        _ if field == Field::Id => Err(Failure::usage("the id is given before the fields", "leave out id=…")),
        Some(value) => Ok((field, value)),
        None => Err(Failure::usage(
            format!("{field}= has no value, and a new task has nothing to remove"),
            format!("leave it out; an empty string is '{field}=\"\"'"),
        )),
    };
    parse(words)?.into_iter().map(new).collect()
}

fn value(name: &str, text: &str) -> Result<Value, Failure> {
    match Value::parse(text) {
        Ok(value) => Ok(value),
        // JSON that the library does not take, such as a key that occurs twice, is not meant as a plain string.
        Err(bad) if serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok() => {
            Err(Failure::usage(format!("the value of {name} cannot be kept: {bad}"), "correct the JSON"))
        }
        Err(_) => Ok(Value::text(text)),
    }
}

fn read(stdin: std::io::StdinLock<'_>) -> Result<String, Failure> {
    let mut text = String::new();
    match stdin.take(ITEM_LEN_MAX + 1).read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(e) => Err(Failure::usage(format!("read stdin: {e}"), "give text in UTF-8")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn values_are_json_where_they_read_as_json_and_keep_their_spelling() {
        for (text, json) in [
            ("18446744073709551616", "18446744073709551616"),
            ("1.50", "1.50"),
            ("\"\\ud83d\"", "\"\\ud83d\""),
            ("[draft] x", "\"[draft] x\""),
            ("NaN", "\"NaN\""),
            ("a=b", "\"a=b\""),
            ("null", "null"),
        ] {
            let parsed = parse(&words(&[&format!("f={text}")])).unwrap();
            assert_eq!(parsed, [(Field::of("f"), Some(Value::parse(json).unwrap()))], "{text}");
        }
        assert_eq!(parse(&words(&["f="])).unwrap(), [(Field::of("f"), None)]);
    }

    #[test]
    fn what_is_no_assignment_is_refused() {
        for bad in [&["f"][..], &["=x"], &["f=1", "f=2"], &["f={\"a\":1,\"a\":2}"]] {
            assert_eq!(parse(&words(bad)).unwrap_err().code(), "usage", "{bad:?}");
        }
        for bad in ["id=x", "f="] {
            assert_eq!(parse_new(&words(&[bad])).unwrap_err().code(), "usage", "{bad}");
        }
    }
}
