//! What JavaScript has of each task already, so that only what changed goes over.
//!
//! A task has a slot, a number that stands for it on both sides. JavaScript keeps, by slot, what it was given last; here
//! stands of which token that was. What is as it was is said by its slot alone.

use std::collections::HashMap;

use foldlog::task::Snapshot;
use foldlog::{Tasks, Token};
use foldlog_requests::json::{raw, text};
use foldlog_requests::task::item;

#[derive(Default)]
pub(crate) struct Known {
    slots: HashMap<String, usize>,
    tokens: Vec<Option<Token>>,
}

impl Known {
    /// Whether what JavaScript has in a slot is this.
    pub(crate) fn has(&self, slot: usize, token: Token) -> bool {
        self.tokens.get(slot).is_some_and(|known| *known == Some(token))
    }

    /// What was told did not reach JavaScript: all has to be told again.
    pub(crate) fn forget_all(&mut self) {
        self.tokens.fill(None);
    }

    /// JavaScript is told that there is no such task.
    pub(crate) fn forget(&mut self, id: &str) {
        if let Some(slot) = self.slots.remove(id)
            && let Some(token) = self.tokens.get_mut(slot)
        {
            *token = None;
        }
    }

    /// A task's slot; what JavaScript has not goes to the end of `fresh`, as `{"slot","item","revision","token","fence"}`.
    pub(crate) fn tell(
        &mut self,
        home: &Tasks,
        found: Snapshot,
        fresh: &mut String,
    ) -> foldlog::Result<usize> {
        let slot = match self.slots.get(found.task.id.as_str()) {
            Some(slot) => *slot,
            None => {
                self.tokens.push(None);
                self.slots.insert(found.task.id.to_string(), self.tokens.len() - 1);
                self.tokens.len() - 1
            }
        };
        if self.has(slot, found.token) {
            return Ok(slot);
        }
        // Where a value cannot be loaded, JavaScript is given nothing, and knows nothing.
        let found = home.load(found)?;
        if let Some(known) = self.tokens.get_mut(slot) {
            *known = Some(found.token);
        }
        if !fresh.ends_with('[') {
            fresh.push(',');
        }
        fresh.push('{');
        raw("slot", slot, fresh);
        raw("item", item(&found), fresh);
        raw("revision", found.token.revision, fresh);
        text("token", &found.token.to_string(), fresh);
        match found.task.owner() {
            Some(fence) => text("fence", &fence.to_string(), fresh),
            None => raw("fence", "null", fresh),
        }
        fresh.push('}');
        Ok(slot)
    }
}
