//! Trees, sums and lists of the reference.

use std::cmp::Ordering;

use foldlog::view::Query;

use super::{IDS, Record, Reference, place};

impl Reference {
    /// A task and all below it, parents first, siblings by creation.
    fn tree(&self, id: usize) -> Vec<usize> {
        let (mut tree, mut open) = (Vec::new(), vec![id]);
        while let Some(next) = open.pop() {
            let Some(_) = self.live(next) else { continue };
            if tree.contains(&next) {
                continue;
            }
            tree.push(next);
            let mut below: Vec<usize> = self.children(IDS[next]).iter().filter_map(|id| place(id)).collect();
            below.sort_by_key(|&child| (self.live(child).unwrap().created, child));
            open.extend(below.into_iter().rev());
        }
        tree
    }

    /// Tasks, tokens in and out, cache writes and reads, size; and cost.
    pub(crate) fn totals(&self, id: usize) -> ([u64; 6], f64) {
        let tree = self.tree(id);
        let records: Vec<&Record> = tree.iter().filter_map(|&id| self.live(id)).collect();
        let sum =
            |name: &str| records.iter().fold(0_u64, |sum, record| sum.saturating_add(record.whole(name)));
        let names = ["tokensIn", "tokensOut", "cacheWrites", "cacheReads", "size"].map(sum);
        let cost = records.iter().fold(0.0, |sum, record| sum + record.number("totalCost"));
        ([records.len() as u64, names[0], names[1], names[2], names[3], names[4]], cost)
    }

    /// All that a query wants, in one list; orders are numbered as [`crate::task_model`] has them.
    pub(crate) fn list(&self, sort: usize, query: &Query) -> Vec<String> {
        let below = query.root.as_deref().map(|root| place(root).map(|id| self.tree(id)).unwrap_or_default());
        let wanted = |&(i, record): &(usize, &Record)| {
            query.status.is_none_or(|status| record.status() == status)
                && query.parent.is_none_or_eq(record.link("parentTaskId"))
                && query.workspace.is_none_or_eq(record.text("workspace"))
                && query.background.is_none_or(|wanted| (record.get("background") == Some("true")) == wanted)
                && below.as_ref().is_none_or(|below| below.contains(&i))
        };
        let all = (0..IDS.len()).filter_map(|i| self.live(i).map(|record| (i, record)));
        let mut found: Vec<(usize, &Record)> = all.filter(wanted).collect();
        let tokens = |record: &Record| record.number("tokensIn") + record.number("tokensOut");
        // Stable, and from the order of ids.
        found.sort_by(|(i, a), (j, b)| {
            let down = |name: &str| b.number(name).partial_cmp(&a.number(name)).unwrap_or(Ordering::Equal);
            match sort {
                0 => down("ts"),
                1 => b.created.cmp(&a.created),
                2 => self.changed(*j).cmp(&self.changed(*i)),
                3 => down("totalCost"),
                4 => tokens(b).partial_cmp(&tokens(a)).unwrap_or(Ordering::Equal),
                5 => down("size"),
                _ => a.text("task").cmp(&b.text("task")),
            }
        });
        found.into_iter().map(|(i, _)| IDS[i].to_owned()).collect()
    }
}

trait NoneOrEq {
    fn is_none_or_eq(&self, other: Option<String>) -> bool;
}

impl NoneOrEq for Option<String> {
    fn is_none_or_eq(&self, other: Option<String>) -> bool {
        self.is_none() || *self == other
    }
}
