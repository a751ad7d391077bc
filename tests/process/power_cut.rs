//! Promise: every write whose reply was read before a power cut is stored after it. Method: a
//! server on a file system of its own, whose power goes under load in one of two ways: by the ioctl
//! that shuts an XFS down, which drops what was not synced, or by going on from a copy of the image
//! of an ext4 that btrfs made in an instant. Then everything is compared; answers read later count
//! for nothing. A server whose syncs lie must be caught. (The shutdown of ext4 is no oracle: some
//! kernels lose synced appends by it.) In each cut a control of a few lines appends and syncs next
//! to the server: where it loses something, the disk is no oracle. Needs root and loop devices.

use std::fs::File;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::load::{answered, compare, pause, under_load, until_answered, workers};
use crate::random::{self, Random};
use crate::strace;
use crate::support::server::Server;
use crate::worker::Worker;

const WORKERS: usize = 16;
/// `make torture` makes 500.
const CUTS: u64 = 3;
/// The writes that are answered before each cut; fewer would prove little.
const ANSWERS_MIN: u64 = 21;
/// `make torture` takes 2,000.
const IMAGES: u64 = 3;
const UNMOUNT_TRIES: u32 = 50;
/// `FS_IOC_SHUTDOWN` with `NOLOGFLUSH`: the log of the file system is not written either.
const CUT: &str =
    r#"open(F, "<", $ARGV[0]) or die; $_ = pack("I", 2); ioctl(F, 0x8004587d, $_) or die"#;

fn run(program: &str, arguments: &[&str]) -> std::io::Result<Output> {
    Command::new(program).args(arguments).output()
}

fn must(program: &str, arguments: &[&str]) {
    let output = run(program, arguments).unwrap_or_else(|error| panic!("{program}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
}

/// How the power goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Power {
    Shutdown,
    Image,
}

/// A file system in a file.
struct Mount {
    image: PathBuf,
    at: PathBuf,
}

impl Mount {
    fn new(kind: &str, size: &str, folder: &Path) -> std::io::Result<Self> {
        let mount = Self { image: folder.join("image"), at: folder.join("disk") };
        std::fs::create_dir(&mount.at)?;
        must("truncate", &["-s", size, text(&mount.image)]);
        for tried in [run(&format!("mkfs.{kind}"), &["-q", text(&mount.image)])?, mount.mount()?] {
            if !tried.status.success() {
                let errors = String::from_utf8_lossy(&tried.stderr).into_owned();
                return Err(std::io::Error::other(errors));
            }
        }
        Ok(mount)
    }

    fn mount(&self) -> std::io::Result<Output> {
        run("mount", &["-o", "loop", text(&self.image), text(&self.at)])
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        drop(run("umount", &["-l", text(&self.at)]));
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary path is text")
}

/// An XFS, or an ext4 on a btrfs where its images are copied. Dropped from its top to its bottom.
struct Disk {
    power: Power,
    files: Mount,
    _btrfs: Option<Mount>,
    _folder: tempfile::TempDir,
}

impl Disk {
    /// `None`, and why, where this machine has no such disk.
    #[expect(clippy::print_stdout, reason = "why a test did nothing")]
    fn new(power: Power) -> Option<Self> {
        let folder = tempfile::tempdir().expect("the disk has space");
        let made = (|| {
            let btrfs = match power {
                Power::Shutdown => None,
                Power::Image => Some(Mount::new("btrfs", "2G", folder.path())?),
            };
            let below = btrfs.as_ref().map_or(folder.path(), |btrfs| &btrfs.at);
            let kind = match power {
                Power::Shutdown => "xfs",
                Power::Image => "ext4",
            };
            std::io::Result::Ok((Mount::new(kind, "512M", below)?, btrfs))
        })();
        match made {
            Ok((files, btrfs)) => Some(Self { power, files, _btrfs: btrfs, _folder: folder }),
            Err(error) => {
                println!(
                    "skipped: {error}; next: run as root, with loop devices, xfsprogs and btrfs-progs"
                );
                None
            }
        }
    }

    fn data(&self) -> PathBuf {
        self.files.at.join("data")
    }

    /// The power goes; by a shutdown, what reads and writes now fails.
    fn cut(&self) {
        match self.power {
            Power::Shutdown => must("perl", &["-e", CUT, text(&self.files.at)]),
            Power::Image => {
                let (image, copy) = (&self.files.image, self.copy());
                must("cp", &["--reflink=always", text(image), text(&copy)]);
            }
        }
    }

    /// The power is back.
    fn again(&self) {
        let at = text(&self.files.at);
        // A tracer that was killed may hold the disk a moment longer than the server.
        let unmounted = || run("umount", &[at]).is_ok_and(|output| output.status.success());
        if !(0..UNMOUNT_TRIES).any(|_| unmounted() || run("sleep", &["0.1"]).is_err()) {
            must("umount", &[at]);
        }
        if self.power == Power::Image {
            must("mv", &[text(&self.copy()), text(&self.files.image)]);
        }
        let mounted = self.files.mount().expect("mount is here");
        assert!(mounted.status.success(), "{mounted:?}");
    }

    fn control_file(&self) -> PathBuf {
        self.files.at.join("control")
    }

    fn copy(&self) -> PathBuf {
        self.files.image.with_extension("copy")
    }
}

/// Appends numbers and syncs each, until the power goes; returns how many were synced before.
#[expect(clippy::disallowed_methods, reason = "a program that is not nearprint")]
fn begin_control(disk: &Disk, power_is_off: &Arc<AtomicBool>) -> JoinHandle<u64> {
    let mut file = File::create(disk.control_file()).expect("the disk has space");
    file.sync_all().expect("the disk works");
    File::open(&disk.files.at).and_then(|folder| folder.sync_all()).expect("the disk works");
    let power_is_off = Arc::clone(power_is_off);
    thread::spawn(move || {
        let append = |number: u64| {
            file.write_all(&number.to_le_bytes()).and_then(|()| file.sync_data()).is_ok()
                && !power_is_off.load(Ordering::SeqCst)
        };
        (1..=u64::MAX).map(append).take_while(|synced| *synced).count() as u64
    })
}

/// The disk must have kept what the control synced: then it is an oracle for the server too.
#[expect(clippy::disallowed_methods, reason = "a program that is not nearprint")]
fn check_control(disk: &Disk, control: JoinHandle<u64>) {
    let synced = control.join().expect("it does not panic");
    let kept = std::fs::read(disk.control_file()).unwrap_or_default();
    let numbers = kept.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    let whole = numbers.zip(1..).take_while(|(number, expected)| number == expected).count();
    assert!(whole as u64 >= synced, "this disk is no oracle: it lost {synced} - {whole} appends");
}

/// The log of a server is on the disk that loses power, so it is not read.
fn cut(mut running: Vec<Worker>, disk: &Disk, lies: bool, random: &mut Random) -> Vec<Worker> {
    let data = disk.data();
    let command = if lies {
        strace::command("fdatasync,fsync", "retval=0", &data)
    } else {
        Server::command(&data)
    };
    let server = Server::of(command).expect("it starts");
    let power_is_off = Arc::new(AtomicBool::new(false));
    let control = begin_control(disk, &power_is_off);
    running = running.into_iter().map(|worker| worker.with_power_flag(&power_is_off)).collect();
    let enough = until_answered(ANSWERS_MIN, &running);
    running = under_load(running, &server, |server| {
        enough();
        pause(50 + random.below(400));
        power_is_off.store(true, Ordering::SeqCst);
        disk.cut();
        pause(50);
        server.kill();
    });
    drop(server);
    // It ends with the power; its file must be closed before the file system is unmounted.
    while !control.is_finished() {
        pause(1);
    }
    disk.again();
    check_control(disk, control);
    running
}

#[expect(clippy::print_stdout, reason = "what a run of many cuts did")]
fn every_answer_read_before_is_there(power: Power, cuts: u64) {
    let mut random = Random::of_run();
    let Some(disk) = Disk::new(power) else { return };
    let mut running = workers(WORKERS, &mut random);
    for number in 1..=cuts {
        running = cut(running, &disk, false, &mut random);
        let server = Server::start(&disk.data());
        compare(&mut running, &server.client());
        server.kill();
        if number % 50 == 0 || number == cuts {
            println!("{number} power cuts ({power:?}): {} writes answered", answered(&running));
        }
    }
    assert!(answered(&running) > 20 * cuts, "too few were answered: this proves nothing");
}

#[test]
fn every_answer_read_before_the_power_went_is_there() {
    let cuts = random::variable("NEARPRINT_TEST_POWER_CUTS").unwrap_or(CUTS);
    every_answer_read_before_is_there(Power::Shutdown, cuts);
}

#[test]
fn every_answer_read_before_an_image_of_the_disk_was_taken_is_in_it() {
    let images = random::variable("NEARPRINT_TEST_CRASH_IMAGES").unwrap_or(IMAGES);
    every_answer_read_before_is_there(Power::Image, images);
}

#[expect(clippy::print_stdout, reason = "which cut it was")]
fn a_server_whose_syncs_lie_is_caught(power: Power) {
    if !strace::is_here() {
        return;
    }
    let mut random = Random::of_run();
    let caught = (1..=10).find_map(|number| {
        let Some(disk) = Disk::new(power) else { return Some(None) };
        let mut running = cut(workers(WORKERS, &mut random), &disk, true, &mut random);
        let compared = catch_unwind(AssertUnwindSafe(|| {
            let server = Server::start(&disk.data());
            compare(&mut running, &server.client())
        }));
        compared.is_err().then_some(Some(number))
    });
    let Some(caught) = caught else { panic!("{power:?}: the comparison proves nothing") };
    println!("caught by power cut {caught:?}");
}

#[test]
fn a_server_whose_syncs_lie_is_caught_within_ten_power_cuts() {
    a_server_whose_syncs_lie_is_caught(Power::Shutdown);
}

#[test]
fn a_server_whose_syncs_lie_is_caught_within_ten_images() {
    a_server_whose_syncs_lie_is_caught(Power::Image);
}
