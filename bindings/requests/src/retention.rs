//! What of the history is kept, as JSON: `"all"`, `null`, or `{"age_ms","count","bytes"}`, each of which may be left out.

use std::time::Duration;

use foldlog::event::Retention;
use foldlog::view::Retentions;
use serde::Deserialize;

use crate::failure::Failure;
use crate::json::{array, raw};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct Limits {
    age_ms: Option<u64>,
    count: Option<u64>,
    bytes: Option<u64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Said {
    Word(String),
    Limits(Limits),
}

/// Reads it.
///
/// # Errors
/// `invalid`.
pub fn parse(json: &str) -> Result<Option<Retention>, Failure> {
    let bad = || {
        Failure::invalid(format!(
            "keep is {json}, but is to be \"all\", null, or an object with age_ms, count and bytes, numbers that may be left out"
        ))
    };
    match serde_json::from_str::<Option<Said>>(json).map_err(|_| bad())? {
        None => Ok(None),
        Some(Said::Word(word)) if word == "all" => Ok(Some(Retention::KeepAll)),
        Some(Said::Word(_)) => Err(bad()),
        Some(Said::Limits(Limits { age_ms: None, count: None, bytes: None })) => Err(bad()),
        Some(Said::Limits(Limits { age_ms, count, bytes })) => {
            Ok(Some(Retention::Limits { age: age_ms.map(Duration::from_millis), count, bytes }))
        }
    }
}

/// Spells it.
pub fn spell(retention: Option<Retention>) -> String {
    match retention {
        None => "null".into(),
        Some(Retention::KeepAll) => "\"all\"".into(),
        Some(Retention::Limits { age, count, bytes }) => {
            let mut out = String::from("{");
            age.iter().for_each(|age| raw("age_ms", age.as_millis(), &mut out));
            count.iter().for_each(|count| raw("count", count, &mut out));
            bytes.iter().for_each(|bytes| raw("bytes", bytes, &mut out));
            out + "}"
        }
    }
}

/// `{"workspace":KEEP,"tasks":{ID:KEEP},"pinned":[ID]}`.
pub fn all(said: &Retentions) -> String {
    let mut out = String::from("{");
    raw("workspace", spell(said.workspace()), &mut out);
    let mut tasks = String::from("{");
    said.tasks().for_each(|(id, retention)| raw(id.as_str(), spell(Some(retention)), &mut tasks));
    raw("tasks", tasks + "}", &mut out);
    let pinned: Vec<String> =
        said.pinned().map(|id| serde_json::to_string(id.as_str()).unwrap_or_default()).collect();
    raw("pinned", array(&pinned), &mut out);
    out + "}"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spelled_is_read_and_all_else_is_refused() {
        for json in
            ["null", "\"all\"", r#"{"age_ms":5}"#, r#"{"age_ms":1,"count":2,"bytes":3}"#, r#"{"count":0}"#]
        {
            assert_eq!(spell(parse(json).unwrap()), json);
        }
        for json in
            ["{}", "\"none\"", "5", r#"{"age":5}"#, r#"{"count":-1}"#, r#"{"count":"5"}"#, "[]", "true"]
        {
            assert_eq!(parse(json).unwrap_err().code(), "invalid", "{json}");
        }
    }
}
