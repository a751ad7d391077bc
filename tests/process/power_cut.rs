//! Promise: every answer that was read before the power went is there after it. Method: a server on an
//! ext4 of its own, shut down by its ioctl under load, which drops what was not synced; mounted again,
//! everything is compared; answers read later count for nothing. A server whose syncs lie must be caught. Needs root and loop devices.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::load::{answered, compare, pause, under_load, workers};
use crate::random::{self, Random};
use crate::server::Server;
use crate::strace;
use crate::worker::Worker;

const WORKERS: usize = 16;
const CUTS: u64 = 20;
/// `FS_IOC_SHUTDOWN` with `NOLOGFLUSH`: the log of the file system is not written either.
const CUT: &str =
    r#"open(F, "<", $ARGV[0]) or die; $_ = pack("I", 2); ioctl(F, 0x8004587d, $_) or die"#;

fn must(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status();
    assert!(status.is_ok_and(|status| status.success()), "{program} {arguments:?}");
}

/// An ext4 in a file.
struct Disk {
    _folder: tempfile::TempDir,
    image: String,
    mounted: PathBuf,
}

impl Disk {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("there is room");
        let image = folder.path().join("image").to_string_lossy().into_owned();
        let mounted = folder.path().join("disk");
        std::fs::create_dir(&mounted).expect("there is room");
        must("truncate", &["-s", "512M", &image]);
        must("mkfs.ext4", &["-q", &image]);
        let disk = Self { _folder: folder, image, mounted };
        disk.mount();
        disk
    }

    fn at(&self) -> &str {
        self.mounted.to_str().expect("a temporary path is text")
    }

    fn mount(&self) {
        must("mount", &["-o", "loop", &self.image, self.at()]);
    }

    /// The power goes; what reads and writes now fails.
    fn cut(&self) {
        must("perl", &["-e", CUT, self.at()]);
    }

    fn again(&self) {
        must("umount", &[self.at()]);
        self.mount();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(Command::new("umount").args(["-l", self.at()]).status());
    }
}

/// The log of a server lies beside its data, on the disk whose power goes: it is not looked at.
fn cut(mut running: Vec<Worker>, disk: &Disk, lies: bool, random: &mut Random) -> Vec<Worker> {
    let data = disk.mounted.join("data");
    let command = if lies {
        strace::command("fdatasync,fsync", "retval=0", &data)
    } else {
        Server::command(&data)
    };
    let server = Server::of(command).expect("it starts");
    let power_is_off = Arc::new(AtomicBool::new(false));
    running = running.into_iter().map(|worker| worker.told_of_power(&power_is_off)).collect();
    running = under_load(running, &server, |server| {
        pause(50 + random.below(400));
        power_is_off.store(true, Ordering::SeqCst);
        disk.cut();
        pause(50);
        server.kill();
    });
    drop(server);
    disk.again();
    running
}

#[test]
#[ignore = "needs root and loop devices; `make torture` runs it"]
fn every_answer_read_before_the_power_went_is_there() {
    let mut random = Random::of_run();
    let disk = Disk::new();
    let mut running = workers(WORKERS, &mut random);
    for _ in 0..random::variable("NEARPRINT_TEST_POWER_CUTS").unwrap_or(CUTS) {
        running = cut(running, &disk, false, &mut random);
        let server = Server::start(&disk.mounted.join("data"));
        compare(&mut running, &server.client());
        server.kill();
    }
    println!("{} writes answered", answered(&running));
}

#[test]
#[ignore = "needs root and loop devices; `make torture` runs it"]
fn a_server_whose_syncs_lie_is_caught_within_ten_power_cuts() {
    let mut random = Random::of_run();
    let caught = (1..=10).find(|_| {
        let disk = Disk::new();
        let mut running = cut(workers(WORKERS, &mut random), &disk, true, &mut random);
        let compared = catch_unwind(AssertUnwindSafe(|| {
            let server = Server::start(&disk.mounted.join("data"));
            compare(&mut running, &server.client())
        }));
        compared.is_err()
    });
    println!("caught by power cut {caught:?}");
    assert!(caught.is_some(), "the comparison proves nothing");
}
