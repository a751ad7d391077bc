//! What the operating system says of this process: its memory, files, processor time and start.

use procfs::process::{LimitValue, Process};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::metrics::float;

/// The resident memory of this process in bytes, if the operating system reports it.
pub(crate) fn resident_bytes() -> Option<u64> {
    let kib = Process::myself().ok()?.status().ok()?.vmrss?;
    kib.checked_mul(1_024)
}

/// Raises the limit of open files of this process as far as possible: a data directory needs one
/// for each journal file.
pub(crate) fn raise_open_files_max() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where the system refuses that, the limit stays.
    let _raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// How many files this process has open (`None`: it cannot be told, for example because no other
/// can be opened), and how many it may have (`None`: no limit).
pub(crate) fn open_files() -> (Option<u64>, Option<u64>) {
    let open = Process::myself().and_then(|process| process.fd_count());
    (open.ok().map(|open| open as u64), getrlimit(Resource::Nofile).current)
}

/// The metrics of a process that every client of Prometheus has, in its text format. What the
/// operating system does not report is left out. Reads three files.
pub(crate) fn metrics() -> String {
    let process = Process::myself().ok();
    let process = process.as_ref();
    let stat = process.and_then(|process| process.stat().ok());
    let stat = stat.as_ref();
    let files = process.and_then(|process| process.fd_count().ok());
    let limits = process.and_then(|process| process.limits().ok());
    let files_max = limits.and_then(|limits| match limits.max_open_files.soft_limit {
        LimitValue::Unlimited => None,
        LimitValue::Value(files) => Some(float(files)),
    });
    let started =
        stat.and_then(|stat| Some(float(procfs::boot_time_secs().ok()?) + seconds(stat.starttime)));
    [
        (
            ("process_cpu_seconds_total", "counter", "Processor time of all threads."),
            stat.map(|stat| seconds(stat.utime + stat.stime)),
        ),
        (
            ("process_resident_memory_bytes", "gauge", "Memory of the process that is in RAM."),
            stat.map(|stat| float(stat.rss * procfs::page_size())),
        ),
        (
            ("process_virtual_memory_bytes", "gauge", "Size of the address space."),
            stat.map(|stat| float(stat.vsize)),
        ),
        (
            ("process_open_fds", "gauge", "Open files, connections included."),
            files.map(|files| float(files as u64)),
        ),
        (("process_max_fds", "gauge", "The limit of open files."), files_max),
        (
            ("process_start_time_seconds", "gauge", "When the process was started, since 1970."),
            started,
        ),
    ]
    .into_iter()
    .filter_map(|((name, kind, help), value)| {
        let value = value?;
        Some(format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n\n"))
    })
    .collect()
}

/// Ticks of the kernel as seconds.
fn seconds(ticks: u64) -> f64 {
    float(ticks) / float(procfs::ticks_per_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_of_this_process_are_there_and_plausible() {
        let page = metrics();
        let value = |name: &str| -> f64 {
            let line = page.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
            line.unwrap_or_else(|| panic!("{name} is not in\n{page}")).parse().unwrap()
        };
        let resident = value("process_resident_memory_bytes");
        let status = float(resident_bytes().unwrap());
        assert!((status / 2.0..status * 2.0).contains(&resident), "{resident} {status}");
        assert!(value("process_virtual_memory_bytes") >= resident);
        // Standard input, output and error at least.
        assert!((3.0..=value("process_max_fds")).contains(&value("process_open_fds")), "{page}");
        assert!(value("process_cpu_seconds_total") >= 0.0);
        let started = value("process_start_time_seconds");
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
        assert!((now - 86_400.0..=now + 1.0).contains(&started), "{started} {now}");
    }
}
