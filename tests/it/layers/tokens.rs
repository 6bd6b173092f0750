//! Just enough of Rust's grammar to see which paths a file names: comments and literals are not code, and a
//! `use` tree is as many paths as it has leaves.

/// A word or a sign of the code, with its line.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) line: usize,
}

impl Token {
    pub(super) fn is(&self, text: &str) -> bool {
        self.text == text
    }
    fn is_word(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphanumeric() || c == '_')
    }
}

/// A path that the code names.
#[derive(Debug)]
pub(super) struct Path {
    /// Its parts, with `self` and `super` at its start worked out where the module is known.
    pub(super) parts: Vec<String>,
    pub(super) line: usize,
}

/// The words and signs of a source text, without comments, strings, characters and lifetimes.
pub(super) fn code(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let (mut i, mut line, mut out) = (0, 1, Vec::new());
    while i < chars.len() {
        let start = i;
        match at(i) {
            '/' if at(i + 1) == '/' => {
                while i < chars.len() && at(i) != '\n' {
                    i += 1;
                }
            }
            '/' if at(i + 1) == '*' => {
                let mut depth = 0;
                while i < chars.len() {
                    match (at(i), at(i + 1)) {
                        ('/', '*') => (depth, i) = (depth + 1, i + 2),
                        ('*', '/') => (depth, i) = (depth - 1, i + 2),
                        _ => i += 1,
                    }
                    if depth == 0 {
                        break;
                    }
                }
            }
            '"' => i = past_string(&chars, i),
            '\'' if at(i + 1) == '\\' || at(i + 2) == '\'' => {
                i += if at(i + 1) == '\\' { 3 } else { 2 };
                while i < chars.len() && at(i) != '\'' {
                    i += 1;
                }
                i += 1;
            }
            '\'' => {
                i += 1;
                while at(i).is_alphanumeric() || at(i) == '_' {
                    i += 1;
                }
            }
            c if c.is_alphanumeric() || c == '_' => {
                while at(i).is_alphanumeric() || at(i) == '_' {
                    i += 1;
                }
                let word: String = chars.iter().skip(start).take(i - start).collect();
                let raw = matches!(&*word, "r" | "br" | "cr");
                let hashes = (i..).take_while(|&n| at(n) == '#').count();
                if raw && at(i + hashes) == '"' {
                    i = past_raw(&chars, i + hashes + 1, hashes);
                } else if matches!(&*word, "b" | "c") && at(i) == '"' {
                    i = past_string(&chars, i);
                } else if word == "r" && hashes == 1 {
                    i += 1;
                } else if !(word == "b" && at(i) == '\'') {
                    out.push(Token { text: word, line });
                }
            }
            ':' if at(i + 1) == ':' => {
                out.push(Token { text: "::".into(), line });
                i += 2;
            }
            c => {
                if !c.is_whitespace() {
                    out.push(Token { text: c.into(), line });
                }
                i += 1;
            }
        }
        line += chars.iter().skip(start).take(i - start).filter(|c| **c == '\n').count();
    }
    out
}

fn past_string(chars: &[char], open: usize) -> usize {
    let mut i = open + 1;
    while let Some(c) = chars.get(i) {
        match c {
            '\\' => i += 2,
            '"' => return i + 1,
            _ => i += 1,
        }
    }
    i
}

fn past_raw(chars: &[char], first: usize, hashes: usize) -> usize {
    let mut i = first;
    while i < chars.len() {
        let closing = chars.iter().skip(i + 1).take_while(|c| **c == '#').count();
        if chars.get(i) == Some(&'"') && closing >= hashes {
            return i + 1 + hashes;
        }
        i += 1;
    }
    i
}

/// What stands between the bracket at `open` and the one that closes it; empty if there is no bracket.
pub(super) fn group(code: &[Token], open: usize) -> &[Token] {
    let mut depth = 0usize;
    for (i, token) in code.iter().enumerate().skip(open) {
        match &*token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return code.get(open + 1..i).unwrap_or_default();
        }
    }
    &[]
}

/// Every path the code names, a `use` tree leaf by leaf. `module` is where the file hangs in the crate.
pub(super) fn paths(code: &[Token], module: &[&str]) -> Vec<Path> {
    let mut out = Vec::new();
    let mut here: Vec<String> = module.iter().map(ToString::to_string).collect();
    let mut inner_ends: Vec<usize> = Vec::new();
    let mut i = 0;
    while let Some(token) = code.get(i) {
        if inner_ends.last() == Some(&i) {
            inner_ends.pop();
            here.pop();
        }
        let opens = code.get(i + 2).is_some_and(|t| t.is("{"));
        if token.is("mod")
            && opens
            && let Some(name) = code.get(i + 1)
        {
            here.push(name.text.clone());
            inner_ends.push(i + 3 + group(code, i + 2).len());
            i += 3;
        } else if token.is_word() {
            i = tree(code, i, &[], &here, &mut out);
        } else {
            i += 1;
        }
    }
    out
}

/// Reads one path or tree that starts at `i`; returns where the code goes on.
fn tree(code: &[Token], mut i: usize, before: &[String], here: &[String], out: &mut Vec<Path>) -> usize {
    let mut parts = before.to_vec();
    let line = code.get(i).map_or(0, |t| t.line);
    while let Some(token) = code.get(i).filter(|t| t.is_word() || t.is("*")) {
        parts.push(token.text.clone());
        i += 1;
        if !code.get(i).is_some_and(|t| t.is("::")) {
            break;
        }
        i += 1;
        if code.get(i).is_some_and(|t| t.is("{")) {
            let end = i + 1 + group(code, i).len();
            i += 1;
            while i < end {
                let leaf = code.get(i).is_some_and(|t| t.is_word() || t.is("*") || t.is("{"));
                i = if leaf { tree(code, i, &parts, here, out) } else { i + 1 };
                if code.get(i).is_some_and(|t| t.is("as")) {
                    i += 2;
                }
            }
            return end + 1;
        }
    }
    if parts.is_empty() {
        return i + 1;
    }
    out.push(Path { parts: resolve(parts, here), line });
    i
}

/// Works `self::` and `super::` out: from `log::frame`, `super::format::X` is `crate::log::format::X`.
fn resolve(parts: Vec<String>, here: &[String]) -> Vec<String> {
    let ups = parts.iter().take_while(|p| *p == "super").count();
    let own = parts.first().is_some_and(|p| p == "self");
    if parts.len() < 2 || (ups == 0 && !own) {
        return parts;
    }
    let kept = here.iter().take(here.len().saturating_sub(ups)).cloned();
    let rest = parts.iter().skip(ups.max(1)).cloned();
    ["crate".to_string()].into_iter().chain(kept).chain(rest).collect()
}
