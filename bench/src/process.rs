//! The memory of this process and its time on the cores, as Linux reports them.
//!
//! Everything is `None` (or has no effect) where the kernel does not provide it.

use std::time::Duration;

use procfs::ProcResult;
use procfs::process::{ClearRefs, Process, Task};
use rustix::time::{ClockId, clock_gettime};

use crate::clock::pause;

/// Memory has settled once it did not fall for this many looks.
const CALM_LOOKS: u32 = 3;
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The memory of this process, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    /// Resident now (`VmRSS`).
    pub(super) resident: u64,
    /// The most that was resident since the start, or since [`forget_peak`] (`VmHWM`).
    pub(super) peak: u64,
}

fn memory() -> Option<Memory> {
    let status = Process::myself().ok()?.status().ok()?;
    // The kernel counts in KiB.
    Some(Memory { resident: status.vmrss? * 1024, peak: status.vmhwm? * 1024 })
}

/// The memory of this process once it no longer falls: the allocator keeps what was freed for about
/// a second.
pub(super) fn settled_memory() -> Option<Memory> {
    let (mut settled, mut calm) = (memory()?, 0);
    while calm < CALM_LOOKS {
        pause(LOOK_EVERY);
        let now = memory()?;
        calm = if now.resident < settled.resident { 0 } else { calm + 1 };
        settled = Memory { resident: settled.resident.min(now.resident), ..now };
    }
    Some(settled)
}

/// Restarts the measurement of the peak.
pub(super) fn forget_peak() {
    // Without it the peak is that of the whole life, which is no less.
    drop(Process::myself().and_then(|process| process.clear_refs(ClearRefs::PeakRSS)));
}

/// The time of this process on the cores so far, in nanoseconds, of ended threads too.
pub(super) fn all_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec).unwrap_or_default() * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or_default()
}

/// The bytes that the kernel has read from disks for this process.
pub(super) fn read_bytes() -> Option<u64> {
    Some(Process::myself().ok()?.io().ok()?.read_bytes)
}

/// The time of this thread on a core, in nanoseconds. Other work on the machine does not count,
/// except for its effect on the caches.
pub(super) fn thread_cpu_ns() -> Option<u64> {
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    let task = Process::myself().and_then(|process| process.task_from_tid(thread));
    scheduled_ns(task).ok()
}

/// The time of all living threads of this process on the cores, in nanoseconds.
pub(super) fn cpu_ns() -> Option<u64> {
    let tasks = Process::myself().and_then(|process| process.tasks()).ok()?;
    // A thread may end before it is read.
    Some(tasks.filter_map(|task| scheduled_ns(task).ok()).sum())
}

fn scheduled_ns(task: ProcResult<Task>) -> ProcResult<u64> {
    Ok(task?.schedstat()?.sum_exec_runtime)
}
