//! Batches: the documents that are sent together.

use std::iter;

use nearprint_files::{BadEntry, Checkpoint, Documents, Entry};

use super::options::OnError;

/// The maximum number of documents in a batch.
const DOCUMENTS_MAX: usize = 256;
/// A batch is full at this many bytes of content. The service replies while it reads; a batch this
/// small and its replies fit in the buffers of a connection, so that the two sides cannot deadlock.
const BYTES_MAX: usize = 512 << 10;

/// Some documents in the order of their files, and what could not be read between them.
#[derive(Debug, Default)]
pub(crate) struct ImportBatch {
    pub(crate) documents: Vec<Entry>,
    /// The entries among them that are no documents.
    pub(crate) bad: Vec<BadEntry>,
    /// How the files that were opened meanwhile are understood.
    pub(crate) notes: Vec<String>,
    /// How far the documents are read with this batch.
    pub(crate) upto: Checkpoint,
}

/// Cuts a stream of documents into batches. With `OnError::Stop` the first bad entry is the last
/// item of the last batch.
pub(crate) fn batches(
    documents: &mut Documents,
    on_error: OnError,
) -> impl Iterator<Item = ImportBatch> {
    let mut is_over = false;
    iter::from_fn(move || {
        let mut batch = ImportBatch::default();
        let mut bytes = 0;
        while !is_over
            && bytes < BYTES_MAX
            && batch.documents.len() + batch.bad.len() < DOCUMENTS_MAX
        {
            match documents.next() {
                Some(Ok(document)) => {
                    bytes += content_bytes(&document);
                    batch.documents.push(document);
                }
                Some(Err(bad)) => {
                    batch.bad.push(bad);
                    is_over = on_error == OnError::Stop;
                }
                None => break,
            }
        }
        batch.notes = documents.records().notes();
        batch.upto = documents.records().checkpoint();
        Some(batch).filter(|batch| !batch.documents.is_empty() || !batch.bad.is_empty())
    })
}

fn content_bytes(document: &Entry) -> usize {
    let passed: usize = document.passed.iter().map(|(_, json)| json.len()).sum();
    passed + document.content.bytes()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay out their own files")]

    use nearprint_files::ReadOptions;

    use super::*;

    #[test]
    fn a_batch_is_full_by_number_or_by_bytes_and_nothing_is_lost() {
        let directory = tempfile::tempdir().unwrap();
        let many = directory.path().join("many.hex");
        std::fs::write(&many, "00000000000000ff\n".repeat(600)).unwrap();
        let large = directory.path().join("large.ndjson");
        let line = format!("{{\"text\": \"{}\"}}\n", "a".repeat(300 << 10));
        std::fs::write(&large, line.repeat(3)).unwrap();

        let sizes = |path| {
            batches(&mut Documents::new(vec![path], ReadOptions::default()), OnError::Skip)
                .map(|batch| batch.documents.len())
                .collect::<Vec<_>>()
        };

        assert_eq!(sizes(many), [256, 256, 88]);
        assert_eq!(sizes(large), [2, 1]);
    }

    #[test]
    fn batches_end_at_the_first_bad_entry_if_they_are_to() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.hex");
        std::fs::write(&path, "00000000000000ff\nbad\n00000000000000ff\nbad\n").unwrap();
        for (on_error, expected) in [(OnError::Skip, (2, 2)), (OnError::Stop, (1, 1))] {
            let mut documents = Documents::new(vec![path.clone()], ReadOptions::default());
            let read: Vec<ImportBatch> = batches(&mut documents, on_error).collect();
            let counts = (read[0].documents.len(), read[0].bad.len());
            assert_eq!((read.len(), counts), (1, expected), "{on_error:?}");
        }
    }
}
