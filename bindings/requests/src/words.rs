//! Words that stand for values, on a command line and in a request alike.

use foldlog::event::Fence;
use foldlog::task::{DocumentExpect, TaskExpect};
use foldlog::view::Sort;
use foldlog::{Durability, OpId, Revision, Token};

/// What a commit expects of a task: a token, or a bare revision.
///
/// # Errors
/// Says what it is not.
pub fn parse_expected(text: &str) -> Result<TaskExpect, String> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        let number = text.parse().map_err(|_| "the number is over 64 bits".to_owned())?;
        return Ok(TaskExpect::Revision(Revision(number)));
    }
    let token = text.parse::<Token>();
    token.map(TaskExpect::At).map_err(|_| "it is neither REVISION.SEQ.EPOCH nor a number".to_owned())
}

/// What a commit expects of a document: `any`, `absent`, `exists`, a token, or a bare revision.
///
/// # Errors
/// Says what it is not.
pub fn parse_document_expected(text: &str) -> Result<DocumentExpect, String> {
    Ok(match text {
        "any" => DocumentExpect::Any,
        "absent" => DocumentExpect::Absent,
        "exists" => DocumentExpect::Exists,
        text => match parse_expected(text)? {
            TaskExpect::At(token) => DocumentExpect::At(token),
            TaskExpect::Revision(revision) => DocumentExpect::Revision(revision),
            TaskExpect::Absent => DocumentExpect::Absent,
            TaskExpect::Exists => DocumentExpect::Exists,
        },
    })
}

/// A fence.
///
/// # Errors
/// Says what it is not.
pub fn parse_fence(text: &str) -> Result<Fence, String> {
    text.parse().map_err(|_| "it is not NUMBER.SESSION, the session in 16 hex digits".to_owned())
}

/// A request's name: 32 hex digits or a UUID.
///
/// # Errors
/// Says what it is not.
pub fn parse_op_id(text: &str) -> Result<OpId, String> {
    let bad = || "it is neither 32 hex digits nor a UUID".to_owned();
    let dashes: Vec<usize> = text.match_indices('-').map(|(at, _)| at).collect();
    if !(dashes.is_empty() || dashes == [8, 13, 18, 23]) {
        return Err(bad());
    }
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    if digits.len() != 32 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(bad());
    }
    u128::from_str_radix(&digits, 16).map(|id| OpId(id.to_be_bytes())).map_err(|_| bad())
}

/// `durable`, `buffered` or `interval:MS`.
///
/// # Errors
/// Says what it is not.
pub fn parse_durability(text: &str) -> Result<Durability, String> {
    match (text, text.strip_prefix("interval:")) {
        ("durable", _) => Ok(Durability::Durable),
        ("buffered", _) => Ok(Durability::Buffered),
        (_, Some(ms)) if ms.bytes().all(|b| b.is_ascii_digit()) => ms
            .parse()
            .map(Durability::Interval)
            .map_err(|_| "interval:MS wants a number of milliseconds".into()),
        _ => Err("it is none of durable, buffered, interval:MS".into()),
    }
}

/// By what a list is ordered: `time`, `created`, `changed`, `cost`, `tokens`, `size` or `title`.
///
/// # Errors
/// Says what it is not.
pub fn parse_sort(text: &str) -> Result<Sort, String> {
    Ok(match text {
        "time" => Sort::Time,
        "created" => Sort::Created,
        "changed" => Sort::Changed,
        "cost" => Sort::Cost,
        "tokens" => Sort::Tokens,
        "size" => Sort::Size,
        "title" => Sort::Title,
        _ => return Err(format!("there is no order {text:?}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn op_ids_are_hex_or_uuids() {
        let id = OpId([0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0, 1, 2, 3, 4, 5, 6, 7]);
        for text in ["0123456789abcdef0001020304050607", "01234567-89AB-CDEF-0001-020304050607"] {
            assert_eq!(parse_op_id(text), Ok(id), "{text}");
        }
        for bad in ["", "0", "+123456789abcdef0001020304050607", "0123-456789abcdef0001020304050607", "ä"] {
            assert!(parse_op_id(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn expectations_and_durabilities_are_read() {
        assert_eq!(parse_expected("7"), Ok(TaskExpect::Revision(Revision(7))));
        assert!(matches!(parse_expected("7.12.0000000000000abc"), Ok(TaskExpect::At(_))));
        for bad in ["", "+7", "7.12", "x", "99999999999999999999"] {
            assert!(parse_expected(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_durability("interval:50"), Ok(Durability::Interval(50)));
        for bad in ["", "interval", "interval:", "interval:+5", "interval:5000000000", "Durable"] {
            assert!(parse_durability(bad).is_err(), "{bad}");
        }
    }
}
