//! Promise: the simulated disk behaves as the real one, and forgets exactly what was not synced.
//! Method: runs the same checks on both, then crashes the simulated one.

use super::*;
use crate::simulated::{Failure, Faults, Operation};
use crate::{Disk, RealDisk};

fn behaves_as_a_disk(disk: &dyn Disk, tells_what_is_in_memory: bool) {
    let file = disk.create("b").unwrap();
    assert!(disk.create("b").is_err(), "a name is created once");
    file.write_at(3, b"abc").unwrap();
    assert_eq!(file.len().unwrap(), 6);
    let mut buffer = [9; 10];
    assert_eq!(file.read_at(1, &mut buffer).unwrap(), 5);
    assert_eq!(buffer, *b"\0\0abc\x09\x09\x09\x09\x09");
    assert_eq!(file.read_at(100, &mut buffer).unwrap(), 0);
    // It was written just now. The simulated disk has to wait for every other read, and some file
    // systems cannot tell what is in memory.
    let in_memory = |offset| {
        let mut read = [9; 10];
        let found = (0..2).find_map(|_| file.read_in_memory(offset, &mut read));
        (found, read)
    };
    if tells_what_is_in_memory || in_memory(1).0.is_some() {
        assert_eq!(in_memory(1), (Some(5), buffer));
        assert_eq!(in_memory(100).0, Some(0));
    }
    file.reserve(6, 10_000).unwrap();
    assert_eq!(file.len().unwrap(), 6, "reserved space is not length");
    file.truncate(4).unwrap();
    file.sync_data().unwrap();
    assert_eq!(disk.open("b").unwrap().len().unwrap(), 4);

    disk.create("a").unwrap();
    assert_eq!(disk.list().unwrap(), ["a", "b"]);
    disk.rename("b", "a").unwrap();
    assert_eq!(disk.list().unwrap(), ["a"]);
    assert_eq!(disk.open("a").unwrap().len().unwrap(), 4);
    disk.remove("a").unwrap();
    assert_eq!(file.len().unwrap(), 4, "an open file outlives its name");
    disk.sync_directory().unwrap();
    assert!(disk.open("a").unwrap_err().is_not_found());
    assert!(disk.remove("a").unwrap_err().is_not_found());
    assert!(disk.free_bytes().unwrap() > 0);
}

#[test]
fn both_disks_behave_alike() {
    behaves_as_a_disk(&SimulatedDisk::new(), true);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("made/on/the/way");
    behaves_as_a_disk(&RealDisk::open(&path).unwrap(), false);
    behaves_as_a_disk(&RealDisk::open(&path).unwrap(), false);
}

#[test]
fn anything_but_a_file_is_refused_and_named() {
    let directory = tempfile::tempdir().unwrap();
    let disk = RealDisk::open(directory.path()).unwrap();
    disk.create("file").unwrap();
    let path = |name: &str| directory.path().join(name);
    std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
    std::os::unix::fs::symlink(path("absent"), path("dangling")).unwrap();
    std::fs::create_dir(path("folder")).unwrap();
    std::fs::create_dir(path("lost+found")).unwrap();
    assert_eq!(disk.list().unwrap(), ["dangling", "file", "folder", "link"]);
    for (name, what) in
        [("link", "a symbolic link"), ("dangling", "a symbolic link"), ("folder", "a folder")]
    {
        let message = disk.open(name).unwrap_err().to_string();
        let expected = format!("{} is {what}, not a file", path(name).display());
        assert!(message.starts_with(&expected), "{message}");
    }
    assert!(disk.remove("folder").unwrap_err().to_string().contains("is a folder"));
}

#[test]
fn errors_name_the_operation_and_the_path() {
    let directory = tempfile::tempdir().unwrap();
    let disk = RealDisk::open(directory.path()).unwrap();
    let message = disk.open("absent").unwrap_err().to_string();
    let path = directory.path().join("absent");
    assert_eq!(message, format!("cannot open {}", path.display()));
}

#[test]
fn synced_bytes_under_a_synced_name_survive_every_crash() {
    for seed in 0..500 {
        let disk = SimulatedDisk::new();
        let file = disk.create("kept").unwrap();
        file.write_at(0, &[1; 2_000]).unwrap();
        file.sync_data().unwrap();
        disk.sync_directory().unwrap();
        file.write_at(2_000, &[2; 2_000]).unwrap();
        let after = file_bytes(&disk.crash(seed), "kept");
        assert_eq!(after[..2_000], [1; 2_000]);
        assert!(after[2_000..].iter().all(|byte| [0, 2].contains(byte)));
        assert!(file.len().is_err(), "the power is off");
    }
}

#[test]
fn unsynced_bytes_are_kept_lost_torn_and_reordered() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..500 {
        let disk = SimulatedDisk::new();
        let file = disk.create("file").unwrap();
        disk.sync_directory().unwrap();
        file.write_at(0, &[1; 1_024]).unwrap();
        file.write_at(1_024, &[2; 1_024]).unwrap();
        let after = file_bytes(&disk.crash(seed), "file");
        let whole = |half: &[u8], byte| half.len() == 1_024 && half.iter().all(|b| *b == byte);
        let (first, second) = after.split_at(after.len().min(1_024));
        seen.insert(if after.iter().all(|byte| *byte == 0) {
            "lost"
        } else if whole(first, 1) && whole(second, 2) {
            "kept"
        } else if whole(first, 0) && whole(second, 2) {
            "reordered"
        } else {
            "torn"
        });
    }
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[test]
fn names_survive_as_a_prefix_of_what_was_done() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let disk = SimulatedDisk::new();
        disk.create("a").unwrap();
        disk.create("b").unwrap();
        disk.rename("a", "c").unwrap();
        seen.insert(disk.crash(seed).list().unwrap());
    }
    let expected: [&[&str]; 4] = [&[], &["a"], &["a", "b"], &["b", "c"]];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn a_kill_loses_nothing_and_makes_nothing_durable() {
    let disk = SimulatedDisk::new();
    disk.create("file").unwrap().write_at(0, b"bytes").unwrap();
    let killed = disk.kill();
    assert_eq!(killed.open("file").unwrap().len().unwrap(), 5);
    let lost = (0..50).any(|seed| {
        let names = killed.kill().crash(seed).list();
        names.is_ok_and(|names| names.is_empty())
    });
    assert!(lost);
}

#[test]
fn the_same_seed_gives_the_same_disk() {
    let crashed = |seed| {
        let (disk, _) = written_journal(5, 1_000);
        let disk = disk.kill();
        let journal = open(&disk, 1_000).unwrap();
        drop(journal);
        disk.open(&journal_files(&disk)[0]).unwrap().write_at(5_000, &[3; 3_000]).unwrap();
        let disk = disk.crash(seed);
        file_bytes(&disk, &journal_files(&disk)[0])
    };
    for seed in 0..20 {
        assert_eq!(crashed(seed), crashed(seed));
    }
}

#[test]
fn planned_failures_hit_their_operation_once() {
    let disk = SimulatedDisk::new();
    let file = disk.create("file").unwrap();
    disk.set_faults(Faults {
        fail: vec![(Operation::Write, 2, Failure::Full)],
        capacity_bytes: Some(100),
        ..Faults::default()
    });
    file.write_at(0, &[1; 10]).unwrap();
    assert!(file.write_at(10, &[1; 10]).unwrap_err().is_full());
    assert_eq!(file.len().unwrap(), 15, "a failed write leaves a part");
    file.write_at(10, &[1; 10]).unwrap();
    assert!(file.write_at(20, &[1; 100]).unwrap_err().is_full());
    assert_eq!(file.len().unwrap(), 100);
    assert_eq!(disk.operations(), 4);
}
