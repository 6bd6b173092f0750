//! What an index has beside its tasks, in a snapshot: rules, bindings, writers, findings, documents.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::backups::Backup;
use super::documents::{Document, DocumentEntry, Documents};
use super::index::{Index, Writer};
use super::retention::Retentions;
use super::saved::{FACTS, event_of, put_event, spoiled};
use crate::event::{DocumentName, Event};
use crate::log::finding::{Finding, Severity};
use crate::log::{Base, KeyKind, Revision, Seq, SnapshotWriter, Spoiled};

/// As it stands in a snapshot; events are in the encoding of [`put_event`].
#[derive(Debug, Default, Serialize, Deserialize)]
struct Facts {
    live: u64,
    rules: Vec<u8>,
    bindings: Vec<Vec<u8>>,
    /// Each with its number and its time.
    backups: Vec<(u64, u64, Vec<u8>)>,
    /// Each with the id of its task, empty for the workspace.
    retention: Vec<(String, Vec<u8>)>,
    purges: u64,
    writers: Vec<(u64, Vec<u8>)>,
    findings: Vec<(String, Option<u64>, String)>,
    findings_seen: u64,
    documents: Vec<SavedDocument>,
    /// Of each document and each of its files, what was noted.
    mirrors: Vec<(String, Vec<Vec<Vec<u8>>>)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedDocument {
    name: String,
    revision: u64,
    seq: u64,
    /// Its first event, when it was last changed, and the event that would make it; `None` = it was deleted.
    live: Option<(u64, u64, Vec<u8>)>,
}

/// The codes of what a fold may find.
const CODES: &[&str] = &[
    "bad-body",
    "created-twice",
    "event-after-delete",
    "event-before-create",
    "fence-again",
    "illegal-status",
    "not-waiting",
    "patch-of-no-object",
    "ruled-field-patched",
    "status-from",
];

fn event(event: &Event) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_event(event, &mut bytes);
    bytes
}

impl Index {
    pub(super) fn save_facts(&self, out: &mut SnapshotWriter) -> Result<(), Spoiled> {
        let mut writers: Vec<_> = self.writers.iter().collect();
        writers.sort_unstable_by_key(|(session, _)| **session);
        let started = |writer: &Writer| {
            let Writer { label, version, pid } = writer.clone();
            event(&Event::SessionStarted { label, version, pid })
        };
        let finding = |finding: &Finding| (finding.code.to_owned(), finding.seq, finding.message.clone());
        let facts = Facts {
            live: self.live as u64,
            rules: event(&Event::RulesSet((*self.rules).clone())),
            bindings: self.bindings.iter().map(|it| event(&Event::WorkspaceBound(it.clone()))).collect(),
            backups: self.backups.iter().map(save_backup).collect(),
            retention: self
                .retention
                .events()
                .iter()
                .map(|(key, it)| (key.name.to_string(), event(it)))
                .collect(),
            purges: self.purges,
            writers: writers.into_iter().map(|(session, writer)| (*session, started(writer))).collect(),
            findings: self.findings.iter().map(finding).collect(),
            findings_seen: self.findings_seen,
            documents: self.documents.entries().map(|(name, entry)| save_document(name, entry)).collect(),
            mirrors: self
                .documents
                .all_mirrors()
                .map(|(name, mirrors)| {
                    let notes = mirrors.map(|mirror| {
                        mirror.notes().map(|note| event(&Event::DocumentMirrored(note))).collect()
                    });
                    (name.as_str().to_owned(), notes.collect())
                })
                .collect(),
        };
        let bytes = postcard::to_extend(&facts, Vec::new()).map_err(|e| Spoiled(e.to_string()))?;
        out.put(&bytes);
        out.end_section(FACTS);
        Ok(())
    }

    pub(super) fn load_facts(&mut self, base: &Arc<Base>) -> Result<(), Spoiled> {
        let bytes = base.file().bytes(base.file().section(FACTS)?)?;
        let facts: Facts = match postcard::take_from_bytes(&bytes) {
            Ok((facts, [])) => facts,
            _ => return Err(spoiled("its facts about tasks do not decode")),
        };
        self.live = usize::try_from(facts.live).map_err(|_| spoiled("it has too many tasks"))?;
        match event_of(&facts.rules)? {
            Event::RulesSet(rules) => self.rules = Arc::new(rules),
            _ => return Err(spoiled("its rules are none")),
        }
        for bytes in &facts.bindings {
            match event_of(bytes)? {
                Event::WorkspaceBound(binding) => self.bindings.push(binding),
                _ => return Err(spoiled("a binding of it is none")),
            }
        }
        let mut backups = Vec::new();
        for (seq, time, bytes) in &facts.backups {
            match event_of(bytes)? {
                Event::BackedUp { target, covers } => {
                    backups.push(Backup { target, covers, time: *time, seq: Seq(*seq) });
                }
                _ => return Err(spoiled("a backup of it is none")),
            }
        }
        self.backups = Arc::new(backups);
        self.purges = facts.purges;
        for (id, bytes) in &facts.retention {
            let kind = if id.is_empty() { KeyKind::NONE } else { KeyKind::TASK };
            let said = event_of(bytes)?;
            if Retentions::take_up(&mut self.retention, kind, id, &said).is_none() {
                return Err(spoiled("what it keeps of history is nothing"));
            }
        }
        for (session, bytes) in &facts.writers {
            match event_of(bytes)? {
                Event::SessionStarted { label, version, pid } => {
                    self.writers.insert(*session, Arc::new(Writer { label, version, pid }));
                }
                _ => return Err(spoiled("a writer of it is none")),
            }
        }
        for (code, seq, message) in facts.findings {
            let code = CODES
                .iter()
                .find(|known| **known == code)
                .ok_or_else(|| spoiled("a finding of it is none"))?;
            self.findings.push(Finding {
                severity: Severity::Warning,
                code,
                file: PathBuf::new(),
                offset: None,
                seq,
                message,
                remedy: super::index::REMEDY,
            });
        }
        self.findings_seen = facts.findings_seen;
        let mut documents = Documents::default();
        for saved in facts.documents {
            let (name, entry) = load_document(saved)?;
            documents.restore(name, entry);
        }
        for (name, files) in facts.mirrors {
            for notes in files {
                for bytes in notes {
                    match event_of(&bytes)? {
                        Event::DocumentMirrored(note) => documents.restore_note(&name, note),
                        _ => return Err(spoiled("what it knows of a file is nothing")),
                    }
                }
            }
        }
        self.documents = documents;
        Ok(())
    }
}

fn save_backup(backup: &Backup) -> (u64, u64, Vec<u8>) {
    let Backup { target, covers, time, seq } = backup;
    (seq.0, *time, event(&Event::BackedUp { target: Arc::clone(target), covers: *covers }))
}

fn save_document(name: &DocumentName, entry: &DocumentEntry) -> SavedDocument {
    let live = entry.live().map(|document| {
        let (kind, value) = (document.kind.clone(), document.value.clone());
        (document.created.0, document.time, event(&Event::DocumentPut { kind, value, again: false }))
    });
    let (revision, seq) = (entry.revision().0, entry.seq().0);
    SavedDocument { name: name.as_str().into(), revision, seq, live }
}

fn load_document(saved: SavedDocument) -> Result<(DocumentName, DocumentEntry), Spoiled> {
    let SavedDocument { name, revision, seq, live } = saved;
    let (name, revision, seq) = (DocumentName::of_log(&name), Revision(revision), Seq(seq));
    let Some((created, time, bytes)) = live else { return Ok((name, DocumentEntry::Dead { revision, seq })) };
    match event_of(&bytes)? {
        Event::DocumentPut { kind, value, .. } => {
            let document =
                Document { name: name.clone(), kind, value, revision, seq, created: Seq(created), time };
            Ok((name, DocumentEntry::Live(Arc::new(document))))
        }
        _ => Err(spoiled("a document of it is none")),
    }
}
