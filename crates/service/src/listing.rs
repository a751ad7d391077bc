//! Lists of what is stored, by pages or as one stream.

use bytes::Bytes;
use nearprint_engine::document::{DocumentId, Namespace, Sequence};
use nearprint_engine::{
    DocumentStream, ListPlace, ListQuery, NamespaceFilter, NamespaceInfo, Original, OriginalsOrder,
    OriginalsQuery, Page, PageOptions, Removed, StoredDocument, Touch,
};
use nearprint_fingerprint::Fingerprint;
use nearprint_wire::code::Code;

use crate::answers::{self, NAMESPACE_BYTES_MAX, SelectionParts, Showing};
use crate::callers::Caller;
use crate::cipher::{CursorKind, Purpose};
use crate::limits::budget::ByteShare;
use crate::refusal::Refusal;
use crate::service::Service;

/// The bytes of the lines of a stream that are made at one time.
const PIECE_BYTES: usize = 64 << 10;

/// The most documents of a piece of a stream.
const PIECE_DOCUMENTS: usize = 1_000;

/// Which page of a list.
#[derive(Debug, Clone, Copy)]
pub struct PageRequest<'a> {
    /// The `next` of the page before.
    pub after: Option<&'a str>,
    /// How many items it may have.
    pub limit: usize,
}

/// A page of a list.
#[derive(Debug)]
pub struct ListedPage<P> {
    /// What the engine has listed.
    pub page: P,
    /// The cursor of the next page; `None` on the last one.
    pub next: Option<String>,
    /// The share that the bytes of its answer have of the budget.
    pub share: Option<ByteShare>,
}

/// The documents of some namespaces, or some of them.
#[derive(Debug, Clone)]
pub struct Selected {
    /// Whose.
    pub namespaces: NamespaceFilter,
    /// Only those whose ids begin so.
    pub prefix: Option<Box<str>>,
}

impl Selected {
    /// The list that its cursors continue.
    fn list(&self) -> Purpose {
        let list = Purpose::from(CursorKind::Documents).of_namespaces(&self.namespaces);
        list.with(self.prefix.as_deref())
    }
}

/// The documents of a selection as lines of JSON, as of one moment, in constant memory.
#[derive(Debug)]
pub struct DocumentLines {
    documents: DocumentStream,
    showing: Showing,
}

impl Service {
    /// A page of documents, oldest first.
    ///
    /// # Errors
    /// The cursor is not that of another page of this list, or a record cannot be read.
    pub async fn documents(
        &self,
        caller: &Caller,
        selected: Selected,
        (page, parts): (PageRequest<'_>, SelectionParts),
    ) -> Result<ListedPage<Page<StoredDocument>>, Refusal> {
        let list = selected.list();
        let query = self.query(selected, page.after)?;
        let (bytes_max, share) = if query.prefix.is_some() {
            self.replies().searched_page(&caller.client)
        } else {
            self.replies().page(&caller.client)
        };
        let options = parts.page(page.limit, bytes_max);
        let page = self.engine_for(caller).list(query, options).await?;
        let next = page.next.map(|next| self.cipher.encrypt(&list, next));
        Ok(ListedPage { page, next, share })
    }

    /// All documents of a selection, after this cursor if there is one.
    ///
    /// # Errors
    /// The cursor is not that of a page of this list.
    pub fn document_lines(
        &self,
        caller: &Caller,
        (selected, after): (Selected, Option<&str>),
        parts: SelectionParts,
    ) -> Result<DocumentLines, Refusal> {
        let query = self.query(selected, after)?;
        let showing = self.showing(caller, parts);
        Ok(DocumentLines { documents: self.engine_for(caller).stream(query), showing })
    }

    /// How documents are shown to a caller.
    pub fn showing(&self, caller: &Caller, parts: SelectionParts) -> Showing {
        Showing { parts, recipe: self.recipe(), reach: caller.namespaces.clone() }
    }

    fn query(&self, selected: Selected, after: Option<&str>) -> Result<ListQuery, Refusal> {
        let after = Sequence::new(self.cipher.after(after, &selected.list())?);
        let Selected { namespaces, prefix } = selected;
        Ok(ListQuery { reach: namespaces, prefix, after })
    }

    /// The document with an id, with how often it was named as an original.
    ///
    /// # Errors
    /// There is none, the caller does not reach it, or its record cannot be read.
    pub async fn document(
        &self,
        caller: &Caller,
        (namespace, id): (Option<&Namespace>, &DocumentId),
    ) -> Result<(StoredDocument, Option<Touch>), Refusal> {
        caller.namespaces.check(namespace.map(Namespace::as_str))?;
        let stored = self.engine.document(namespace, id).await?;
        let missing =
            || Refusal::new(Code::DocumentNotFound, "No document with this id is stored.");
        let stored = stored.ok_or_else(missing)?;
        let touch = self.engine.touch(stored.sequence);
        Ok((stored, touch))
    }

    /// Removes the document with an id.
    ///
    /// # Errors
    /// The caller does not reach it, or the engine refuses.
    pub async fn remove(
        &self,
        caller: &Caller,
        (namespace, id): (Option<Namespace>, DocumentId),
    ) -> Result<Removed, Refusal> {
        caller.namespaces.check(namespace.as_ref().map(Namespace::as_str))?;
        Ok(self.engine.remove(namespace, id).await?)
    }

    /// A page of the documents of a fingerprint, oldest first.
    ///
    /// # Errors
    /// The caller does not reach them, the cursor is not that of another page of this list, or a
    /// record cannot be read.
    pub async fn documents_of(
        &self,
        caller: &Caller,
        (fingerprint, namespace): (Fingerprint, Option<&Namespace>),
        (page, parts): (PageRequest<'_>, SelectionParts),
    ) -> Result<ListedPage<Page<StoredDocument>>, Refusal> {
        let name = namespace.map(Namespace::as_str);
        let list = Purpose::from(CursorKind::Fingerprint).with(name).of_number(fingerprint.bits());
        let after = Sequence::new(self.cipher.after(page.after, &list)?);
        caller.namespaces.check(name)?;
        let (bytes_max, share) = self.replies().page(&caller.client);
        let options = parts.page(page.limit, bytes_max);
        let page = self.engine.documents_of(namespace, fingerprint, after, options).await?;
        let next = page.next.map(|next| self.cipher.encrypt(&list, next));
        Ok(ListedPage { page, next, share })
    }

    /// Removes a fingerprint with all its documents.
    ///
    /// # Errors
    /// The caller does not reach them, or the engine refuses.
    pub async fn remove_fingerprint(
        &self,
        caller: &Caller,
        (fingerprint, namespace): (Fingerprint, Option<Namespace>),
    ) -> Result<Removed, Refusal> {
        caller.namespaces.check(namespace.as_ref().map(Namespace::as_str))?;
        Ok(self.engine.remove_fingerprint(namespace, fingerprint).await?)
    }

    /// A page of the namespaces that a caller reaches, and the number of documents in the default
    /// one if it reaches that.
    ///
    /// # Errors
    /// The cursor is not that of another page of this list.
    pub async fn namespaces(
        &self,
        caller: &Caller,
        page: PageRequest<'_>,
    ) -> Result<(ListedPage<Page<NamespaceInfo>>, Option<u64>), Refusal> {
        let (bytes_max, share) = self.replies().page(&caller.client);
        let limit = page.limit.min(bytes_max / NAMESPACE_BYTES_MAX).max(1);
        let list = CursorKind::Namespaces.into();
        let after = self.cipher.after(page.after, &list)?;
        let reach = caller.namespaces.clone();
        let default_documents = reach.admits(None).then(|| self.engine.documents_in(None));
        let admits = move |name: &str| reach.admits(Some(name));
        let page = self.engine_for(caller).namespaces(after, limit, admits).await?;
        let next = page.next.map(|next| self.cipher.encrypt(&list, next));
        Ok((ListedPage { page, next, share }, default_documents))
    }

    /// A page of the documents that were named as originals.
    ///
    /// # Errors
    /// The cursor is not that of another page of this list, or a record cannot be read.
    pub async fn originals(
        &self,
        caller: &Caller,
        (namespaces, order): (NamespaceFilter, OriginalsOrder),
        (page, parts): (PageRequest<'_>, SelectionParts),
    ) -> Result<ListedPage<Page<Original, ListPlace>>, Refusal> {
        let by = match order {
            OriginalsOrder::Duplicates => "duplicates",
            OriginalsOrder::Recent => "recent",
        };
        let list = Purpose::from(CursorKind::Originals).of_namespaces(&namespaces).with(Some(by));
        let after: Option<u128> =
            page.after.map(|after| self.cipher.after(Some(after), &list)).transpose()?;
        let (bytes_max, share) = self.replies().page(&caller.client);
        let query = OriginalsQuery { reach: namespaces, order, after: after.map(place) };
        let options = parts.page(page.limit, bytes_max);
        let page = self.engine_for(caller).originals(query, options).await?;
        let next = page.next.map(|place| self.cipher.encrypt(&list, value(place)));
        Ok(ListedPage { page, next, share })
    }
}

impl SelectionParts {
    /// The options of a page of at most `bytes_max` bytes.
    const fn page(self, limit: usize, bytes_max: usize) -> PageOptions {
        PageOptions { limit, bytes_max, with_metadata: self.metadata }
    }
}

impl DocumentLines {
    /// The next lines; empty at the end.
    ///
    /// # Errors
    /// A record cannot be read.
    pub async fn next(&mut self) -> Result<Bytes, Refusal> {
        let options = self.showing.parts.page(PIECE_DOCUMENTS, PIECE_BYTES);
        let read = self.documents.next_piece(options).await?;
        let mut lines = Vec::with_capacity(PIECE_BYTES);
        for stored in &read {
            let line = answers::listed(stored, &self.showing);
            serde_json::to_writer(&mut lines, &line).expect("answers are JSON");
            lines.push(b'\n');
        }
        Ok(lines.into())
    }
}

/// The place of a value.
const fn place(value: u128) -> ListPlace {
    ((value >> u64::BITS) as u32, Sequence::new(value as u64))
}

/// A place as one value.
fn value((number, sequence): ListPlace) -> u128 {
    u128::from(number) << u64::BITS | u128::from(sequence.get())
}
