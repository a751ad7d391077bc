//! Faults in the system calls of a real server, injected by `strace`.
//!
//! The number of a call counts within a thread: the first thread that reaches it is hit. The tracer
//! is detached (`-D`), so that the server stays our child.

use std::path::Path;
use std::process::Command;

use crate::server::Server;

/// The calls that change what is on the disk.
pub(crate) const DURABLE: &[&str] = &["pwrite64", "fdatasync", "fsync,rename,unlink,ftruncate"];

/// A `serve` on this directory with a fault in one of these calls, such as `error=EIO:when=3`.
/// Journal files and snapshots are as small as the configuration allows, so that a short run goes
/// through rotations and removals.
pub(crate) fn command(calls: &str, fault: &str, data: &Path) -> Command {
    let (trace, inject) = (format!("trace={calls}"), format!("inject={calls}:{fault}"));
    let runner = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
    let mut command = Server::command_under(&runner, data);
    command.env("NEARPRINT_ENGINE__JOURNAL_FILE_BYTES", "65536");
    command
}

/// Whether there is a `strace` that can trace.
#[expect(clippy::print_stdout, reason = "why a test did nothing")]
pub(crate) fn is_here() -> bool {
    let tried = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status();
    let here = tried.is_ok_and(|status| status.success());
    if !here {
        println!("skipped: no strace that can trace here; next: apt-get install strace");
    }
    here
}
