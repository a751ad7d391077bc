//! Promise: whatever answers at an address, a command ends: in the time and with the bytes that it
//! allows, with an error that names the address, and with no verdict that nobody gave. Method: the
//! binary against the servers of `tests/hostile/servers.py`, which are silent, slow, endless or no
//! nearprint, and with which the other clients are tested, too. What has no row there follows: a
//! probe, the pages of a list on one connection, and signals.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::wait::until;

/// Sends something to a client whose request it has read, until the client leaves.
type Serve = fn(&mut TcpStream) -> std::io::Result<()>;

/// Serves each connection; the receiver gets a number for each request, once it was read.
fn serve(answer: Serve) -> (SocketAddr, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (asked, requests) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let asked = asked.clone();
            thread::spawn(move || {
                let mut stream = stream;
                if read_head(&stream) && asked.send(()).is_ok() {
                    // The client may have left.
                    drop(answer(&mut stream));
                }
            });
        }
    });
    (address, requests)
}

/// Whether a whole head came.
fn read_head(stream: &TcpStream) -> bool {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.any(|line| line.is_empty())
}

fn begin(arguments: &[&str], address: SocketAddr) -> Child {
    Command::new(env!("CARGO_BIN_EXE_nearprint"))
        .args(arguments)
        .args(["--server", &address.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts")
}

/// The output of a command that must end.
fn ended(mut command: Child, what: &str) -> Output {
    until(what, || command.try_wait().expect("it is a child").is_some());
    command.wait_with_output().expect("it has ended")
}

/// Sends a piece again and again, with pauses.
fn drip(stream: &mut TcpStream, piece: &[u8]) -> std::io::Result<()> {
    loop {
        stream.write_all(piece)?;
        thread::park_timeout(Duration::from_millis(20));
    }
}

/// The table of servers, which run until this is dropped.
struct Table {
    servers: Child,
    rows: Vec<Row>,
}

/// A server, and how a call to it ends: `tests/hostile/servers.py` has the words.
#[derive(serde::Deserialize)]
struct Row {
    name: String,
    url: String,
    call: String,
    calls: usize,
    pause_s: f64,
    timeout_s: f64,
    expected: String,
}

impl Table {
    /// Starts the servers; `None` without Python.
    #[expect(clippy::print_stdout, reason = "why a test did nothing")]
    fn start() -> Option<Self> {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/servers.py");
        let started = Command::new("python3")
            .arg(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut servers) = started else {
            let is_required =
                std::env::var_os("NEARPRINT_TEST_PROGRAMS").is_some_and(|is| is == "required");
            assert!(!is_required, "python3 does not run here");
            println!("skipped: python3 does not run here; next: install it");
            return None;
        };
        let mut table = String::new();
        let out = servers.stdout.take().expect("it is a pipe");
        BufReader::new(out).read_line(&mut table).expect("it prints the table");
        let rows = serde_json::from_str(&table).expect("the table is JSON");
        Some(Self { servers, rows })
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        drop(self.servers.kill());
        drop(self.servers.wait());
    }
}

/// Makes the call of a row, with documents in a folder, and says in the words of the table how it
/// ended.
fn outcome(row: &Row, folder: &Path) -> String {
    let timeout = row.timeout_s.to_string();
    let is_batch = row.call == "batch";
    let command = if is_batch {
        vec!["dedup", "a.txt", "b.txt", "--dry-run", "--against", &row.url]
    } else {
        vec!["query", "--text", "a", "--server", &row.url]
    };
    let command = Command::new(env!("CARGO_BIN_EXE_nearprint"))
        .args(command)
        .args(["--timeout", &timeout])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let output = ended(command.expect("the binary starts"), &row.name);
    // Before the error stand lines about attempts.
    let err = format!("\n{}", String::from_utf8_lossy(&output.stderr));
    let failed = err.split_once("\nerror: ").map(|(_, error)| error);
    match (output.status.code(), failed) {
        (Some(0), None) if is_batch => "answered".to_owned(),
        (Some(0), None) => "answered with a duplicate".to_owned(),
        (Some(1), None) if !is_batch => "answered".to_owned(),
        (Some(1 | 2), Some(error)) if error.contains(&row.url) => ending(error),
        _ => format!("{}: {err}", output.status),
    }
}

/// How a call ended that failed with this error.
fn ending(error: &str) -> String {
    let status = |(_, after): (_, &str)| after.chars().take_while(char::is_ascii_digit).collect();
    let status: Option<String> = error.split_once(": status ").map(status);
    let refused = status.filter(|status| !status.starts_with('2'));
    let no_answer = [
        "no answer from a nearprint service",
        "the reply is not from a nearprint service",
        " cannot be read\n",
    ];
    if error.contains("or wait longer: --timeout") {
        "overloaded".to_owned()
    } else if let Some(status) = refused {
        format!("refused {status}")
    } else if no_answer.iter().any(|what| error.contains(what)) {
        "unreachable".to_owned()
    } else {
        error.to_owned()
    }
}

/// Commands that run at one time.
const AT_ONE_TIME: usize = 4;

#[test]
fn a_command_ends_as_the_table_of_all_clients_says() {
    let Some(table) = Table::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        let mut file =
            std::fs::File::create_new(folder.path().join(format!("{name}.txt"))).unwrap();
        file.write_all(name.as_bytes()).unwrap();
    }
    let rows = Mutex::new(table.rows.iter());
    let wrong = Mutex::new(Vec::new());
    let run = || {
        while let Some(row) = { rows.lock().unwrap().next() } {
            for call in 0..row.calls {
                if call > 0 {
                    thread::park_timeout(Duration::from_secs_f64(row.pause_s));
                }
                let ended = outcome(row, folder.path());
                if ended != row.expected {
                    wrong.lock().unwrap().push(format!("{}: {ended}", row.name));
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONE_TIME {
            scope.spawn(run);
        }
    });
    assert!(table.rows.len() > 100, "it is the whole table");
    assert_eq!(wrong.into_inner().unwrap(), Vec::<String>::new());
}

#[test]
fn a_probe_of_this_machine_has_a_time() {
    let (address, _requests) = serve(|stream| drip(stream, b""));
    let probe = Command::new(env!("CARGO_BIN_EXE_nearprint"))
        .args(["health", "--timeout", "0.5"])
        .env("NEARPRINT_SERVER__LISTEN", address.to_string())
        .stderr(Stdio::piped())
        .spawn();
    let output = ended(probe.expect("the binary starts"), "health");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("nothing came for 500 ms"), "{err}");
}

/// A page of namespaces.
fn page(namespace: &str, next: &str) -> String {
    let body = format!(
        "{{\"namespaces\": [{{\"namespace\": \"{namespace}\", \"documents\": 1}}], \
         \"default_documents\": 0, \"next\": {next}}}"
    );
    let length = body.len();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json";
    format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}")
}

#[test]
fn a_reply_that_nobody_asked_for_answers_no_request() {
    let (address, requests) = serve(|stream| {
        let two = page("first", "\"a\"") + &page("unasked", "null");
        stream.write_all(two.as_bytes())?;
        // Whatever comes on this connection now is answered wrongly, too.
        drip(stream, b"")
    });
    let output = ended(begin(&["namespaces", "--timeout", "1"], address), "namespaces");
    let (out, err) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(!String::from_utf8_lossy(out).contains("unasked"), "{err}");
    assert_eq!(output.status.code(), Some(2), "its pages have no end: {err}");
    assert_eq!(requests.try_iter().count(), 2, "each on a connection of its own");
}

#[test]
fn a_signal_ends_a_command_that_waits_for_a_silent_service() {
    let mut file = tempfile::Builder::new().suffix(".txt").tempfile().unwrap();
    file.write_all(b"a text").unwrap();
    let import = ["import", file.path().to_str().unwrap()];
    let mut begun = Vec::new();
    for signal in [Signal::TERM, Signal::INT] {
        for arguments in [&import[..], &["groups"], &["purge", "--namespace", "a", "--yes"]] {
            let (address, requests) = serve(|stream| drip(stream, b""));
            let command = begin(arguments, address);
            requests.recv_timeout(Duration::from_mins(1)).expect("it asks the service");
            kill_process(Pid::from_child(&command), signal).unwrap();
            begun.push((arguments[0], command));
        }
    }
    for (name, command) in begun {
        let output = ended(command, name);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{name}");
        if name != "purge" {
            assert_eq!(output.status.code(), Some(130), "{name}: {err}");
            assert!(
                err.contains("ended without waiting any longer; run the same"),
                "{name}: {err}"
            );
        }
    }
}
