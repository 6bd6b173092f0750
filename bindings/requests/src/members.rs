//! Which members each operation takes. A member that does nothing where it stands would be one that its author relies on: it is
//! refused.

use crate::failure::Failure;
use crate::request::Request;

/// Where a request may say which home is meant.
const WHERE: &[&str] = &["workspace", "global"];
/// How a commit is to be made.
const HOW: &[&str] =
    &["expect", "expect_documents", "fence", "fences", "op_id", "seen", "durability", "workspace", "global"];
/// The same of a change of one document alone: a bare `expect` there would be of a task of its name.
const HOW_OF_A_DOCUMENT: &[&str] =
    &["expect_documents", "op_id", "seen", "durability", "workspace", "global"];

/// An operation's own members, and those of the commit or the home; `None` = there is no such operation.
fn of(op: &str) -> Option<(&'static [&'static str], &'static [&'static str])> {
    Some(match op {
        "create" => (&["item", "again"], HOW),
        "patch" => (&["task", "set", "unset", "drop_children"], HOW),
        "rename" => (&["task", "title"], HOW),
        "status" => (&["task", "status"], HOW),
        "resume" | "attach" | "abandon" => (&["task"], HOW),
        "delegate" => (&["parent", "child"], HOW),
        "complete" => (&["task", "summary"], HOW),
        "remove" => (&["tasks", "cascade"], HOW),
        "detach" => (&["task", "fence"], HOW),
        "mend" => (&["parent", "unowned"], HOW),
        "set_rules" => (&["table"], HOW),
        "set_retention" => (&["task", "keep"], HOW),
        "pin" => (&["task", "pinned"], HOW),
        "purge" | "plan_purge" => (&["tasks", "cascade"], WHERE),
        "doc_put" => (&["name", "value", "kind", "again"], HOW_OF_A_DOCUMENT),
        "doc_patch" => (&["name", "set", "unset"], HOW_OF_A_DOCUMENT),
        "doc_delete" => (&["name"], HOW_OF_A_DOCUMENT),
        "commit" => (&["ops"], HOW),
        "mend_orphans" => (&["unowned"], HOW),
        "judge" => (&["ops"], WHERE),
        "get" | "tree" | "totals" | "history" => (&["task"], WHERE),
        "list" => (&["status", "parent", "root", "background", "sort", "limit", "after"], WHERE),
        "doc_get" | "doc_resolve" | "doc_history" => (&["name"], WHERE),
        "doc_list" => (&["prefix", "kind", "limit", "after"], WHERE),
        "doc_sync" => (&["name", "file", "kind"], WHERE),
        "sessions" | "orphans" | "rules" | "retention" | "check" | "health" | "flush" | "compact" => {
            (&[], WHERE)
        }
        "wait_durable" => (&["ticket", "timeout_ms"], WHERE),
        "subscribe" => (&["from", "durable"], WHERE),
        "unsubscribe" => (&["sub"], &[]),
        "hello" | "workspaces" => (&[], &[]),
        _ => return None,
    })
}

/// Whether a request says nothing that its operation does not take; one among the `ops` of a commit takes its own members only.
///
/// # Errors
/// `invalid`, with what it takes.
pub(crate) fn check(request: &Request<'_>, is_one_of_several: bool) -> Result<(), Failure> {
    let Some((own, others)) = of(&request.op) else { return Ok(()) };
    let others = if is_one_of_several { &[] } else { others };
    let Some(stray) =
        request.present().into_iter().find(|name| !own.contains(name) && !others.contains(name))
    else {
        return Ok(());
    };
    let mut takes = own.join(", ");
    if !others.is_empty() {
        takes += if own.is_empty() { "" } else { "; " };
        takes += &others.join(", ");
    }
    let what = match (is_one_of_several, takes.is_empty()) {
        (_, true) => "takes no members".to_owned(),
        (true, false) => {
            format!("takes {takes}; what the commit rests on, and where it is made, stands beside ops")
        }
        (false, false) => format!("takes {takes}"),
    };
    Err(Failure::invalid(format!("{} takes no {stray}: it {what}", request.op)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perform::{CHANGES, FOLLOWS, READS};

    #[test]
    fn every_operation_is_in_the_table_and_what_it_does_not_take_is_refused() {
        for op in READS.iter().chain(&CHANGES).chain(&FOLLOWS) {
            assert!(of(op).is_some(), "{op}");
            let mut taken = 0;
            for (name, value) in crate::request::EXAMPLES {
                let text = format!("{{\"op\":\"{op}\",\"{name}\":{value}}}");
                let (own, others) = of(op).unwrap_or_default();
                let is_taken = own.contains(name) || others.contains(name);
                taken += usize::from(is_taken);
                assert_eq!(Request::parse(&text).is_ok(), is_taken, "{text}");
            }
            let all = of(op).map_or(0, |(own, others)| {
                own.iter().chain(others.iter().filter(|name| !own.contains(name))).count()
            });
            assert_eq!(taken, all, "{op} takes a member that no request has");
        }
    }

    #[test]
    fn change_among_several_takes_its_own_members_alone() {
        let one = |member: &str| {
            let text = format!(
                "{{\"op\":\"commit\",\"ops\":[{{\"op\":\"doc_put\",\"name\":\"x\",\"value\":2{member}}}]}}"
            );
            Request::parse(&text).and_then(|request| request.changes().map(|all| all.len()))
        };
        assert_eq!(one("").ok(), Some(1));
        for member in [
            ",\"expect_documents\":{\"x\":\"absent\"}",
            ",\"expect\":{\"x\":\"absent\"}",
            ",\"durability\":\"durable\"",
            ",\"global\":true",
            ",\"workspace\":\"w\"",
            ",\"op_id\":\"00\"",
            ",\"ops\":[{}]",
        ] {
            assert!(one(member).is_err(), "{member}");
        }
    }
}
