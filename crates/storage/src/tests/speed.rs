//! Figures, not promises:
//! `cargo test --release -p nearprint-storage --lib tests::speed -- --ignored --nocapture`.

use std::time::Instant;

use super::*;
use crate::{Disk, RealDisk, SealedReader, SealedWriter};

#[expect(clippy::disallowed_methods, reason = "a stopwatch for people")]
fn timed<T>(what: &str, unit: &str, amount: f64, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    let seconds = start.elapsed().as_secs_f64();
    println!("{what}: {:.2} {unit}/s", amount / seconds);
    result
}

#[test]
#[ignore = "a measurement, to be run in release"]
fn journal_and_sealed_files_in_figures() {
    let directory = tempfile::tempdir().unwrap();
    let real: Arc<dyn Disk> = Arc::new(RealDisk::open(directory.path()).unwrap());
    let tail = scan(&*real, &identity(), 0, &mut |_| ()).unwrap();
    let mut journal = Journal::open(Arc::clone(&real), identity(), tail, 128 << 20).unwrap();
    let (small, packed) = (vec![7; 300], vec![7; 32 << 10]);

    for what in ["append 300 B (buffer cold)", "append 300 B"] {
        timed(what, "M records", 0.2, || {
            for _ in 0..200_000 {
                journal.append(&small, 1).unwrap();
            }
        });
        timed("flush", "MB", 72.0, || journal.flush().unwrap());
    }
    for what in ["append 32 KiB (buffer cold)", "append 32 KiB"] {
        timed(what, "MB", 131.0, || {
            for _ in 0..4_000 {
                journal.append(&packed, 4_096).unwrap();
            }
        });
        timed("flush", "MB", 131.0, || journal.flush().unwrap());
    }
    journal.sync().unwrap();
    let records = journal.records();
    let mut dice = Dice::new(1);
    timed("random reads of 300 B, cached", "M", 0.2, || {
        for _ in 0..200_000 {
            records.read(1 + dice.below(400_000) as u64).unwrap();
        }
    });
    timed("scan", "MB", 406.0, || scan(&*real, &identity(), 0, &mut |_| ()).unwrap());
    measure_sealed(&real, &packed);
    drop(directory);
}

fn measure_sealed(real: &Arc<dyn Disk>, packed: &[u8]) {
    use std::io::Write;
    let kind = crate::FileKind(1);
    timed("sealed write with syncs", "MB", 131.0, || {
        let mut writer = SealedWriter::create(Arc::clone(real), "part", kind, identity()).unwrap();
        for _ in 0..4_000 {
            writer.write_all(packed).unwrap();
        }
        writer.finish().unwrap();
    });
    timed("sealed read, cached", "MB", 131.0, || {
        let mut reader = SealedReader::open(&**real, "part", kind, &identity()).unwrap();
        while reader.next_block().unwrap().is_some() {}
    });
}
