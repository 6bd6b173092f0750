//! Columns that fit the terminal, and figures short enough for them.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Narrowest that the first column, which takes what is left, may become before other columns are left out.
const FIRST_MIN: usize = 10;
const GAP: &str = "  ";

/// A column: its head, whether it stands to the right, and how early it is left out where there is no room (0 = never).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    /// What stands above it.
    pub(crate) head: &'static str,
    /// Whether it is set to the right.
    pub(crate) right: bool,
    /// The greatest goes first.
    pub(crate) expendable: u8,
}

/// How many columns of characters there are: what COLUMNS says, else the terminal's; `None` = no end.
pub(crate) fn width() -> Option<usize> {
    let said = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).filter(|n| *n > 0);
    said.or_else(|| terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| width.0.into()))
}

/// How many lines the terminal has; `None` = stdout is none.
pub(crate) fn height() -> Option<usize> {
    terminal_size::terminal_size_of(std::io::stdout()).map(|(_, height)| height.0.into())
}

/// Lines of a table whose cells are escaped. The first column is shortened where the width asks for it.
pub(crate) fn lines(columns: &[Column], rows: &[Vec<String>], width: Option<usize>) -> Vec<String> {
    let widest = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.width());
        cells.chain(columns.get(at).map(|column| column.head.width())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(widest).collect();
    let first = widths.first().copied().unwrap_or(0);
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let rest = |shown: &[usize]| -> usize {
        shown.iter().skip(1).filter_map(|at| widths.get(*at)).map(|width| width + GAP.len()).sum()
    };
    let mut first_width = first;
    if let Some(width) = width {
        while rest(&shown) + first.min(FIRST_MIN) > width {
            let expendable = |at: &usize| columns.get(*at).map_or(0, |column| column.expendable);
            let Some(worst) = shown.iter().map(expendable).max().filter(|worst| *worst > 0) else { break };
            shown.retain(|at| expendable(at) != worst);
        }
        first_width = first.min(width.saturating_sub(rest(&shown)).max(1));
    }
    let line = |cell: &dyn Fn(usize) -> String| {
        let mut line = String::new();
        for at in &shown {
            let text = cell(*at);
            let (text, space) = if *at == 0 {
                (shorten(&text, first_width), first_width)
            } else {
                (text, widths.get(*at).copied().unwrap_or(0))
            };
            let pad = " ".repeat(space.saturating_sub(text.width()));
            if *at > 0 {
                line.push_str(GAP);
            }
            let right = columns.get(*at).is_some_and(|column| column.right);
            line += &if right { pad + &text } else { text + &pad };
        }
        line.trim_end().to_owned()
    };
    let head = line(&|at| columns.get(at).map_or_else(String::new, |column| column.head.to_owned()));
    let body = rows.iter().map(|row| line(&|at| row.get(at).cloned().unwrap_or_default()));
    std::iter::once(head).chain(body).collect()
}

/// The start of a text with an ellipsis, where all of it is too wide.
pub(crate) fn shorten(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut start, mut used) = (String::new(), 0);
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide + 1 > width {
            break;
        }
        used += wide;
        start.push(c);
    }
    start + "…"
}

/// A count: `999`, `1.2k`, `34k`, `5.6M`.
pub(crate) fn count(n: f64) -> String {
    scaled(n, 1000.0, &["", "k", "M", "G", "T", "P", "E"])
}

/// A size in bytes: `999 B`, `1.2 KiB`, `34 MiB`.
pub(crate) fn size(n: f64) -> String {
    scaled(n, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"])
}

fn scaled(n: f64, step: f64, units: &[&str]) -> String {
    let (mut n, mut at) = (n, 0);
    // What would be printed as a whole step is one of the next unit.
    while n.abs() >= step - 0.5 && at + 1 < units.len() {
        n /= step;
        at += 1;
    }
    let unit = units.get(at).copied().unwrap_or_default();
    if at > 0 && n.abs() < 9.95 { format!("{n:.1}{unit}") } else { format!("{n:.0}{unit}") }
}

/// A cost, in whatever currency hosts write.
pub(crate) fn cost(n: f64) -> String {
    if n != 0.0 && n.abs() < 1.0 { format!("{n:.4}") } else { format!("{n:.2}") }
}

/// A time in the local zone: to the minute, or with the seconds; `-` for one that no calendar has.
pub(crate) fn local(micros: i128, seconds: bool) -> String {
    let stamp = i64::try_from(micros).ok().and_then(|micros| jiff::Timestamp::from_microsecond(micros).ok());
    let Some(stamp) = stamp else { return "-".into() };
    let zoned = stamp.to_zoned_datetime(jiff::tz::TimeZone::system());
    zoned.strftime(if seconds { "%Y-%m-%d %H:%M:%S" } else { "%Y-%m-%d %H:%M" }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [
        Column { head: "TITLE", right: false, expendable: 0 },
        Column { head: "N", right: true, expendable: 1 },
        Column { head: "ID", right: false, expendable: 0 },
    ];

    fn row(cells: [&str; 3]) -> Vec<String> {
        cells.map(str::to_owned).to_vec()
    }

    #[test]
    fn first_column_is_shortened_then_columns_go() {
        let rows = [row(["a title of some length", "12345", "id-1"]), row(["日本語日本語", "1", "id-22"])];
        assert_eq!(
            lines(&COLUMNS, &rows, None),
            [
                "TITLE                       N  ID",
                "a title of some length  12345  id-1",
                "日本語日本語                1  id-22"
            ]
        );
        assert_eq!(
            lines(&COLUMNS, &rows, Some(25)),
            ["TITLE            N  ID", "a title of…  12345  id-1", "日本語日本…      1  id-22"]
                .map(str::to_owned)
        );
        assert_eq!(
            lines(&COLUMNS, &rows, Some(18)),
            ["TITLE        ID", "a title of…  id-1", "日本語日本…  id-22"]
        );
        for width in 1..60 {
            let widest = lines(&COLUMNS, &rows, Some(width)).iter().map(|line| line.width()).max();
            assert!(widest <= Some(width.max(8)), "{width}: {widest:?}");
        }
    }

    #[test]
    fn figures_are_short() {
        for (n, text) in [
            (0.0, "0"),
            (999.0, "999"),
            (999.7, "1.0k"),
            (1000.0, "1.0k"),
            (9_949.0, "9.9k"),
            (9_951.0, "10k"),
            (999_600.0, "1.0M"),
            (1.5e9, "1.5G"),
        ] {
            assert_eq!(count(n), text, "{n}");
        }
        for (n, text) in
            [(0.0, "0 B"), (1023.0, "1023 B"), (1024.0, "1.0 KiB"), (1_048_575.0, "1.0 MiB"), (5e7, "48 MiB")]
        {
            assert_eq!(size(n), text, "{n}");
        }
        for (n, text) in [(0.0, "0.00"), (0.15695, "0.1570"), (1.5, "1.50"), (-0.5, "-0.5000")] {
            assert_eq!(cost(n), text, "{n}");
        }
    }
}
