//! Delegations that nobody alive will bring to an end, as JSON.

use foldlog::task::Orphan;

use crate::json;

/// What is known of who held it: `unowned`, `dead` or `unknown`.
#[must_use]
pub fn owner(orphan: &Orphan) -> &'static str {
    match &orphan.owner {
        None => "unowned",
        Some(_) if orphan.dead => "dead",
        Some(_) => "unknown",
    }
}

/// `{"workspace","parent","fault","child","owner","mended"}`.
#[must_use]
pub fn orphan(workspace: &str, orphan: &Orphan, mended: bool) -> String {
    let mut line = String::from("{");
    json::text("workspace", workspace, &mut line);
    json::text("parent", orphan.parent.as_str(), &mut line);
    json::text("fault", orphan.fault.code(), &mut line);
    match orphan.fault.child() {
        Some(child) => json::text("child", child.as_str(), &mut line),
        None => json::raw("child", "null", &mut line),
    }
    json::text("owner", owner(orphan), &mut line);
    json::raw("mended", mended, &mut line);
    line + "}"
}
