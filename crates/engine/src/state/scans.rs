//! Scans: work of lists that may take long, in slices that give other work its turn.
//!
//! A page with a prefix looks at documents whether or not they have it, and a pass looks at
//! everything in memory. Such work runs off the async threads, in slices of [`SLICE`] documents, on
//! the threads of a [fair queue](crate::state::fair_queue): so many lists
//! share a few cores, and the others are left to look-ups and writes. Between two slices the
//! request may end, because its client has left, and a page ends when it has looked at
//! 20,000 documents. Pages that list what they look at do not wait there: they cost
//! their own length.

use std::sync::Arc;

use nearprint_fingerprint::Fingerprint;
use nearprint_index::id_key::IdKey;
use nearprint_index::namespaces::NamespaceNumber;

use crate::api::client::Client;
use crate::api::error::{OpenError, Refused};
use crate::api::observer::Observer;
use crate::api::options::Options;
use crate::state::fair_queue::FairQueue;
use crate::state::runs::{ListRun, ListRuns};

/// Documents that one slice looks at: about a millisecond.
pub(crate) const SLICE: usize = 512;

/// What all lists share.
#[derive(Debug)]
pub(crate) struct Scans {
    queue: FairQueue,
    observer: Arc<dyn Observer>,
    /// A page ends when it has looked at so many documents.
    pub looked_at_max: usize,
    /// Documents of a namespace, or of all of them, by sequence; each with its masked fingerprint.
    pub documents: ListRuns<Option<NamespaceNumber>, Fingerprint>,
    /// Namespaces by number.
    pub namespaces: ListRuns<(), IdKey>,
}

impl Scans {
    /// With `list_threads` threads; 0 means one for two cores.
    ///
    /// # Errors
    /// [`OpenError::System`] if the operating system refuses a thread.
    pub(crate) fn start(options: &Options, observer: Arc<dyn Observer>) -> Result<Self, OpenError> {
        let threads = options.list_threads;
        let (queue, _) = FairQueue::start("lists", threads, |cores| cores.div_ceil(2))?;
        Ok(Self {
            queue,
            observer,
            looked_at_max: options.list_scan_max,
            documents: ListRuns::default(),
            namespaces: ListRuns::default(),
        })
    }

    /// Runs a slice when its client has its turn.
    ///
    /// # Errors
    /// Those of the work.
    pub(crate) async fn slice<T: Send + 'static>(
        &self,
        client: Option<Client>,
        work: impl FnOnce() -> Result<T, Refused> + Send + 'static,
    ) -> Result<T, Refused> {
        self.queue.run(client, work).await?
    }

    /// Notes how many documents a list has looked at.
    pub(crate) fn looked_at(&self, documents: usize) {
        self.observer.list_looked_at(documents as u64);
    }

    /// The run of a list that continues after a number: one that is kept, or what a pass finds.
    pub(crate) fn run<K: PartialEq, T>(
        &self,
        runs: &ListRuns<K, T>,
        (list, after, at): (K, u64, u64),
        pass: impl FnOnce() -> ListRun<T>,
    ) -> Arc<ListRun<T>> {
        // Whoever had the permit before may have wanted the same.
        runs.find(&list, after, at).unwrap_or_else(|| {
            self.observer.list_passed();
            runs.keep(list, pass())
        })
    }
}
