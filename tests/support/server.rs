//! A real server in a process of its own, and requests to it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use ureq::Agent;

/// A running `nearprint serve`; dropping it kills it.
pub(crate) struct Server {
    child: Mutex<Child>,
    /// Host and port.
    pub(crate) address: String,
    url: String,
    /// The directory of its data and log, if that is removed with it.
    directory: Option<TempDir>,
}

impl Server {
    /// Starts one on a free port; returns when it accepts requests. Its log goes to `data`.log.
    pub(crate) fn start(data: &Path) -> Self {
        Self::of(Self::command(data))
            .unwrap_or_else(|| panic!("it does not start; it says:\n{}", log(data)))
    }

    /// Starts a command of [`Self::command`]; `None` when it ends before it accepts requests.
    pub(crate) fn of(mut command: Command) -> Option<Self> {
        let mut child = command.spawn().expect("the binary starts");
        let stdout = child.stdout.take().expect("it is piped");
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        let address = lines.find_map(|line| {
            let (_, address) = line.split_once("listening on ")?;
            Some(address.trim().to_owned())
        });
        let Some(address) = address else {
            drop(child.kill());
            child.wait().expect("it is our child");
            return None;
        };
        // Read to the end, so that the server never waits for a full pipe.
        thread::spawn(move || lines.for_each(drop));
        Some(Self::at(address, child))
    }

    /// Starts a command that was made for this directory, which goes away with the server.
    pub(crate) fn within(directory: TempDir, command: Command) -> Self {
        let server = Self::of(command);
        let data = directory.path().join("data");
        let mut server =
            server.unwrap_or_else(|| panic!("it does not start; it says:\n{}", log(&data)));
        server.directory = Some(directory);
        server
    }

    /// Starts one without waiting until it listens, at the address that its command names.
    pub(crate) fn begin(mut command: Command, address: String) -> Self {
        command.stdout(Stdio::null());
        Self::at(address, command.spawn().expect("the binary starts"))
    }

    fn at(address: String, child: Child) -> Self {
        let url = format!("http://{address}");
        Self { child: Mutex::new(child), address, url, directory: None }
    }

    /// A `serve` on this directory that is not started yet. Snapshots come often, so that faults
    /// meet them.
    pub(crate) fn command(data: &Path) -> Command {
        Self::command_under(&[], data)
    }

    /// The same, run by another program, which must become or start the server.
    pub(crate) fn command_under(runner: &[&str], data: &Path) -> Command {
        Self::command_at(runner, "127.0.0.1:0", data)
    }

    /// The same at an address.
    pub(crate) fn command_at(runner: &[&str], address: &str, data: &Path) -> Command {
        let mut command = serve(runner, data);
        command
            .args(["--listen", address])
            .env("NEARPRINT_ENGINE__SNAPSHOT_CHANGES", "1000")
            .env("NEARPRINT_ENGINE__SNAPSHOT_INTERVAL_MS", "1000");
        command
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn client(&self) -> Client {
        self.client_within(Duration::from_mins(1))
    }

    /// A client whose requests take no longer than this.
    pub(crate) fn client_within(&self, timeout: Duration) -> Client {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(timeout))
            .build();
        Client { agent: config.into(), url: self.url.clone() }
    }

    /// SIGKILL: nothing of it runs any more when this returns.
    pub(crate) fn kill(&self) {
        let mut child = self.child();
        child.kill().expect("it is our child");
        child.wait().expect("it is our child");
    }

    /// SIGTERM; how it ended.
    pub(crate) fn terminate(&self) -> ExitStatus {
        let mut child = self.child();
        signal(&child, "TERM");
        child.wait().expect("it is our child")
    }

    /// Waits for its end.
    pub(crate) fn wait(&self) -> ExitStatus {
        self.child().wait().expect("it is our child")
    }

    /// Sends a signal, and does not wait.
    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child(), name);
    }

    /// The number of its thread of this name. A thread that was just begun may have none yet.
    pub(crate) fn thread(&self, name: &str) -> u32 {
        for _ in 0..1_000 {
            if let Some(number) = self.find_thread(name) {
                return number;
            }
            thread::park_timeout(Duration::from_millis(10));
        }
        panic!("there is a thread named {name}");
    }

    fn find_thread(&self, name: &str) -> Option<u32> {
        let threads = format!("/proc/{}/task", self.child().id());
        let threads = std::fs::read_dir(threads).expect("it runs");
        threads.map(|entry| entry.expect("listed").path()).find_map(|thread| {
            let is_named = std::fs::read_to_string(thread.join("comm")).ok()?.trim() == name;
            thread.file_name().filter(|_| is_named)?.to_str()?.parse().ok()
        })
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child().id()
    }

    pub(crate) fn ended(&self) -> Option<ExitStatus> {
        self.child().try_wait().expect("it is our child")
    }

    /// Where it works: its data and its log.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.as_ref().expect("it was given one").path()
    }

    /// The log that it has written into its directory.
    pub(crate) fn log(&self) -> String {
        log(&self.directory().join("data"))
    }

    pub(crate) fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().expect("no test panics while it has the lock")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already ended where the test ended it.
        if let Ok(child) = self.child.get_mut() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// The program. `NEARPRINT_TEST_BINARY` names another one, such as that of a release.
pub(crate) fn binary() -> OsString {
    let named = std::env::var_os("NEARPRINT_TEST_BINARY");
    named.unwrap_or_else(|| env!("CARGO_BIN_EXE_nearprint").into())
}

/// A `serve` on this directory that is not started yet, run by another program if one is named. Its
/// log goes to `data`.log. `NEARPRINT_TEST_CORES` sets the cores that it may use, as `taskset`
/// takes them.
pub(crate) fn serve(runner: &[&str], data: &Path) -> Command {
    let mut words: Vec<OsString> = runner.iter().map(Into::into).collect();
    if let Some(cores) = std::env::var_os("NEARPRINT_TEST_CORES") {
        words.extend(["taskset".into(), "-c".into(), cores]);
    }
    words.push(binary());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(["serve", "--data"]).arg(data);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log_file(data));
    command
}

/// Sends a signal, such as `TERM`.
pub(crate) fn signal(child: &Child, name: &str) {
    let kill = format!("kill -{name} {}", child.id());
    let sent = Command::new("sh").args(["-c", &kill]).status();
    assert!(sent.expect("there is a shell").success(), "{kill}");
}

pub(crate) fn log_file(data: &Path) -> File {
    let file = File::options().create(true).append(true).open(data.with_extension("log"));
    file.expect("the temporary directory is writable")
}

/// What the servers on this directory have logged.
pub(crate) fn log(data: &Path) -> String {
    std::fs::read_to_string(data.with_extension("log")).unwrap_or_default()
}

/// The series of the metrics of the service at a URL, each with its value.
pub(crate) fn series(url: &str) -> Result<Vec<String>, ureq::Error> {
    let page = ureq::get(format!("{url}/metrics")).call()?.into_body().read_to_string()?;
    let is_series = |line: &&str| !line.is_empty() && !line.starts_with('#');
    Ok(page.lines().filter(is_series).map(str::to_owned).collect())
}

/// Keeps its connection between requests.
#[derive(Clone)]
pub(crate) struct Client {
    agent: Agent,
    url: String,
}

/// Status and JSON of a reply; an error where the connection broke before the reply was complete.
pub(crate) type Reply = Result<(u16, Value), ureq::Error>;

impl Client {
    pub(crate) fn get(&self, path: &str) -> Reply {
        json(self.agent.get(format!("{}{path}", self.url)).call()?)
    }

    pub(crate) fn delete(&self, path: &str) -> Reply {
        json(self.agent.delete(format!("{}{path}", self.url)).call()?)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        json(self.agent.post(format!("{}{path}", self.url)).send_json(body)?)
    }

    /// Posts to a copy, and waits there until it has what was done.
    pub(crate) fn post_until_here(&self, path: &str, body: &Value) -> Reply {
        self.until_here(self.agent.post(format!("{}{path}", self.url)).send_json(body)?)
    }

    pub(crate) fn delete_until_here(&self, path: &str) -> Reply {
        self.until_here(self.agent.delete(format!("{}{path}", self.url)).call()?)
    }

    /// A copy that is behind says so in its reply.
    fn until_here(&self, response: ureq::http::Response<ureq::Body>) -> Reply {
        let behind = response.headers().get("nearprint-behind").cloned();
        let reply = json(response)?;
        if let Some(change) = behind {
            let path = format!("/v1/stats?min_change={}", change.to_str().expect("hex digits"));
            // Each waits for a second.
            let has_it = |_| self.get(&path).is_ok_and(|(status, _)| status == 200);
            assert!((0..60).any(has_it), "the copy does not get what was done: {reply:?}");
        }
        Ok(reply)
    }

    /// Posts a document a line. The lines of the reply as far as they came: the others were not
    /// answered.
    pub(crate) fn post_lines(&self, path: &str, lines: &[Value]) -> Vec<Value> {
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        let body = lines.join("\n");
        let request = self.agent.post(format!("{}{path}", self.url));
        let Ok(response) = request.content_type("application/x-ndjson").send(&body) else {
            return Vec::new();
        };
        BufReader::new(response.into_body().into_reader())
            .lines()
            .map_while(|line| serde_json::from_str(&line.ok()?).ok())
            .collect()
    }

    /// A reply that must be there and be a success.
    pub(crate) fn expect(reply: Reply) -> Value {
        let (status, value) = reply.expect("the server is up");
        assert_eq!(status, 200, "{value}");
        value
    }
}

fn json(mut response: ureq::http::Response<ureq::Body>) -> Reply {
    Ok((response.status().as_u16(), response.body_mut().read_json()?))
}
