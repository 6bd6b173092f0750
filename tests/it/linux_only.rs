//! The test modules that Linux alone has, each with its reason. All others also pass on Windows (under Wine).
//!
//! A test below compares this list with the guarded modules of `main.rs`, so that none goes missing elsewhere in
//! silence.

/// Module, and why the other systems cannot have it.
const MODULES: &[(&str, &str)] = &[
    ("process_disk", "full disks and read-only media are made with tmpfs and bind mounts"),
    ("process_fork", "fork exists on Unix alone, and what it does to locks is told by Linux's flock"),
    ("process_power", "a power cut is the shutdown of a loop-mounted ext4"),
    ("process_strace", "system calls are made to fail by strace"),
];

/// What the workers of those modules can be.
#[cfg(target_os = "linux")]
pub(crate) const ROLES: &[crate::worker::Role] = &[
    ("disk", crate::process_disk::scenario),
    ("forker", crate::process_fork::forker),
    ("power", crate::process_power::scenario),
    ("appender", crate::process_strace::appender),
];

#[test]
fn guarded_modules_are_listed_with_their_reason() {
    let main = include_str!("main.rs");
    let mut guarded = Vec::new();
    let mut guard = false;
    for line in main.lines().map(str::trim) {
        if line.starts_with("#[cfg(") {
            assert_eq!(line, "#[cfg(target_os = \"linux\")]", "a guard that this list knows nothing of");
            guard = true;
        } else if let Some(name) = line.strip_prefix("mod ").and_then(|m| m.strip_suffix(';'))
            && std::mem::take(&mut guard)
        {
            guarded.push(name);
        }
    }
    let listed: Vec<_> = MODULES.iter().map(|(name, _)| *name).collect();
    assert_eq!(guarded, listed, "main.rs and this list differ");
    assert!(MODULES.iter().all(|(_, why)| why.len() > 20));
}
