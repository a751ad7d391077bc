//! The destination of an import.

use anyhow::Result;

use crate::bulk::Entry;
use crate::cli::reply::Reply;

/// The destination of an import.
pub(crate) trait Sink {
    /// Stores documents in this order; for each, the reply or why it failed. An error means that
    /// the import cannot go on.
    fn store(&mut self, documents: &[Entry]) -> Result<Vec<Result<Reply, String>>>;

    /// Closes the destination.
    fn finish(self: Box<Self>);
}
