//! Promise: memory stays under the configured limit; writes are refused (507) before the kernel
//! kills the process, and reads continue; a large document takes at most three times its size; free
//! memory goes back to the operating system. Method: a server in a control group of 512 MiB (which
//! needs root), filled until it refuses; pages of 64 MB; millions of inserts; the memory and its
//! peak as the kernel reports them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::client::{Connection, mixed, post};
use super::server::{Server, write};
use crate::support::wait::{until, until_within};

pub(crate) const GROUP_BYTES: u64 = 512 << 20;
const INDEX_BYTES: &str = "318767104";
/// Fingerprints of a packed request.
const EACH: u64 = 500_000;
/// Far more than fit.
const ROUNDS: u64 = 100;

/// Fingerprints of a server that is then idle, and the memory for each: 26 bytes of index at this
/// size, a delta of 5 MB, and what the first request allocates.
const IDLE_COUNT: u64 = 3 * EACH;
const IDLE_BYTES_EACH: u64 = 38;

/// A control group, removed on drop.
pub(crate) struct Group(PathBuf);

impl Group {
    /// `None` if this process may not make one.
    #[expect(clippy::print_stdout, reason = "why a test did nothing")]
    pub(crate) fn new(name: &str, bytes: u64) -> Option<Self> {
        let name = format!("nearprint-test-{name}-{}", std::process::id());
        let versions =
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        let made = versions.into_iter().find_map(|(root, limit)| {
            let group = Path::new(root).join(&name);
            std::fs::create_dir(&group).ok()?;
            let group = Self(group);
            group.0.join(limit).exists().then(|| {
                write(&group.0.join(limit), &bytes.to_string());
                group
            })
        });
        if made.is_none() {
            println!("skipped: no control group can be made here; next: run the tests as root");
        }
        made
    }

    /// How often the kernel killed a process of the group.
    pub(crate) fn kills(&self) -> u64 {
        let files = ["memory.oom_control", "memory.events"].map(|file| self.0.join(file));
        let events = files.iter().find_map(|file| std::fs::read_to_string(file).ok()).unwrap();
        let kills = events.lines().find_map(|line| line.strip_prefix("oom_kill ")).unwrap();
        kills.trim().parse().unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes may take a moment to end.
        let gone = || std::fs::remove_dir(&self.0).is_ok();
        until("the group is empty", gone);
    }
}

/// A command that joins the group before it begins.
pub(crate) fn joined(group: &Group, inner: &Command) -> Command {
    let mut joined = Command::new("sh");
    joined.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(group.0.join("cgroup.procs"));
    joined.arg(inner.get_program()).args(inner.get_args());
    joined
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_512_mib_writes_are_refused_before_the_kernel_kills() {
    let variables = [
        ("ENGINE__MEMORY_BYTES_MAX", INDEX_BYTES),
        ("SERVER__BODIES_HELD_BYTES_MAX", "67108864"),
        ("SERVER__REPLIES_HELD_BYTES_MAX", "33554432"),
    ];
    fill(("filled", GROUP_BYTES), &variables, (INDEX_BYTES, 5)).await;
}

/// The limit is that of the group, which nobody configures.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_256_mib_the_defaults_refuse_writes_before_the_kernel_kills() {
    fill(("defaults", 256 << 20), &[], ("134217728", 1)).await;
}

/// Fills a server in a control group of this name and size until it refuses: above this limit, and
/// after at least so many rounds.
async fn fill(
    (name, bytes): (&str, u64),
    variables: &[(&str, &str)],
    (limit, rounds_min): (&str, u64),
) {
    let Some(group) = Group::new(name, bytes) else { return };
    let server = Server::wrapped(|inner| joined(&group, inner), variables);
    server.wait_for_log(&format!("max_bytes={limit}"));
    let mut connection = Connection::open(&server.address).await.unwrap();
    let mut refused = None;
    for round in 0..ROUNDS {
        let words = (round * EACH..(round + 1) * EACH).flat_map(|i| mixed(i).to_le_bytes());
        let body: Vec<u8> = words.collect();
        let request = post("/v1/insert/batch", "application/octet-stream", &body);
        let reply = connection.ask(&request).await.unwrap_or_else(|error| {
            panic!("round {round}: {error}; the kernel killed {}", group.kills())
        });
        if reply.status != 200 {
            refused = Some((round, reply.status));
            break;
        }
    }
    let (round, status) = refused.expect("it refuses at some point");
    assert_eq!(status, 507);
    assert!(round >= rounds_min, "more fits: {round}");
    // The same server finds the documents that were stored first.
    let query = format!("{{\"fingerprint\":\"{:016x}\"}}", mixed(0));
    let mut reader = Connection::open(&server.address).await.unwrap();
    let found = reader.ask(&post("/v1/query", "application/json", query.as_bytes())).await.unwrap();
    assert_eq!(found.status, 200);
    assert_eq!(group.kills(), 0);
    assert!(server.memory_bytes() < bytes);
}

/// Characters that become many, marks that are composed together, and as many words as there can
/// be. What does not fit is refused at once, and what is accepted is analysed one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_512_mib_twenty_texts_of_16_mib_of_the_worst_characters_kill_nothing() {
    for (recipe, piece) in [("np2", "\u{fdfa}"), ("np2", "\u{344}"), ("textrank-22", "ab-cd-")] {
        let Some(group) = Group::new("characters", GROUP_BYTES) else { return };
        let server = Server::wrapped(
            |inner| joined(&group, inner),
            &[
                ("DATA__RECIPE", recipe),
                ("ENGINE__MEMORY_BYTES_MAX", "268435456"),
                ("SERVER__BODIES_HELD_BYTES_MAX", "67108864"),
                ("SERVER__REPLIES_HELD_BYTES_MAX", "33554432"),
            ],
        );
        // Marks alone are no text: they need a letter before them.
        let text = format!("a{}", piece.repeat((16 << 20) / piece.len() - 1));
        let request = Arc::new(post("/v1/check-and-insert", "text/plain", text.as_bytes()));
        let clients: Vec<_> = (0..20)
            .map(|_| {
                let (address, request) = (server.address.clone(), Arc::clone(&request));
                tokio::spawn(async move {
                    Connection::open(&address).await.unwrap().ask(&request).await
                })
            })
            .collect();
        let mut served = 0;
        for client in clients {
            let reply = client.await.unwrap().unwrap_or_else(|error| {
                panic!("{recipe}: {error}; the kernel killed {}", group.kills())
            });
            served += u64::from(reply.status == 200);
            assert!(reply.status == 200 || (reply.status, reply.retry_after) == (503, true));
        }
        assert!(served > 0 && group.kills() == 0, "{recipe}: {served}");
    }
}

/// Most of the memory is of deltas that became segments: the allocator keeps it for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_of_inserts_goes_back_when_the_server_is_idle() {
    let server = Server::with(&[]);
    let before = server.memory_bytes();
    let mut connection = Connection::open(&server.address).await.unwrap();
    for round in 0..IDLE_COUNT / EACH {
        let words = (round * EACH..(round + 1) * EACH).flat_map(|i| mixed(i).to_le_bytes());
        let request =
            post("/v1/insert/batch", "application/octet-stream", &words.collect::<Vec<u8>>());
        assert_eq!(connection.ask(&request).await.unwrap().status, 200);
    }
    let settled = || server.memory_bytes() - before < IDLE_BYTES_EACH * IDLE_COUNT;
    until_within(Duration::from_secs(20), "no more than the index is left", settled);
}

/// As JSON, whose page is copied without its escapes, and as a raw body.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_64_mb_takes_three_times_its_size() {
    let paragraph =
        |i: u64| format!("<p class=\"a\">{:x} {:x}</p>\n", mixed(2 * i), mixed(2 * i + 1));
    let page: String = (0..1_300_000).map(paragraph).collect();
    assert!(page.len() > 64_000_000, "{}", page.len());
    let json = serde_json::json!({ "html": page }).to_string();
    for (kind, body) in [("application/json", json), ("text/html", page)] {
        let server = Server::with(&[
            ("SERVER__BODY_BYTES_MAX", "134217728"),
            ("SERVER__BODIES_HELD_BYTES_MAX", "268435456"),
        ]);
        let before = server.memory_bytes();
        let mut connection = Connection::open(&server.address).await.unwrap();
        let request = post("/v1/check-and-insert", kind, body.as_bytes());
        assert_eq!(connection.ask(&request).await.unwrap().status, 200);
        let took = server.memory_peak_bytes() - before;
        assert!(took <= 3 * body.len() as u64, "{kind}: {took} for {}", body.len());
    }
}

/// An error repeats only the beginning of a wrong value, or of the name of an unknown field.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_body_of_64_mb_takes_three_times_its_size() {
    let long = "\u{7f}".repeat(64_000_000);
    for body in [
        format!("{{\"distance\":\"{long}\"}}"),
        format!("{{\"on_duplicate\":\"{long}\"}}"),
        format!("{{\"features\":[\"{long}\"]}}"),
        format!("{{\"{long}\":1}}"),
        format!("\"{long}\""),
    ] {
        let server = Server::with(&[
            ("SERVER__BODY_BYTES_MAX", "134217728"),
            ("SERVER__BODIES_HELD_BYTES_MAX", "268435456"),
        ]);
        let before = server.memory_bytes();
        let mut connection = Connection::open(&server.address).await.unwrap();
        let request = post("/v1/check-and-insert", "application/json", body.as_bytes());
        assert_eq!(connection.ask(&request).await.unwrap().status, 400);
        let took = server.memory_peak_bytes() - before;
        assert!(took <= 3 * body.len() as u64, "{:?}: {took}", &body[..20]);
    }
}
