//! Which workspace a text means.

use std::path::Path;

use foldlog::store::{Place, Store};
use foldlog::{TaskStore, Tasks};

use crate::failure::Failure;

/// The folder's name of the workspace that a text means: `key:NAME`, a workspace's folder's name, or a project's path.
///
/// # Errors
/// `not-found` if the store has no such workspace; as [`place`].
pub fn find(store: &Store, text: &str) -> Result<String, Failure> {
    if store.workspace_names()?.contains(&text.to_owned()) {
        return Ok(text.to_owned());
    }
    let place = place(text)?;
    store.find_workspace(&place)?.ok_or_else(|| {
        Failure::not_found(
            format!("the store has no workspace for {text}"),
            "see `foldlog stats` for those it has; name one by its project's folder, by key:NAME, or by its own name",
        )
    })
}

/// What a text means as a place: `key:NAME`, or a path, which is made whole.
///
/// # Errors
/// `usage` for a path that is no Unicode.
pub fn place(text: &str) -> Result<Place, Failure> {
    if let Some(key) = text.strip_prefix("key:") {
        return Ok(Place::Key(key.to_owned()));
    }
    let whole = std::path::absolute(text).map_err(|e| Failure::io("find", Path::new(text), &e))?;
    match whole.to_str() {
        Some(whole) => Ok(Place::Path(whole.to_owned())),
        None => Err(Failure::usage(
            format!("the path {} is not Unicode", whole.display()),
            "name the workspace by its folder's name in the store",
        )),
    }
}

/// The workspace of that name in the store, else that of a place, which is made if it is absent.
///
/// # Errors
/// As [`TaskStore::home`].
pub fn named_or_new(store: &TaskStore, text: &str) -> Result<Tasks, Failure> {
    match store.store().workspace_names()?.iter().any(|name| name == text) {
        true => Ok(store.named(text)?),
        false => Ok(store.home(&place(text)?)?),
    }
}
