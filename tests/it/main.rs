//! The integration tests, one binary: half the link time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on fails"
)]

mod backup;
mod backup_crashes;
mod blob_crashes;
mod blobs;
mod bridge_faults;
mod bridge_model;
mod bridge_schedules;
mod built_segment;
mod commit_basics;
mod compaction;
mod control_block;
mod control_losses;
mod counterexamples;
mod crash_damage;
mod crash_enumeration;
mod crash_faults;
mod crash_forward;
mod crash_oracle;
mod crash_stories;
mod damage_bytes;
mod document_bridge;
mod document_crashes;
mod document_model;
mod documents;
#[path = "../../bindings/requests/src/event_json.rs"]
#[expect(unreachable_pub, reason = "it is a module of a library there")]
mod event_json;
mod hooked;
mod idle;
mod keep_lock;
mod layers;
mod legacy_folders;
mod legacy_import;
mod legacy_source;
mod linux_only;
mod model_frames;
mod open_bounded;
mod open_cases;
mod ownership_model;
mod process_backup;
mod process_burst;
mod process_compact;
mod process_create;
#[cfg(target_os = "linux")]
mod process_disk;
mod process_documents;
#[cfg(target_os = "linux")]
mod process_fork;
mod process_kill;
mod process_owner;
#[cfg(target_os = "linux")]
mod process_power;
mod process_replaced;
#[cfg(target_os = "linux")]
mod process_strace;
mod process_subscribe;
mod process_takeover;
mod protocol;
mod purge;
mod reads_beside;
mod recovery_beside;
mod repair;
mod replaced_anywhere;
mod reserve;
mod retention;
mod sim_ownership;
mod sim_processes;
mod sim_toy_log;
mod simulated;
mod snapshots;
mod snapshots_beside;
mod spec_numbers;
mod spec_store;
mod subscribe;
mod task_changes;
mod task_crashes;
mod task_model;
mod task_ownership;
mod task_processes;
mod task_reference;
mod task_replay;
mod task_rules;
mod task_values;
mod try_commit;
mod vectors;
mod views;
mod worker;
