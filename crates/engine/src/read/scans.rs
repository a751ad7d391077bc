//! Scans: work of lists that may take long, in slices that give other work its turn.
//!
//! A page with a prefix looks at documents whether or not they have it, and a pass looks at
//! everything in memory. Such work runs off the async threads, in slices of [`SLICE`] documents, each
//! under one of `engine.list_threads` permits, first come, first served: so many lists share a few
//! cores, and the others are left to look-ups and writes. Between two slices the request may end,
//! because its client has left, and a page ends when it has looked at `engine.list_scan_max`
//! documents. Pages that list what they look at take no permit: they cost their own length.

use std::sync::Arc;

use nearprint_fingerprint::Fingerprint;
use nearprint_index::id_key::IdKey;
use nearprint_index::namespaces::NamespaceNumber;
use tokio::sync::Semaphore;

use crate::api::error::Refused;
use crate::api::observer::Observer;
use crate::blocking::off_async;
use crate::read::runs::{Run, Runs};

/// Documents that one slice looks at: about a millisecond.
pub(crate) const SLICE: usize = 512;

/// What all lists share.
#[derive(Debug)]
pub(crate) struct Scans {
    permits: Arc<Semaphore>,
    observer: Arc<dyn Observer>,
    /// A page ends when it has looked at so many documents.
    pub looked_at_max: usize,
    /// Documents of a namespace, or of all of them, by sequence; each with its masked fingerprint.
    pub documents: Runs<Option<NamespaceNumber>, Fingerprint>,
    /// Namespaces by number.
    pub namespaces: Runs<(), IdKey>,
}

impl Scans {
    /// With so many permits; 0 means one for two cores.
    pub(crate) fn new(threads: usize, looked_at_max: usize, observer: Arc<dyn Observer>) -> Self {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if threads == 0 { cores().div_ceil(2) } else { threads };
        Self {
            permits: Arc::new(Semaphore::new(threads)),
            observer,
            looked_at_max,
            documents: Runs::default(),
            namespaces: Runs::default(),
        }
    }

    /// Runs a slice once it has a permit.
    ///
    /// # Errors
    /// Those of the work.
    pub(crate) async fn slice<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Refused> + Send + 'static,
    ) -> Result<T, Refused> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.expect("never closed");
        off_async(move || {
            // The slice keeps it, because it continues when its request is dropped.
            let _permit = permit;
            work()
        })
        .await
    }

    /// Notes how many documents a list has looked at.
    pub(crate) fn looked_at(&self, documents: usize) {
        self.observer.list_looked_at(documents as u64);
    }

    /// The run of a list that continues after a number: one that is kept, or what a pass finds.
    pub(crate) fn run<K: PartialEq, T>(
        &self,
        runs: &Runs<K, T>,
        (list, after, at): (K, u64, u64),
        pass: impl FnOnce() -> Run<T>,
    ) -> Arc<Run<T>> {
        // Whoever had the permit before may have wanted the same.
        runs.find(&list, after, at).unwrap_or_else(|| {
            self.observer.list_passed();
            runs.keep(list, pass())
        })
    }
}
