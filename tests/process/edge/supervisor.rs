//! What the process tells its supervisor, as systemd asks for it: `sd_notify(3)`.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Command;
use std::time::Duration;

use crate::support::server::{self, Server};

/// How long a message may take on a busy machine.
const DEADLINE: Duration = Duration::from_mins(1);

/// The socket of a supervisor.
struct Supervisor(UnixDatagram);

impl Supervisor {
    fn new(socket: UnixDatagram) -> Self {
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        Self(socket)
    }

    fn next(&self) -> String {
        let mut bytes = [0; 1_024];
        let length = self.0.recv(&mut bytes).expect("a message");
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    /// The next message with `part`, and those before it.
    fn until(&self, part: &str) -> Vec<String> {
        let mut messages = Vec::new();
        while !messages.last().is_some_and(|message: &String| message.contains(part)) {
            messages.push(self.next());
        }
        messages
    }
}

#[test]
fn a_supervisor_hears_of_the_start_of_a_reload_of_life_and_of_the_stop() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let supervisor = Supervisor::new(UnixDatagram::bind(&path).unwrap());
    let mut command = Server::command(&directory.path().join("data"));
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "100000");
    let server = Server::of(command).expect("it starts");

    let start = supervisor.until("READY=1");
    let (ready, before) = start.split_last().unwrap();
    assert!(before.iter().all(|message| message.contains("EXTEND_TIMEOUT_USEC=")), "{start:?}");
    assert!(
        ready.contains(&format!("STATUS=listening on {}", server.url().replace("http://", "")))
    );

    // One that was made before it was ready may come after that.
    supervisor.until("WATCHDOG=1");
    let life = supervisor.until("WATCHDOG=1").pop().unwrap();
    assert_eq!(life, "WATCHDOG=1\n", "a service that is ready asks for no more time");

    server.signal("HUP");
    let reload = supervisor.until("RELOADING=1").pop().unwrap();
    assert!(reload.contains("MONOTONIC_USEC="), "{reload}");
    supervisor.until("READY=1");

    server.signal("TERM");
    let stop = supervisor.until("STOPPING=1").pop().unwrap();
    assert!(stop.contains("EXTEND_TIMEOUT_USEC="), "{stop}");
    assert!(server.wait().success());
}

#[test]
fn a_socket_may_be_abstract_and_a_watchdog_of_another_process_is_not_fed() {
    let directory = tempfile::tempdir().unwrap();
    let name = format!("nearprint-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let supervisor = Supervisor::new(UnixDatagram::bind_addr(&address).unwrap());
    let mut command = Server::command(&directory.path().join("data"));
    command.env("NOTIFY_SOCKET", format!("@{name}"));
    command.env("WATCHDOG_USEC", "1000").env("WATCHDOG_PID", "1");
    let server = Server::of(command).expect("it starts");
    server.signal("TERM");
    let messages = supervisor.until("STOPPING=1");
    assert!(server.wait().success());
    assert!(!messages.iter().any(|message| message.contains("WATCHDOG")), "{messages:?}");
}

#[test]
fn a_supervisor_that_is_not_there_or_does_not_read_holds_nothing_up() {
    let directory = tempfile::tempdir().unwrap();
    let full = directory.path().join("full");
    // It never reads, so its queue is soon full.
    let _unread = UnixDatagram::bind(&full).unwrap();
    for name in [full.to_str().unwrap(), "/nowhere/notify", "not absolute", "@", ""] {
        let mut command = Server::command(&directory.path().join("data"));
        command.env("NOTIFY_SOCKET", name).env("WATCHDOG_USEC", "1000");
        let server = Server::of(command).expect("it starts");
        for _ in 0..20 {
            server.signal("HUP");
        }
        assert_eq!(server.client().get("/v1/stats").unwrap().0, 200, "{name}");
        assert!(server.terminate().success(), "{name}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a file of a test")]
fn a_start_that_fails_is_never_ready_and_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let supervisor = Supervisor::new(UnixDatagram::bind(&path).unwrap());
    // A data directory that is a file: the start fails, and says why.
    let data = directory.path().join("data");
    std::fs::write(&data, "not a directory").unwrap();
    let mut command = Command::new(server::binary());
    command.arg("serve").args(["--listen", "127.0.0.1:0", "--data"]).arg(&data);
    let output = command.env("NOTIFY_SOCKET", &path).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("next: "), "it says why");
    supervisor.0.set_nonblocking(true).unwrap();
    let mut bytes = [0; 1_024];
    while let Ok(length) = supervisor.0.recv(&mut bytes) {
        let message = String::from_utf8_lossy(&bytes[..length]);
        assert!(!message.contains("READY"), "{message}");
    }
}
