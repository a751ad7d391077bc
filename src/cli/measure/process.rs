//! What Linux says about this process: its memory, and its time on the cores.
//!
//! Everything is `None` (or nothing happens) where the kernel does not say it.

use std::fs;
use std::io::Write;
use std::time::Duration;

use crate::cli::measure::clock::pause;

/// Memory that did not fall for so many looks falls no further.
const CALM_LOOKS: u32 = 3;
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The memory of this process, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// Resident now (`VmRSS`).
    pub resident: u64,
    /// The most that was ever resident, or since [`forget_peak`] (`VmHWM`).
    pub peak: u64,
}

/// The memory of this process.
pub fn memory() -> Option<Memory> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some(Memory { resident: field_kib(&status, "VmRSS:")?, peak: field_kib(&status, "VmHWM:")? })
}

/// The memory of this process when it no longer falls: the allocator keeps what was freed for about a
/// second.
pub fn settled_memory() -> Option<Memory> {
    let (mut settled, mut calm) = (memory()?, 0);
    while calm < CALM_LOOKS {
        pause(LOOK_EVERY);
        let now = memory()?;
        calm = if now.resident < settled.resident { 0 } else { calm + 1 };
        settled = Memory { resident: settled.resident.min(now.resident), ..now };
    }
    Some(settled)
}

/// From now on the peak is counted anew.
pub fn forget_peak() {
    let file = fs::OpenOptions::new().write(true).open("/proc/self/clear_refs");
    // Without it the peak is that of the whole life, which is no less.
    drop(file.and_then(|mut file| file.write_all(b"5")));
}

/// The bytes of this process on huge pages.
pub fn huge_page_bytes() -> Option<u64> {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    field_kib(&rollup, "AnonHugePages:")
}

/// The time of this thread on a core, in nanoseconds: other work on the machine does not count, but
/// for what it does to the caches.
pub fn thread_cpu_ns() -> Option<u64> {
    scheduled_ns(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

/// The time of all living threads of this process on the cores, in nanoseconds.
pub fn cpu_ns() -> Option<u64> {
    let mut all = 0;
    for task in fs::read_dir("/proc/self/task").ok()? {
        // A thread may end between the two.
        if let Ok(schedstat) = fs::read_to_string(task.ok()?.path().join("schedstat")) {
            all += scheduled_ns(&schedstat)?;
        }
    }
    Some(all)
}

fn scheduled_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().next()?.parse().ok()
}

/// A field of a status file that counts in KiB, in bytes.
fn field_kib(status: &str, name: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = rest.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_kernel_are_read_in_bytes() {
        let status = "Name:\tnearprint\nVmHWM:\t   2048 kB\nVmRSS:\t   1024 kB\n";
        assert_eq!(field_kib(status, "VmRSS:"), Some(1 << 20));
        assert_eq!(field_kib(status, "VmSwap:"), None);
        assert_eq!(scheduled_ns("123 4 5\n"), Some(123));
    }
}
