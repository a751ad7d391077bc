//! Batches: documents that are handled together.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::{iter, mem, thread};

use crate::{BadEntry, Checkpoint, Documents, Entry};

/// How large a batch is, and whether an entry that cannot be read ends the last one.
#[derive(Debug, Clone, Copy)]
pub struct BatchOptions {
    /// A batch is full at this many documents and bad entries.
    pub items_max: usize,
    /// A batch is full at this many bytes of content.
    pub bytes_max: usize,
    /// The first bad entry is the last item of the last batch.
    pub stops_at_errors: bool,
}

/// Some documents in the order of their files, and what could not be read between them.
#[derive(Debug, Default)]
pub struct DocumentBatch {
    /// The documents.
    pub documents: Vec<Entry>,
    /// The entries among them that are not documents.
    pub bad: Vec<BadEntry>,
    /// For each item, in the order of the files, whether it is a document, and not bad.
    pub readable: Vec<bool>,
    /// How the files that were opened meanwhile are understood.
    pub notes: Vec<String>,
    /// How far the documents are read with this batch.
    pub upto: Checkpoint,
}

/// Cuts a stream of documents into batches, none of which is empty.
pub fn batches(
    documents: &mut Documents,
    options: BatchOptions,
) -> impl Iterator<Item = DocumentBatch> {
    let mut is_over = false;
    iter::from_fn(move || {
        let (mut batch, mut bytes) = (DocumentBatch::default(), 0);
        while !is_over && bytes < options.bytes_max && batch.readable.len() < options.items_max {
            let Some(next) = documents.next() else { break };
            batch.readable.push(next.is_ok());
            match next {
                Ok(document) => {
                    bytes += content_bytes(&document);
                    batch.documents.push(document);
                }
                Err(bad) => {
                    batch.bad.push(bad);
                    is_over = options.stops_at_errors;
                }
            }
        }
        if batch.readable.is_empty() {
            return None;
        }
        batch.notes = documents.records().notes();
        batch.upto = documents.records().checkpoint();
        Some(batch)
    })
}

/// Batches that wait for each thread.
const BATCHES_WAITING: usize = 2;

/// A batch whose documents have been worked on, and what came of them.
struct Done<T> {
    number: u64,
    batch: DocumentBatch,
    result: T,
}

/// Lets some threads work on batches of documents while another one reads them. `take` receives
/// each batch, without its documents, and what came of them, in the order of the files; it says
/// whether to go on. Memory is a few batches for each thread.
///
/// # Errors
/// The first one of `take`, which ends everything.
pub(crate) fn in_order<T: Send, E>(
    documents: &mut Documents,
    (options, threads): (BatchOptions, usize),
    work: impl Fn(Vec<Entry>) -> T + Sync,
    take: impl FnMut(DocumentBatch, T) -> Result<bool, E>,
) -> Result<(), E> {
    let (to_workers, waiting) = mpsc::sync_channel(BATCHES_WAITING * threads);
    let (to_taker, done) = mpsc::sync_channel(BATCHES_WAITING * threads);
    let (waiting, is_over) = (Mutex::new(waiting), AtomicBool::new(false));
    thread::scope(|scope| {
        let (cut, is_over) = (batches(documents, options), &is_over);
        scope.spawn(move || {
            for numbered in (0..).zip(cut) {
                // The other side may have ended.
                if to_workers.send(numbered).is_err() || is_over.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        for _ in 0..threads {
            let (waiting, work, to_taker) = (&waiting, &work, to_taker.clone());
            scope.spawn(move || work_on_all(waiting, work, &to_taker));
        }
        drop(to_taker);
        let taken = take_in_order(&done, take);
        // If that has ended early, so do the threads: when nobody takes what they have.
        drop(done);
        is_over.store(true, Ordering::Relaxed);
        waiting.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(drop);
        taken
    })
}

fn work_on_all<T>(
    batches: &Mutex<Receiver<(u64, DocumentBatch)>>,
    work: &impl Fn(Vec<Entry>) -> T,
    sender: &SyncSender<Done<T>>,
) {
    loop {
        let next = batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, mut batch)) = next else { return };
        let result = work(mem::take(&mut batch.documents));
        if sender.send(Done { number, batch, result }).is_err() {
            return;
        }
    }
}

fn take_in_order<T, E>(
    done: &Receiver<Done<T>>,
    mut take: impl FnMut(DocumentBatch, T) -> Result<bool, E>,
) -> Result<(), E> {
    let (mut early, mut next) = (BTreeMap::new(), 0);
    for Done { number, batch, result } in done {
        early.insert(number, (batch, result));
        while let Some((batch, result)) = early.remove(&next) {
            next += 1;
            if !take(batch, result)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn content_bytes(document: &Entry) -> usize {
    let passed: usize = document.passed.iter().map(|(_, json)| json.len()).sum();
    passed + document.content.bytes()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay out their own files")]

    use std::path::Path;

    use super::*;
    use crate::ReadOptions;

    fn read(path: &Path, stops_at_errors: bool) -> Vec<DocumentBatch> {
        let options = BatchOptions { items_max: 256, bytes_max: 512 << 10, stops_at_errors };
        let mut documents = Documents::new(vec![path.to_owned()], ReadOptions::default());
        batches(&mut documents, options).collect()
    }

    #[test]
    fn a_batch_is_full_by_number_or_by_bytes_and_nothing_is_lost() {
        let directory = tempfile::tempdir().unwrap();
        let many = directory.path().join("many.hex");
        std::fs::write(&many, "00000000000000ff\n".repeat(600)).unwrap();
        let large = directory.path().join("large.ndjson");
        let line = format!("{{\"text\": \"{}\"}}\n", "a".repeat(300 << 10));
        std::fs::write(&large, line.repeat(3)).unwrap();

        let sizes = |path: &Path| {
            read(path, false).iter().map(|batch| batch.documents.len()).collect::<Vec<_>>()
        };

        assert_eq!(sizes(&many), [256, 256, 88]);
        assert_eq!(sizes(&large), [2, 1]);
    }

    #[test]
    fn batches_end_at_the_first_bad_entry_if_they_are_to() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.hex");
        std::fs::write(&path, "00000000000000ff\nbad\n00000000000000ff\nbad\n").unwrap();
        for (stops, expected, readable) in
            [(false, (2, 2), &[true, false, true, false][..]), (true, (1, 1), &[true, false])]
        {
            let read = read(&path, stops);
            let counts = (read[0].documents.len(), read[0].bad.len());
            assert_eq!((read.len(), counts, &*read[0].readable), (1, expected, readable));
        }
    }
}
