//! Writes: what stores and removes documents, through the queue of the writer.

use std::sync::Arc;

use nearprint_fingerprint::Fingerprint;
use nearprint_index::id_key::IdKey;
use nearprint_machine::change::PACKED_MAX;
use nearprint_machine::commands::{
    CheckAndInsert, CheckAndInsertPacked, Insert, InsertPacked, Remove, Reset,
};
use nearprint_machine::document::{Document, DocumentId, Namespace, Packed};
use nearprint_machine::query::Criteria;
use nearprint_machine::search::{PackedSearch, Probe, nearest};

use crate::api::clock;
use crate::api::error::Refused;
use crate::api::replies::{PackedInserted, QueryOptions, Removed, StoreOptions};
use crate::handle::Engine;
use crate::read::found::{Checked, Inserted};
use crate::read::reader::RecordLookup;
use crate::shared::ToWriter;
use crate::state::published::Published;
use crate::state::replica::Membership;
use crate::state::scheduler::{Share, piece};
use crate::threads::writer::refuse;
use crate::write::command::{Command, SearchedCheckAndInsert, SearchedCheckAndInsertPacked};
use crate::write::outbox::{Admission, Outbox};
use crate::write::queued::{Pending, Queued};

impl Engine {
    /// Stores a document, whatever is stored already.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn begin_insert(
        &self,
        insert: impl Into<Insert>,
        admission: Admission<'_>,
    ) -> Result<Pending<Inserted>, Refused> {
        let insert = insert.into();
        if let Some(id) = &insert.document.id {
            self.read_id(insert.document.namespace.as_ref(), id).await?;
        }
        self.submit(insert, admission, 0).await
    }

    /// Looks up a document and stores it unless a hit counts (or even so, if `storing` says so),
    /// in one atomic step.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn begin_check_and_insert(
        &self,
        document: impl Into<Document>,
        options: QueryOptions,
        storing: impl Into<StoreOptions>,
        admission: Admission<'_>,
    ) -> Result<Pending<Checked>, Refused> {
        let QueryOptions { criteria, limit, .. } = options;
        self.check_distance(criteria.distance)?;
        let at_ms = clock::now_ms();
        let verify = |state: &Published, probe: &Probe<'_>, mut lookup: RecordLookup| {
            lookup.verify(state, probe).map(|()| lookup)
        };
        let document = document.into();
        let lookup = self.look_up(&document, options, at_ms, verify).await?;
        let bytes = lookup.bytes();
        let StoreOptions { store_duplicates, touch, renew: renews } = storing.into();
        let command = CheckAndInsert { document, criteria, store_duplicates, renews };
        let touches = touch.then(|| Arc::clone(&self.shared.touches));
        let command = SearchedCheckAndInsert { command, lookup, limit, touches };
        self.submit_at(command, at_ms, admission, bytes).await
    }

    /// Stores bare fingerprints, at most [`PACKED_MAX`].
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn begin_insert_packed(
        &self,
        packed: impl Into<Packed>,
        admission: Admission<'_>,
    ) -> Result<Pending<PackedInserted>, Refused> {
        let packed = packed.into();
        assert!(packed.fingerprints.len() <= PACKED_MAX, "callers cut batches");
        self.submit(InsertPacked { packed }, admission, 0).await
    }

    /// Stores each bare fingerprint, in order, that has no other within the distance; at most
    /// [`PACKED_MAX`]. The reply is, for each, the distance of the nearest hit, or 255 if it was
    /// stored. The batch scheduler runs the search.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn begin_check_and_insert_packed(
        &self,
        share: &Share,
        packed: impl Into<Packed>,
        criteria: Criteria,
        admission: Admission<'_>,
    ) -> Result<Pending<Vec<u8>>, Refused> {
        let packed = packed.into();
        assert!(packed.fingerprints.len() <= PACKED_MAX, "callers cut batches");
        self.check_distance(criteria.distance)?;
        let (state, at_ms) = (self.shared.published.load_full(), clock::now_ms());
        let (since, queries) = (state.view.sequence(), packed.fingerprints.as_slice().into());
        let namespace = self.namespace_key(packed.namespace.as_ref());
        let visibility = state.view.visibility(namespace, at_ms, criteria.max_age_s);
        let cells = state.view.cells_visited(criteria.distance);
        // All pieces search the same view; the writer adds what is newer.
        let look_up =
            move |piece: &[Fingerprint]| nearest(&state.view, piece, criteria.distance, visibility);
        let nearest = share.look_up(&queries, piece(cells), look_up).await?;
        let search = PackedSearch { since, visibility, nearest };
        let command = CheckAndInsertPacked { packed, criteria };
        let command = SearchedCheckAndInsertPacked { command, search };
        self.submit_at(command, at_ms, admission, 0).await
    }

    /// Removes the document with this id in a namespace.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn remove(
        &self,
        namespace: Option<Namespace>,
        id: DocumentId,
    ) -> Result<Removed, Refused> {
        self.begin_remove(namespace, id, Admission::Shed).await?.wait().await
    }

    /// Begins to remove the document with this id in a namespace.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn begin_remove(
        &self,
        namespace: Option<Namespace>,
        id: DocumentId,
        admission: Admission<'_>,
    ) -> Result<Pending<Removed>, Refused> {
        self.read_id(namespace.as_ref(), &id).await?;
        self.submit(Remove { namespace, id }, admission, 0).await
    }

    /// Removes a fingerprint with all its documents in a namespace.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn remove_fingerprint(
        &self,
        namespace: Option<Namespace>,
        fingerprint: Fingerprint,
    ) -> Result<Removed, Refused> {
        let state = self.shared.published.load_full();
        if state.view.is_in_files() {
            let key = self.namespace_key(namespace.as_ref());
            let visibility = state.view.visibility(key, clock::now_ms(), None);
            self.ask(&state, move |view| view.exact_count(fingerprint, &visibility)).await?;
        }
        self.submit(Reset { namespace, fingerprint }, Admission::Shed, 0).await?.wait().await
    }

    /// Reads what the writer will ask of an id, if that is in files: the writer shall find it in
    /// the page cache of the operating system, and not wait for the disk.
    async fn read_id(&self, namespace: Option<&Namespace>, id: &DocumentId) -> Result<(), Refused> {
        let state = self.shared.published.load_full();
        if !state.view.is_in_files() {
            return Ok(());
        }
        let key = IdKey::of(id.as_str(), namespace, &self.shared.id_secret);
        self.ask(&state, move |view| view.find_id(key)).await.map(drop)
    }

    /// An outbox for writes that shall reach the writer together ([`Admission::Collect`]).
    pub fn outbox(&self) -> Outbox {
        let shared = Arc::clone(&self.shared);
        Outbox::new(Box::new(move |writes| {
            if let Err(unsent) = shared.writer.send(ToWriter::WriteAll(writes)) {
                refuse(unsent.0.into_writes(), &shared.end_refusal());
            }
        }))
    }

    /// Puts a command that is accepted now in the queue of the writer; its reply takes about
    /// `bytes` bytes.
    pub(super) async fn submit<C: Command>(
        &self,
        command: C,
        admission: Admission<'_>,
        bytes: usize,
    ) -> Result<Pending<C::Reply>, Refused> {
        self.submit_at(command, clock::now_ms(), admission, bytes).await
    }

    async fn submit_at<C: Command>(
        &self,
        command: C,
        at_ms: u64,
        admission: Admission<'_>,
        bytes: usize,
    ) -> Result<Pending<C::Reply>, Refused> {
        let bounds = command.bounds();
        if let Some(refused) = self.shared.refusal(bounds) {
            return Err(refused);
        }
        if self.shared.options.follows {
            return Err(Refused::Follower);
        }
        if self.shared.options.is_node && !self.shared.leads() {
            return Err(Refused::NoLeader);
        }
        let room = self.shared.queue.take(admission, bounds.changes).await?;
        let (queued, pending) =
            Queued::new(command, at_ms, (self.client.clone(), Some(room)), bytes);
        match admission {
            Admission::Collect(outbox) => outbox.put(queued),
            Admission::Shed | Admission::Wait => {
                let sent = self.shared.writer.send(ToWriter::Write(queued));
                sent.map_err(|_| self.shared.end_refusal())?;
            }
        }
        let wait_max = self.shared.node.as_ref().and_then(Membership::write_timeout);
        Ok(pending.no_longer_than(wait_max))
    }
}
