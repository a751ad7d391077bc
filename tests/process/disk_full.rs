//! Promise: a full disk turns writes into 507 while reads continue, writes resume when there is
//! space, and no acknowledged write is lost. Method: a file system of 64 MiB in memory with a
//! ballast file, filled by the server; then the ballast is removed, or half of the documents are.
//! Needs root, for the mount.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::load::pause;
use crate::random::{self, Random};
use crate::support::server::{self, Client, Server};

/// `make torture` makes 200.
const TRIALS: u64 = 2;
const SIZE_BYTES: u64 = 64 << 20;
const LINES: u64 = 32;
/// How often a full disk is purged by half; `make torture` does it 100 times.
const PURGES: u64 = 3;
const PURGED_SIZE_BYTES: u64 = 32 << 20;
const PURGED_LINES: u64 = 256;
/// Names of the halves: each is the beginning of the ids in it.
const HALVES: [&str; 2] = ["even-", "odd-"];
/// A hang is a failure; the space of the disk is checked every 50 ms.
const LOOKS: usize = 400;

/// A file system of its own, unmounted on drop.
struct Mount {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Mount {
    /// `None` if this process may not mount.
    #[expect(clippy::print_stdout, reason = "why a test did nothing")]
    fn new(size_bytes: u64) -> Option<Self> {
        let folder = tempfile::tempdir().expect("the disk has space");
        let path = folder.path().join("disk");
        std::fs::create_dir(&path).expect("the disk has space");
        let size = format!("size={size_bytes}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&path);
        if !mount.output().is_ok_and(|tried| tried.status.success()) {
            println!("skipped: this process may not mount; next: run the tests as root");
            return None;
        }
        Some(Self { _folder: folder, path })
    }

    fn free_bytes(&self) -> u64 {
        let mut df = Command::new("df");
        let output =
            df.args(["--output=avail", "-B1"]).arg(&self.path).output().expect("df is here");
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        output.lines().nth(1).and_then(|line| line.trim().parse().ok()).expect("a number of bytes")
    }

    /// Writes a file that leaves this much space.
    fn fill(&self, room_bytes: u64) -> PathBuf {
        let ballast = self.path.join("ballast");
        let bytes = self.free_bytes().saturating_sub(room_bytes).to_string();
        let mut allocate = Command::new("fallocate");
        allocate.args(["-l", &bytes]).arg(&ballast);
        assert!(allocate.status().expect("fallocate is here").success());
        ballast
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.path).status());
    }
}

/// The writes to one server: acknowledged ones, and those refused because the disk was full.
#[derive(Default)]
struct Written {
    stored: Vec<String>,
    refused: Vec<String>,
}

impl Written {
    /// A batch of long ids; whether all of it was stored.
    fn batch(&mut self, client: &Client, random: &mut Random) -> bool {
        let ids: Vec<String> =
            (0..LINES).map(|_| format!("{:016x}{}", random.next(), "-".repeat(1_500))).collect();
        let line = |id: &String| json!({"id": id, "fingerprint": id[..16].to_owned()});
        let lines: Vec<Value> = ids.iter().map(line).collect();
        let replies = client.post_lines("/v1/insert/batch", &lines);
        // Refused before its first line, the reply is one problem; its status says which.
        if replies.len() < ids.len() {
            assert_eq!(replies[0]["status"], 507, "{replies:?}");
            self.refused.extend(ids);
            return false;
        }
        let mut all = true;
        for (id, reply) in ids.into_iter().zip(replies) {
            if reply["error"].is_object() {
                assert_eq!(reply["error"]["status"], 507, "{reply}");
                self.refused.push(id);
                all = false;
            } else {
                self.stored.push(id);
            }
        }
        all
    }

    fn is_there(client: &Client, id: &str) -> bool {
        let fingerprint = &id[..16];
        let found = client.get(&format!("/v1/query?fingerprint={fingerprint}&distance=0"));
        Client::expect(found)["hit_count"] == 1
    }

    fn check(&self, client: &Client) {
        for id in self.stored.iter().rev().take(100) {
            assert!(Self::is_there(client, id), "{id} was answered and is not there");
        }
        for id in self.refused.iter().rev().take(100) {
            assert!(!Self::is_there(client, id), "{id} was refused and is there");
        }
        let stats = Client::expect(client.get("/v1/stats"));
        assert_eq!(stats["documents"], self.stored.len());
    }
}

fn start(data: &Path, free_bytes_min: u64) -> Server {
    let mut command = Server::command(data);
    command.env("NEARPRINT_ENGINE__JOURNAL_FILE_BYTES", "1048576");
    command.env("NEARPRINT_ENGINE__DISK_FREE_BYTES_MIN", free_bytes_min.to_string());
    Server::of(command).unwrap_or_else(|| panic!("it does not start: {}", server::log(data)))
}

#[expect(clippy::disallowed_methods, reason = "tests free space on their own disk")]
fn trial(random: &mut Random, free_bytes_min: u64) -> bool {
    let Some(disk) = Mount::new(SIZE_BYTES) else { return false };
    // The log is on the same full disk, which must not harm requests.
    let (data, mut written) = (disk.path.join("data"), Written::default());
    let server = start(&data, free_bytes_min);
    let client = server.client();
    assert!(written.batch(&client, random), "the disk has space");
    let ballast = disk.fill(free_bytes_min + (random.next() % (4 << 20)));
    while written.batch(&client, random) {}
    for _ in 0..10 {
        written.batch(&client, random);
        pause(10);
        assert!(server.ended().is_none(), "a full disk is no failure: {}", server::log(&data));
        // A request that is refused before its end closes its connection.
        written.check(&server.client());
    }
    std::fs::remove_file(ballast).expect("it is ours");
    let resumed = (0..LOOKS).any(|_| {
        pause(10);
        written.batch(&client, random)
    });
    assert!(resumed, "the disk has space again: {}", server::log(&data));
    written.check(&client);
    if random.below(2) == 0 {
        server.kill();
    } else {
        assert!(server.terminate().success(), "{}", server::log(&data));
    }
    let server = start(&data, free_bytes_min);
    written.check(&server.client());
    true
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room_and_loses_nothing() {
    let mut random = Random::of_run();
    for number in 0..random::variable("NEARPRINT_TEST_DISK_TRIALS").unwrap_or(TRIALS) {
        // Limited by the configuration, or by the disk itself.
        let free_bytes_min = if number % 2 == 0 { 0 } else { 2 << 20 };
        if !trial(&mut random, free_bytes_min) {
            return;
        }
    }
}

/// Stores a batch of which each half has one half, and counts what was stored of each; whether all
/// of it was.
fn store_halves(client: &Client, stored: &mut [Vec<String>; 2], next: &mut u64) -> bool {
    let ids: Vec<String> = (*next..*next + PURGED_LINES)
        .map(|number| format!("{}{number:08}{}", HALVES[number as usize % 2], "-".repeat(800)))
        .collect();
    let first = *next;
    *next += PURGED_LINES;
    let line = |(id, number): (&String, u64)| {
        let bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        json!({"id": id, "fingerprint": format!("{bits:016x}")})
    };
    let lines: Vec<Value> = ids.iter().zip(first..).map(line).collect();
    let replies = client.post_lines("/v1/insert/batch", &lines);
    if replies.len() < ids.len() {
        assert_eq!(replies[0]["status"], 507, "{replies:?}");
        return false;
    }
    let mut all = true;
    for ((id, reply), number) in ids.into_iter().zip(replies).zip(first..) {
        if reply["error"].is_object() {
            assert_eq!(reply["error"]["status"], 507, "{reply}");
            all = false;
        } else {
            stored[number as usize % 2].push(id);
        }
    }
    all
}

fn purge(client: &Client, prefix: &str) -> u64 {
    let begun = client.post("/v1/purge", &json!({"prefix": prefix}));
    let (status, begun) = begun.expect("it answers");
    assert_eq!(status, 202, "{begun}");
    for _ in 0..LOOKS {
        pause(50);
        let job = Client::expect(
            client.get(&format!("/v1/jobs/{}", begun["job"].as_str().expect("a name"))),
        );
        if job["state"] == "done" {
            return job["removed"].as_u64().expect("a number");
        }
        assert_eq!(job["state"], "running", "{job}");
    }
    panic!("the purge does not end");
}

/// With no reserve in the configuration: the service keeps what emptying the disk takes.
#[test]
fn a_full_disk_that_is_purged_by_half_takes_writes_again_each_time() {
    let Some(disk) = Mount::new(PURGED_SIZE_BYTES) else { return };
    let data = disk.path.join("data");
    let mut server = start(&data, 0);
    let (mut stored, mut next) = ([Vec::new(), Vec::new()], 0);
    for round in 0..random::variable("NEARPRINT_TEST_DISK_PURGES").unwrap_or(PURGES) {
        let client = server.client();
        while store_halves(&client, &mut stored, &mut next) {}
        let (status, problem) = client.get("/readyz").expect("it answers");
        let said = problem["detail"].as_str().unwrap_or_default();
        // What the purge before has freed may just have been reclaimed.
        assert!(status == 200 || said.contains("are needed"), "{status}: {problem}");
        let half = round as usize % 2;
        assert_eq!(purge(&client, HALVES[half]), stored[half].len() as u64, "round {round}");
        stored[half].clear();
        let resumed = (0..LOOKS).any(|_| {
            pause(50);
            store_halves(&client, &mut stored, &mut next)
        });
        let stats = Client::expect(client.get("/v1/stats"));
        assert!(resumed, "round {round}: {stats}\n{}", server::log(&data));
        let documents = stored.iter().map(Vec::len).sum::<usize>();
        assert_eq!(Client::expect(client.get("/v1/stats"))["documents"], documents);
        if round % 3 == 2 {
            server.kill();
            server = start(&data, 0);
            assert_eq!(Client::expect(server.client().get("/v1/stats"))["documents"], documents);
        }
    }
    let client = server.client();
    for id in stored.iter().flat_map(|half| half.iter().rev().take(50)) {
        Client::expect(client.get(&format!("/v1/documents/{id}")));
    }
}
