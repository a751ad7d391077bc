//! Segments and tables in files: what they take, and what happens when they cannot be read. That
//! they answer as those in memory do is part of the other tests, which restart.

use std::sync::atomic::Ordering;

use super::*;
use crate::memory::file::catch_unreadable;

/// Texts with ids, under fingerprints of which some have several.
fn put_many(view: &mut View, from: u64, count: u64) {
    for number in from..from + count {
        let fingerprint = Fingerprint::new((number % 900).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let labels = [1, 2, 3, 4].map(|label| Label::from_bits(number % 50 * label));
        let sketch = Sketch::from_codes(&[0; BINS]).with_labels(labels);
        let id = Some(IdKey::of(&number.to_string(), None, &[7; 16]));
        view.put(fingerprint, Put { id, sketch: Some(Box::new(sketch)), ..Put::default() });
    }
}

#[test]
fn what_is_merged_from_files_stays_there_and_answers_the_same() {
    let mut expected = empty(3, 64);
    put_many(&mut expected, 0, 1_000);
    let mut view = empty(3, 64);
    put_many(&mut view, 0, 600);
    restart(&mut view);
    put_many(&mut view, 600, 400);
    view.rotate();
    settle_deltas(&mut view);
    while let Some(work) = view.next_merge_towards_one() {
        view.complete(work);
    }
    let [segment] = &**view.segments() else { panic!("it is one segment") };
    let in_files = segment.file_bytes();
    assert!(in_files > 20 * 1_000, "{in_files} bytes");
    assert!(view.secondary_tables().iter().all(|other| other.table.file_bytes() > 0));
    for number in 0..1_000_u64 {
        let key = IdKey::of(&number.to_string(), None, &[7; 16]);
        let found = view.find_id(key).unwrap();
        assert_eq!(Some(found), expected.find_id(key));
        let query = Fingerprint::new(expected.find_id(key).unwrap().masked.bits() ^ 0b101);
        assert_eq!(near(&view, query, distance(3)), near(&expected, query, distance(3)));
    }
}

#[test]
fn a_file_that_cannot_be_read_ends_the_question_and_nothing_else() {
    let (files, mut view) = (FilesInMemory::default(), empty(3, 64));
    put_many(&mut view, 0, 600);
    restart_in(&files, &mut view);
    let sequence = view.sequence();
    let query = Fingerprint::new(0x9e37_79b9_7f4a_7c15 ^ 0b11);
    let found = near(&view, query, distance(3));
    let (id, other) = (IdKey::of("5", None, &[7; 16]), IdKey::of("other", None, &[7; 16]));
    files.broken.store(true, Ordering::Relaxed);
    let asks = [
        catch_unreadable(|| drop(near(&view, query, distance(3)))),
        catch_unreadable(|| assert!(view.find_id(id).is_none())),
        catch_unreadable(|| {
            assert_eq!(view.nearest(&[query], distance(3), Visibility::DEFAULT).count(), 0);
        }),
        catch_unreadable(|| {
            while let Some(work) = view.next_merge_towards_one() {
                assert_eq!(work.steps().count(), 0);
            }
        }),
    ];
    for asked in asks {
        assert_eq!(asked.unwrap_err().to_string(), "the file is broken");
    }
    assert_eq!(view.find_id(other), None, "the filter is in memory");
    put_many(&mut view, 600, 10);
    files.broken.store(false, Ordering::Relaxed);
    assert_eq!(
        (view.sequence().get(), near(&view, query, distance(3))),
        (sequence.get() + 10, found)
    );
}
