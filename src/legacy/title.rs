//! Titles that say nothing: what hosts write when they know none.

/// The word for a task in the 18 languages that hosts are translated into. In order: ca de en es fr hi id it ja ko nl pl
/// pt-BR ru tr vi zh-CN zh-TW.
const NOUNS: [&str; 18] = [
    "Tasca",
    "Aufgabe",
    "Task",
    "Tarea",
    "Tâche",
    "टास्क",
    "Tugas",
    "Attività",
    "タスク",
    "작업",
    "Taak",
    "Zadanie",
    "Tarefa",
    "Задача",
    "Görev",
    "Nhiệm vụ",
    "任务",
    "工作",
];

/// Longest phrase in the parentheses, in characters; the longest in use has 22.
const PHRASE_MAX: usize = 40;

/// Whether a title is a placeholder: `<task> #<number>`, in any of the languages, perhaps with one phrase in parentheses
/// behind it, and nothing else.
///
/// The phrase itself is not compared: translations of it change from release to release, the form does not. A person's
/// title of this very form is taken for a placeholder too; it then loses only against a title of another form.
pub fn is_placeholder(title: &str) -> bool {
    let title = trim(title);
    let Some(rest) = NOUNS.iter().find_map(|noun| title.strip_prefix(noun)) else { return false };
    let rest = trim(rest);
    let Some(rest) = rest.strip_prefix(['#', '＃']) else { return false };
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    if after.len() == rest.len() {
        return false;
    }
    let after = trim(after);
    if after.is_empty() {
        return true;
    }
    let inner = after.strip_prefix(['(', '（']).and_then(|inner| inner.strip_suffix([')', '）']));
    inner.is_some_and(|phrase| {
        !phrase.is_empty()
            && phrase.chars().count() <= PHRASE_MAX
            && !phrase.contains(['(', ')', '（', '）'])
            && !phrase.contains(char::is_control)
    })
}

/// What JavaScript's `trim` leaves, by which hosts make titles: it takes the byte-order mark off and leaves U+0085.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c == '\u{feff}' || (c.is_whitespace() && c != '\u{85}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both phrases of each language, in the order of [`NOUNS`].
    const PHRASES: [[&str; 2]; 18] = [
        ["Incompleta", "Sense missatges"],
        ["Unvollständig", "Keine Nachrichten"],
        ["Incomplete", "No messages"],
        ["Incompleta", "Sin mensajes"],
        ["Incomplète", "Aucun message"],
        ["अधूरा", "कोई संदेश नहीं"],
        ["Tidak lengkap", "Tidak ada pesan"],
        ["Incompleta", "Nessun messaggio"],
        ["未完了", "メッセージなし"],
        ["미완료", "메시지 없음"],
        ["Onvolledig", "Geen berichten"],
        ["Niekompletne", "Brak wiadomości"],
        ["Incompleta", "Sem mensagens"],
        ["Незавершенная", "Нет сообщений"],
        ["Tamamlanmamış", "Mesaj yok"],
        ["Chưa hoàn thành", "Không có tin nhắn"],
        ["未完成", "无消息"],
        ["未完成", "無訊息"],
    ];

    #[test]
    fn placeholders_of_every_language_are_told_in_every_form() {
        for (noun, phrases) in NOUNS.iter().zip(PHRASES) {
            for n in ["0", "1", "17"] {
                assert!(is_placeholder(&format!("{noun} #{n}")), "{noun}");
                assert!(is_placeholder(&format!("  {noun}＃{n}\n")), "{noun}");
                for phrase in phrases {
                    for title in [
                        format!("{noun} #{n} ({phrase})"),
                        format!("{noun} #{n}（{phrase}）"),
                        format!("\u{feff}{noun} #{n}  ({phrase}) "),
                    ] {
                        assert!(is_placeholder(&title), "{title}");
                    }
                }
            }
        }
    }

    #[test]
    fn titles_of_people_are_not() {
        for title in [
            "",
            "Task",
            "Task #",
            "Task #x",
            "Task 1 (Incomplete)",
            "#1 (Incomplete)",
            "Fix issue #12 (urgent)",
            "Task force (draft)",
            "Task #12: rename the store",
            "Task #12 (a) and (b)",
            "Task #12 (urgent) please",
            "Task #12 ()",
            "Tasks #1 (Incomplete)",
            "My Task #1 (Incomplete)",
            "Task #1 (Incomplete)\nand then some",
            "Task #1 (this phrase is a sentence of a person and far longer)",
            "工作流 #1",
        ] {
            assert!(!is_placeholder(title), "{title:?}");
        }
    }
}
