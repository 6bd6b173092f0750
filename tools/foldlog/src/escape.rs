//! Text of others on a terminal: nothing in it may move the cursor, change colours or turn the direction of writing.

use std::fmt::Write as _;

/// Whether a character does something to a terminal other than to show itself: control characters, line and paragraph
/// separators, marks and overrides of direction, and what stands for nothing at all.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{061c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0001}')
}

/// Text for people: what steers is spelled `\n`, `\t` or `\u{1b}`, and a backslash `\\`, so that it is known for one.
pub(crate) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            c if steers(c) => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// JSON text for people: the same value, what steers spelled `\u202e`. In JSON it can stand in strings only, but for the
/// white space between tokens, which is dropped.
pub(crate) fn json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars().filter(|c| !matches!(c, '\n' | '\r' | '\t')) {
        if !steers(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}"); // into memory
        }
    }
    out
}

/// The start of a long text and how long all of it is; `full` leaves it as it is.
pub(crate) fn short(text: String, bytes: u64, full: bool) -> String {
    const CHARS_MAX: usize = 160;
    const CHARS: usize = 120;
    if full || text.chars().nth(CHARS_MAX).is_none() {
        return text;
    }
    let start: String = text.chars().take(CHARS).collect();
    format!("{start}… ({bytes} bytes)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_a_terminal() {
        assert_eq!(
            text("a\x1b[31m\u{9b}1m\u{202e}\u{2066}\nb\\"),
            "a\\u{1b}[31m\\u{9b}1m\\u{202e}\\u{2066}\\nb\\\\"
        );
        assert_eq!(text("ä😀\u{200d}👩"), "ä😀\u{200d}👩");
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = "\"\u{9b}\u{202e}\u{e0001}\\n\u{7f}\"";
        let shown = json(value);
        assert_eq!(shown, "\"\\u009b\\u202e\\udb40\\udc01\\n\\u007f\"");
        let of = |text: &str| serde_json::from_str::<String>(text).unwrap();
        assert_eq!(of(&shown), of(value));
        assert_eq!(json("{\n\t\"a\": 1\r\n}"), "{\"a\": 1}");
    }

    #[test]
    fn long_text_says_how_long_it_is() {
        assert_eq!(short("a".repeat(160), 160, false).len(), 160);
        assert_eq!(short("ä".repeat(161), 322, false), format!("{}… (322 bytes)", "ä".repeat(120)));
        assert_eq!(short("a".repeat(500), 500, true).len(), 500);
    }
}
