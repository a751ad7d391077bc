//! Promise: whatever answers at an address, a command ends: in the time and with the bytes that it
//! allows, with an error that names the address, and with no verdict that nobody gave. Method: the
//! binary against servers that are silent, slow, endless or no nearprint. The other clients have a
//! longer table, `tests/hostile/servers.py`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
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

const JSON: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";

/// What comes too slowly, or without an end: each ends within its `--timeout`, of a second.
const SLOW: [(&str, Serve, &str); 6] = [
    ("silent", |stream| drip(stream, b""), "nothing came for 1000 ms"),
    ("head", |stream| drip(stream, b"H"), "no answer from"),
    (
        "headers",
        |stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nx: ")?;
            drip(stream, b"x")
        },
        "nothing came for 1000 ms",
    ),
    (
        "informs",
        |stream| drip(stream, b"HTTP/1.1 100 Continue\r\n\r\n"),
        "nothing came for 1000 ms",
    ),
    (
        "body",
        |stream| {
            stream.write_all(&[JSON, b"content-length: 99999\r\n\r\n{"].concat())?;
            drip(stream, b" ")
        },
        "it was not whole after 1000 ms",
    ),
    (
        "endless body",
        |stream| {
            stream.write_all(&[JSON, b"transfer-encoding: chunked\r\n\r\n"].concat())?;
            let chunk = [b"10000\r\n", &[b' '; 0x1_0000][..], b"\r\n"].concat();
            loop {
                stream.write_all(&chunk)?;
            }
        },
        "the reply of http://127.0.0.1",
    ),
];

/// What is no reply of nearprint.
const FOREIGN: [(&str, Serve, &str); 12] = [
    ("closes", |_| Ok(()), "no answer from"),
    ("ssh", |stream| stream.write_all(b"SSH-2.0-x\r\n"), "no answer from"),
    ("tls", |stream| stream.write_all(b"\x15\x03\x01\x00\x02\x02\x16"), "no answer from"),
    (
        "endless headers",
        |stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
            loop {
                stream.write_all(&b"x: y\r\n".repeat(1_000))?;
            }
        },
        "no answer from",
    ),
    (
        "two lengths",
        |stream| {
            let lengths = b"content-length: 15\r\ncontent-length: 16\r\n\r\n{\"documents\": 1}";
            stream.write_all(&[JSON, lengths].concat())
        },
        "no answer from",
    ),
    (
        "cut",
        |stream| {
            stream.write_all(&[JSON, b"content-length: 50\r\n\r\n{\"documents\": 1}"].concat())
        },
        "the reply of",
    ),
    (
        "cut chunk",
        |stream| {
            let chunk = b"transfer-encoding: chunked\r\n\r\nff\r\n{\"documents\": 1}";
            stream.write_all(&[JSON, chunk].concat())
        },
        "the reply of",
    ),
    (
        "compressed",
        |stream| {
            let coded = b"content-encoding: gzip\r\ncontent-length: 4\r\n\r\n\x1f\x8b\x08\x00";
            stream.write_all(&[JSON, coded].concat())
        },
        "not from a nearprint service",
    ),
    (
        "switches",
        |stream| stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n"),
        "not from a nearprint service",
    ),
    (
        "redirects",
        |stream| {
            let own = stream.local_addr()?;
            let head = "HTTP/1.1 307 Temporary Redirect\r\ncontent-length: 0\r\nlocation: http://";
            stream.write_all(format!("{head}{own}/other\r\n\r\n").as_bytes())
        },
        "not from a nearprint service",
    ),
    (
        "busy for years",
        |stream| {
            stream.write_all(b"HTTP/1.1 503 Busy\r\nretry-after: 4000000000\r\n")?;
            stream.write_all(b"content-length: 22\r\n\r\n{\"code\": \"overloaded\"}")
        },
        "try again in 4000000000 s, or wait longer: --timeout SECONDS",
    ),
    (
        "busy for ever",
        |stream| {
            stream.write_all(b"HTTP/1.1 429 Busy\r\nretry-after: 0\r\nconnection: close\r\n")?;
            stream.write_all(b"content-length: 24\r\n\r\n{\"code\": \"rate_limited\"}")
        },
        "refused /v1/stats",
    ),
];

#[test]
fn a_command_ends_whatever_answers() {
    let begin_one = |&(name, answer, says): &(&'static str, Serve, &'static str), more: &[&str]| {
        let (address, requests) = serve(answer);
        (name, says, begin(&[&["stats"], more].concat(), address), address, requests)
    };
    let slow = SLOW.iter().map(|one| begin_one(one, &["--timeout", "1"]));
    let foreign = FOREIGN.iter().map(|one| begin_one(one, &[]));
    // They run at the same time.
    for (name, says, command, address, requests) in slow.chain(foreign).collect::<Vec<_>>() {
        let output = ended(command, name);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{name}: {err}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{name}");
        assert!(err.contains(says), "{name}: {err}");
        assert!(err.contains(&format!("http://{address}")), "{name}: {err}");
        let asked = requests.try_iter().count();
        assert_eq!(asked, if name == "busy for ever" { 60 } else { 1 }, "{name}");
    }
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
