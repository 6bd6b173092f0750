//! What reaches the device, and which calls it takes.

use std::fs::{File, read_link, read_to_string};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;

/// The calls that make a store wait for the device.
const SYNCS: &str = "fdatasync,fsync,msync,sync_file_range,syncfs";

/// The block device that holds a folder.
pub struct Device {
    /// As /proc/diskstats names it.
    pub name: String,
    /// The whole of it, if that is a partition: flushes are counted there.
    whole: String,
}

impl Device {
    /// `None` where there is none, as below tmpfs.
    pub fn of(dir: &Path) -> Option<Self> {
        let dev = std::fs::metadata(dir).ok()?.dev();
        let path = format!("/sys/dev/block/{}:{}", rustix::fs::major(dev), rustix::fs::minor(dev));
        let link = read_link(&path).ok()?;
        let name = link.file_name()?.to_str()?.to_owned();
        let is_part = Path::new(&path).join("partition").exists();
        let whole = if is_part { link.parent()?.file_name()?.to_str()?.to_owned() } else { name.clone() };
        Some(Device { name, whole })
    }

    /// Bytes written to it and flushes of it since the machine started, by anybody.
    pub fn counts(&self) -> Option<(u64, u64)> {
        let text = read_to_string("/proc/diskstats").ok()?;
        let field = |device: &str, n: usize| -> Option<u64> {
            let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            lines.find(|fields| fields.get(2) == Some(&device))?.get(n)?.parse().ok()
        };
        Some((field(&self.name, 9)? * 512, field(&self.whole, 18)?))
    }
}

/// Writes out what the file system of a folder still holds back.
pub fn settle(dir: &Path) -> Result<()> {
    Ok(rustix::fs::syncfs(File::open(dir)?)?)
}

/// Bytes this process has caused to be written, as the kernel accounts them.
pub fn written() -> u64 {
    let text = read_to_string("/proc/self/io").unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// The file system of a folder, as the kernel mounts it.
pub fn file_system(dir: &Path) -> Option<String> {
    let dir = dir.canonicalize().ok()?;
    let mounts = read_to_string("/proc/self/mounts").ok()?;
    let fields = mounts.lines().filter_map(|line| line.split(' ').collect::<Vec<_>>().try_into().ok());
    let over = fields.filter(|[_, place, ..]: &[&str; 6]| dir.starts_with(place));
    over.max_by_key(|[_, place, ..]| place.len()).map(|[_, _, kind, ..]| kind.to_owned())
}

/// Counts the syncs of a program with strace.
pub struct Trace {
    file: PathBuf,
}

impl Trace {
    /// Whether strace is there and may trace.
    pub fn is_possible() -> bool {
        let mut strace = Command::new("strace");
        strace.args(["-f", "--seccomp-bpf", "-o", "/dev/null", "true"]);
        strace.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    pub fn into(file: PathBuf) -> Self {
        Trace { file }
    }

    /// What starts a program so that it is traced. Only the calls that count are stopped at.
    pub fn command(&self, program: &Path) -> Command {
        let mut strace = Command::new("strace");
        strace.args(["-f", "--seccomp-bpf", "-qq", "-ttt", "-e"]).arg(format!("trace={SYNCS}"));
        strace.arg("-o").arg(&self.file).arg(program);
        strace
    }

    /// The calls that began between two times, in seconds since 1970.
    pub fn count(&self, from: f64, to: f64) -> Result<u64> {
        let text = read_to_string(&self.file)?;
        let begun = text.lines().filter(|line| !line.contains(" resumed>") && line.contains('('));
        let times = begun.filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        Ok(times.filter(|time| (from..=to).contains(time)).count() as u64)
    }
}
