//! A real server in a process of its own.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// A running `nearprint serve`; dropping it kills it.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    pub(crate) directory: tempfile::TempDir,
}

impl Server {
    /// Starts one with these variables, `SECTION__KEY` and value.
    pub(crate) fn start(variables: &[(&str, &str)]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), variables)
    }

    pub(crate) fn start_in(directory: tempfile::TempDir, variables: &[(&str, &str)]) -> Self {
        Self::spawn(command(directory.path(), variables), directory)
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
        wrapped.stdout(Stdio::piped()).stderr(log_file(directory.path()));
        Self::spawn(wrapped, directory)
    }

    /// Starts one whose log is a pipe that nobody reads.
    pub(crate) fn with_unread_log() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut command = command(directory.path(), &[]);
        command.stderr(Stdio::piped());
        Self::spawn(command, directory)
    }

    fn spawn(mut command: Command, directory: tempfile::TempDir) -> Self {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Some(address) = line.trim().strip_prefix("listening on ") else {
            panic!("it does not start: {}", log(directory.path()));
        };
        Self { child, address: address.to_owned(), directory }
    }

    /// Reads the log that nobody read, up to the end of the process.
    pub(crate) fn rest_of_log(&mut self) -> String {
        std::io::read_to_string(self.child.stderr.take().unwrap()).unwrap()
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, such as `HUP`.
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success(), "{kill}");
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    pub(crate) fn log(&self) -> String {
        log(self.directory.path())
    }

    /// Waits until its log has this.
    pub(crate) fn wait_for_log(&self, what: &str) {
        eventually(|| self.log().contains(what), what);
    }

    /// The CPU time of its running threads, in nanoseconds.
    pub(crate) fn cpu_ns(&self) -> u64 {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
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
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let field = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        field.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1_024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The test may have ended it.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub(crate) fn binary() -> OsString {
    let named = std::env::var_os("NEARPRINT_TEST_BINARY");
    named.unwrap_or_else(|| env!("CARGO_BIN_EXE_nearprint").into())
}

/// A `serve` that is not started yet. `NEARPRINT_TEST_BINARY` names another binary, such as that of
/// a release, and `NEARPRINT_TEST_CORES` the cores that it is to have, as `taskset` takes them.
pub(crate) fn command(directory: &Path, variables: &[(&str, &str)]) -> Command {
    let binary = binary();
    let mut command = match std::env::var_os("NEARPRINT_TEST_CORES") {
        None => Command::new(binary),
        Some(cores) => {
            let mut pinned = Command::new("taskset");
            pinned.arg("-c").arg(cores).arg(binary);
            pinned
        }
    };
    command.args(["serve", "--data"]).arg(directory.join("data"));
    command.env("NEARPRINT_SERVER__LISTEN", "127.0.0.1:0");
    command.env("NEARPRINT_ENGINE__DISK_FREE_BYTES_MIN", "0");
    for (name, value) in variables {
        command.env(format!("NEARPRINT_{name}"), value);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log_file(directory));
    command
}

fn log_file(directory: &Path) -> File {
    File::options().create(true).append(true).open(directory.join("log")).unwrap()
}

fn log(directory: &Path) -> String {
    std::fs::read_to_string(directory.join("log")).unwrap()
}

/// Polls until the condition holds.
pub(crate) fn eventually(mut is_so: impl FnMut() -> bool, what: &str) {
    for _ in 0..1_000 {
        if is_so() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    panic!("it never came: {what}");
}

/// Measures how long something takes.
#[expect(clippy::disallowed_methods, reason = "a test of timeouts reads the clock")]
pub(crate) fn now() -> std::time::Instant {
    std::time::Instant::now()
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
