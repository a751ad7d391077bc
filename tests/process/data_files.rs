//! Promise: a service whose data files are removed, or whose directory is moved away, does not
//! acknowledge writes that a restart will not find: it says that it is not ready, and why. Commands
//! that only read work on a directory that this user may not write. Method: a cleaner deletes files
//! under a server; a read-only mount, another user, and a file system that fails (which need root).

#![expect(clippy::disallowed_methods, reason = "the tests are the cleaner")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::load::pause;
use crate::support::server::{Client, Server};

/// A hang is a failure; the files are looked at every half second.
const LOOKS: usize = 200;

fn store(client: &Client, number: u64) -> (u16, Value) {
    let body = json!({"id": format!("id-{number}"), "fingerprint": number << 32});
    client.post("/v1/insert", &body).expect("it answers")
}

/// Waits until the service is not ready, and returns why.
fn fault(client: &Client) -> String {
    for _ in 0..LOOKS {
        let (status, reply) = client.get("/readyz").expect("it answers");
        if status == 503 {
            assert_eq!(reply["code"], "directory_unusable", "{reply}");
            return reply["detail"].as_str().expect("a text").to_owned();
        }
        pause(50);
    }
    panic!("it is still ready");
}

/// Writes are refused, and reads go on.
fn assert_refuses(server: &Server) {
    let client = server.client();
    let (status, reply) = store(&client, 2);
    assert_eq!((status, &reply["code"]), (503, &json!("directory_unusable")), "{reply}");
    assert_eq!(client.delete("/v1/documents/id-1").expect("it answers").0, 503);
    assert_eq!(client.get("/v1/documents/id-1").expect("it answers").0, 200);
    assert!(server.ended().is_none());
}

fn started(data: &Path) -> Server {
    let server = Server::start(data);
    assert_eq!(store(&server.client(), 1).0, 200);
    server
}

#[test]
fn files_that_a_cleaner_removes_are_missed() {
    for which in ["journal-", "directory", ""] {
        let folder = tempfile::tempdir().expect("the disk has space");
        let data = folder.path().join("data");
        let server = started(&data);
        for entry in std::fs::read_dir(&data).expect("it is there") {
            let path = entry.expect("listed").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("ASCII");
            if name.starts_with(which) {
                std::fs::remove_file(path).expect("it is there");
            }
        }
        let why = fault(&server.client());
        assert!(why.contains("is gone"), "{why}");
        assert_refuses(&server);
        server.terminate();
    }
}

#[test]
fn a_directory_that_is_moved_away_is_missed_and_found_again() {
    let folder = tempfile::tempdir().expect("the disk has space");
    let (data, elsewhere) = (folder.path().join("data"), folder.path().join("elsewhere"));
    let server = started(&data);
    std::fs::rename(&data, &elsewhere).expect("it is there");
    let why = fault(&server.client());
    assert!(why.contains("moved away"), "{why}");
    assert_refuses(&server);
    std::fs::create_dir(&data).expect("its name is free");
    assert!((0..LOOKS).any(|_| {
        pause(50);
        fault(&server.client()).contains("another directory")
    }));
    std::fs::remove_dir(&data).expect("it is empty");
    std::fs::rename(&elsewhere, &data).expect("it is there");
    let ready = (0..LOOKS).any(|_| {
        pause(50);
        server.client().get("/readyz").expect("it answers").0 == 200
    });
    assert!(ready, "it is back");
    assert_eq!(store(&server.client(), 3).0, 200);
    server.kill();
    let server = Server::start(&data);
    assert_eq!(Client::expect(server.client().get("/v1/stats"))["documents"], 2);
}

/// A read-only view of a folder, unmounted on drop.
struct ReadOnly(std::path::PathBuf);

impl ReadOnly {
    #[expect(clippy::print_stdout, reason = "why a test did nothing")]
    fn new(of: &Path, at: &Path) -> Option<Self> {
        std::fs::create_dir(at).expect("the disk has space");
        let mount = |arguments: &[&str]| {
            let mut mount = Command::new("mount");
            mount.args(arguments).arg(of).arg(at);
            mount.output().is_ok_and(|tried| tried.status.success())
        };
        if mount(&["--bind"]) && mount(&["-o", "remount,bind,ro"]) {
            return Some(Self(at.to_path_buf()));
        }
        println!("skipped: this process may not mount; next: run the tests as root");
        None
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

/// Runs the program by way of another one, if that is not empty.
fn nearprint(runner: &[&str], words: &[&str]) -> Output {
    let all = [runner, &[env!("CARGO_BIN_EXE_nearprint")], words].concat();
    Command::new(all[0]).args(&all[1..]).output().expect("it starts")
}

#[test]
fn commands_that_only_read_work_on_a_directory_that_cannot_be_written() {
    let folder = tempfile::tempdir().expect("the disk has space");
    let (data, view) = (folder.path().join("data"), folder.path().join("view"));
    with_snapshot(&data);
    let Some(_mount) = ReadOnly::new(&data, &view) else { return };
    assert_only_reads(&[], &view, folder.path());
}

#[test]
fn commands_that_only_read_work_on_a_directory_of_another_user() {
    let folder = tempfile::tempdir().expect("the disk has space");
    let data = folder.path().join("data");
    with_snapshot(&data);
    let nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let outputs = folder.path().join("outputs");
    std::fs::create_dir(&outputs).expect("the disk has space");
    let set_mode = |mode: &str, path: &Path| {
        Command::new("chmod").args(["-R", mode]).arg(path).status().is_ok_and(|set| set.success())
    };
    assert!(set_mode("a+rX,go-w", folder.path()) && set_mode("a+rwX", &outputs));
    let mut version = Command::new(nobody[0]);
    version.args(&nobody[1..]).args([env!("CARGO_BIN_EXE_nearprint"), "--version"]);
    if !version.output().is_ok_and(|tried| tried.status.success()) {
        println!("skipped: this process may not run the program as another user; next: as root");
        return;
    }
    assert_only_reads(&nobody, &data, &outputs);
}

/// A directory with a snapshot and a record after it.
fn with_snapshot(data: &Path) {
    let server = started(data);
    Client::expect(server.client().post("/v1/snapshots", &json!({})));
    assert_eq!(store(&server.client(), 5).0, 200);
    server.kill();
}

/// Runs the commands that only read, and one that writes, on a directory that this runner may not
/// write. Their outputs go to another folder.
fn assert_only_reads(runner: &[&str], view: &Path, outputs: &Path) {
    let listed = |data: &Path| {
        let mut names: Vec<_> = std::fs::read_dir(data)
            .expect("it is there")
            .map(|entry| {
                let entry = entry.expect("listed");
                (entry.file_name(), entry.metadata().expect("it is there").len())
            })
            .collect();
        names.sort();
        names
    };
    let before = listed(view);
    let directory = view;
    let view = view.to_str().expect("a temporary path is text");
    let out = outputs.join("export").display().to_string();
    let rows = outputs.join("rows.jsonl").display().to_string();
    let reads: &[&[&str]] = &[
        &["inspect", "journal", "--data", view],
        &["inspect", "snapshot", "--data", view],
        &["snapshot", "list", "--data", view],
        &["snapshot", "verify", "--data", view],
        &["snapshot", "export", &out, "--data", view],
        &["repair", "--data", view],
        &["export", "--data", view, "-o", &rows],
        &["groups", "--data", view],
    ];
    for words in reads {
        let output = nearprint(runner, words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {said}");
    }
    let exported = std::fs::read_to_string(&rows).expect("it was written");
    assert_eq!(exported.lines().count(), 2, "{exported}");
    let changes: &[&[&str]] = &[&["reindex", "--distance", "2", "--data", view]];
    for words in changes {
        let output = nearprint(runner, words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("write"), "{words:?}: {said}");
    }
    assert_eq!(listed(directory), before, "nothing was changed");
}

/// A small ext4 in a loop device that becomes read-only at an error, unmounted on drop.
struct FailingDisk(std::path::PathBuf);

impl FailingDisk {
    #[expect(clippy::print_stdout, reason = "why a test did nothing")]
    fn new(folder: &Path) -> Option<Self> {
        let disk = Self(folder.join("mount"));
        let script = "cd \"$0\" && truncate -s 256M image && mkfs.ext4 -q image && mkdir mount";
        let made = Command::new("sh").args(["-c", script]).arg(folder).output();
        if made.is_ok_and(|made| made.status.success()) && disk.mount() {
            return Some(disk);
        }
        println!("skipped: this process may not mount; next: run the tests as root");
        None
    }

    fn mount(&self) -> bool {
        let mut mount = Command::new("mount");
        mount.args(["-o", "loop,errors=remount-ro"]).arg(self.0.with_file_name("image"));
        mount.arg(&self.0).output().is_ok_and(|tried| tried.status.success())
    }

    fn unmount(&self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }

    /// What the kernel does at an error of the file system.
    fn fail(&self) {
        let script = "device=$(findmnt -no SOURCE \"$0\") && \
            echo 1 > /sys/fs/ext4/${device#/dev/}/trigger_fs_error";
        // The message itself may be refused, since it has worked.
        drop(Command::new("sh").args(["-c", script]).arg(&self.0).output());
        assert!(std::fs::write(self.0.join("probe"), "").is_err(), "it is read-only now");
    }
}

impl Drop for FailingDisk {
    fn drop(&mut self) {
        self.unmount();
    }
}

#[test]
fn a_file_system_that_becomes_read_only_takes_no_writes_and_loses_none() {
    let folder = tempfile::tempdir().expect("the disk has space");
    let Some(disk) = FailingDisk::new(folder.path()) else { return };
    let data = disk.0.join("data");
    let start = || {
        let mut command = Server::command(&data);
        command.env("NEARPRINT_ENGINE__DISK_FREE_BYTES_MIN", "0");
        Server::of(command).expect("it starts")
    };
    let server = start();
    assert_eq!(store(&server.client(), 1).0, 200);
    disk.fail();
    let body = json!({"id": "id-2", "fingerprint": 2});
    // It may have ended already, so that a supervisor starts it again.
    let is_stored =
        server.client().post("/v1/insert", &body).is_ok_and(|(status, _)| status == 200);
    assert!(!is_stored);
    server.kill();
    disk.unmount();
    assert!(disk.mount(), "the file system is whole");
    let server = start();
    assert_eq!(Client::expect(server.client().get("/v1/stats"))["documents"], 1);
    server.kill();
}
