//! The history that a demo takes over: a small tree of the older layout, made up for it.

use std::path::Path;

use foldlog::vfs::os::Os;
use foldlog::vfs::{Open, Vfs as _, write_full};
use foldlog::{Field, Item};
use foldlog_requests::Failure;

const INDEX: &str = include_str!("../../sample/_index.json");
const ITEMS: &str = include_str!("../../sample/history_items.json");

/// Writes it into a folder, which is made.
pub(super) fn write(root: &Path) -> Result<(), Failure> {
    let tasks = root.join("tasks");
    folder(root)?;
    folder(&tasks)?;
    file(&tasks.join("_index.json"), INDEX)?;
    for record in records() {
        let id = Item::parse(record).ok().and_then(|item| Some(item.text(&Field::Id)?.into_owned()));
        let Some(id) = id else { continue };
        folder(&tasks.join(&id))?;
        file(&tasks.join(&id).join("history_item.json"), record)?;
    }
    Ok(())
}

/// The records, as hosts write them: one line each.
fn records() -> impl Iterator<Item = &'static str> {
    ITEMS.lines().filter(|line| line.starts_with('{')).map(|line| line.strip_suffix(',').unwrap_or(line))
}

/// Makes a folder.
pub(super) fn folder(path: &Path) -> Result<(), Failure> {
    Os.create_dir(path).map_err(|e| Failure::io("create", path, &e))
}

/// Makes a file with this text.
pub(super) fn file(path: &Path, text: &str) -> Result<(), Failure> {
    let file = Os.open(path, Open::Create).map_err(|e| Failure::io("create", path, &e))?;
    write_full(&*file, text.as_bytes(), 0).map_err(|(_, e)| Failure::io("write", path, &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_those_of_the_index_but_for_the_one_that_was_lost() {
        let index: serde_json::Value = serde_json::from_str(INDEX).unwrap();
        let entries = index["entries"].as_array().unwrap();
        let items: Vec<serde_json::Value> =
            records().map(|record| serde_json::from_str(record).unwrap()).collect();
        assert_eq!((entries.len(), items.len()), (12, 12));
        let differ: Vec<_> = entries.iter().zip(&items).filter(|(entry, item)| entry != item).collect();
        assert_eq!(differ.len(), 1);
        assert_eq!(differ[0].1["task"], "Task #1 (Incomplete)");
        assert!(differ[0].1["ts"].as_u64() > differ[0].0["ts"].as_u64());
    }
}
