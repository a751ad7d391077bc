//! Servers with settings and limits of their own, in directories that go away with them.

use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

pub(crate) use crate::support::server::{Server, binary};
use crate::support::server::{log_file, serve};
use crate::support::wait::until;

impl Server {
    /// Starts one with these variables, `SECTION__KEY` and value.
    pub(crate) fn with(variables: &[(&str, &str)]) -> Self {
        Self::with_files(tempfile::tempdir().unwrap(), variables)
    }

    /// The same in a directory that already has files that the variables name.
    pub(crate) fn with_files(directory: TempDir, variables: &[(&str, &str)]) -> Self {
        let command = command(directory.path(), variables);
        Self::within(directory, command)
    }

    /// Starts one with a limit of file descriptors.
    pub(crate) fn with_descriptors(count: u32, variables: &[(&str, &str)]) -> Self {
        let limited = |inner: &Command| {
            let mut limited = Command::new("sh");
            limited.args(["-c", &format!("ulimit -n {count}; exec \"$0\" \"$@\"")]);
            limited.arg(inner.get_program()).args(inner.get_args());
            limited
        };
        Self::wrapped(limited, variables)
    }

    /// Starts one by a command that runs another.
    pub(crate) fn wrapped(
        wrap: impl FnOnce(&Command) -> Command,
        variables: &[(&str, &str)],
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let inner = command(directory.path(), variables);
        let mut wrapped = wrap(&inner);
        wrapped.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        wrapped.stdout(Stdio::piped()).stderr(log_file(&directory.path().join("data")));
        Self::within(directory, wrapped)
    }

    /// Starts one whose log is a pipe that nobody reads.
    pub(crate) fn with_unread_log() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut command = command(directory.path(), &[]);
        command.stderr(Stdio::piped());
        Self::within(directory, command)
    }

    /// Reads the log that nobody read, up to the end of the process.
    pub(crate) fn rest_of_log(&self) -> String {
        let pipe = self.child().stderr.take();
        std::io::read_to_string(pipe.unwrap()).unwrap()
    }

    /// Waits until its log has this.
    pub(crate) fn wait_for_log(&self, what: &str) {
        until(what, || self.log().contains(what));
    }

    /// The CPU time of its running threads, in nanoseconds.
    pub(crate) fn cpu_ns(&self) -> u64 {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.id())).unwrap();
        let of_thread = |thread: std::io::Result<std::fs::DirEntry>| -> Option<u64> {
            // The first field is the time on a processor.
            let times = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
            times.split_whitespace().next()?.parse().ok()
        };
        threads.filter_map(of_thread).sum()
    }

    /// A field of `/proc/PID/status` that counts in KiB, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    pub(crate) fn memory_peak_bytes(&self) -> u64 {
        self.status_bytes("VmHWM:")
    }

    fn status_bytes(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let field = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        field.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1_024
    }
}

/// A `serve` that is not started yet.
pub(crate) fn command(directory: &Path, variables: &[(&str, &str)]) -> Command {
    let mut command = serve(&[], &directory.join("data"));
    command.env("NEARPRINT_SERVER__LISTEN", "127.0.0.1:0");
    command.env("NEARPRINT_ENGINE__DISK_FREE_BYTES_MIN", "0");
    for (name, value) in variables {
        command.env(format!("NEARPRINT_{name}"), value);
    }
    command
}

/// Writes a file of the test.
pub(crate) fn write(path: &Path, text: &str) {
    write_bytes(path, text.as_bytes());
}

/// The same, of any bytes.
#[expect(clippy::disallowed_methods, reason = "a file of a test")]
pub(crate) fn write_bytes(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}
