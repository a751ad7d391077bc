//! What an import prints of documents that have changed since they were stored the last time.

use std::io::{self, Write};

use nearprint_files::Entry;
use nearprint_wire::answer::{Answer, PreviousReply, ProblemReply};

use crate::cli::measure::times;
use crate::cli::printable::printable;

/// A table of changed documents, a line each as they come.
#[derive(Debug, Default)]
pub(crate) struct ChangeTable {
    has_head: bool,
}

impl ChangeTable {
    /// Prints those of a batch.
    pub(crate) fn print(
        &mut self,
        documents: &[Entry],
        replies: &[Result<Answer, ProblemReply<'static>>],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        for (document, reply) in documents.iter().zip(replies) {
            let Some(previous) = reply.as_ref().ok().and_then(|answer| answer.previous) else {
                continue;
            };
            if !is_change(&previous) {
                continue;
            }
            if !std::mem::replace(&mut self.has_head, true) {
                writeln!(out, "distance  similarity  numbers  {:<20}  document", "stored")?;
            }
            let PreviousReply { distance, similarity, numbers, stored_at_ms } = previous;
            let (similarity, numbers) = (shown(similarity), shown(numbers));
            let stored = times::shown_ms(Some(stored_at_ms));
            let name = document.id.clone().unwrap_or_else(|| document.place.to_string());
            let name = printable(&name);
            writeln!(out, "{distance:>8}  {similarity:>10}  {numbers:>7}  {stored:<20}  {name}")?;
        }
        Ok(())
    }
}

/// Whether anything that is known of the text has changed.
fn is_change(previous: &PreviousReply) -> bool {
    let has_changed = |share: Option<f64>| share.is_some_and(|share| share < 1.0);
    previous.distance > 0 || has_changed(previous.similarity) || has_changed(previous.numbers)
}

fn shown(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{share:.3}"))
}
