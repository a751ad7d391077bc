//! Faults in the system calls of a real server, injected by `strace`.
//!
//! The number of a call counts within a thread: the first thread that reaches it is hit. The tracer
//! is detached (`-D`), so that the server stays our child.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::server::Server;

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

/// A `serve` on this directory whose changes of files are recorded, with times and all bytes, and
/// perhaps faults such as `fsync:retval=0` injected. Files are small as in [`command`].
pub(crate) fn recorded(record: &Path, fault: Option<&str>, data: &Path) -> Command {
    let trace = "trace=openat,pwrite64,ftruncate,fsync,fdatasync,/^(rename|unlink|mkdir)";
    let runner = ["strace", "-D", "-f", "-q", "-y", "-ttt", "-xx", "-s", "67108864", "-e", trace];
    let mut runner = runner.to_vec();
    runner.extend(["-o", record.to_str().expect("a temporary path is text")]);
    let inject = fault.map(|fault| format!("inject={fault}"));
    runner.extend(inject.iter().flat_map(|inject| ["-e", inject]));
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

/// A fault in the system calls of one thread of a running server.
pub(crate) struct ThreadFault(Child);

impl ThreadFault {
    /// Injects a fault, such as `write:error=EIO:when=1`, into the thread of this name. `None`
    /// where one process may not trace another.
    #[expect(clippy::print_stdout, reason = "why a test did nothing")]
    pub(crate) fn into_thread(server: &Server, name: &str, fault: &str) -> Option<Self> {
        let thread = server.thread(name).to_string();
        let (trace, inject) =
            (format!("trace={}", fault.split(':').next()?), format!("inject={fault}"));
        let mut command = Command::new("strace");
        command.args(["-o", "/dev/null", "-p", &thread, "-e", &trace, "-e", &inject]);
        let mut tracer = command.stderr(Stdio::piped()).spawn().expect("there is a strace");
        let said = BufReader::new(tracer.stderr.take().expect("it is piped"));
        let mut said = said.lines().map_while(Result::ok);
        if !said.any(|line| line.contains("attached")) {
            println!("skipped: strace may not attach to a process; next: run it as root");
            tracer.wait().expect("it is our child");
            return None;
        }
        Some(Self(tracer))
    }
}

impl Drop for ThreadFault {
    fn drop(&mut self) {
        // It has ended by itself when the thread has.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
