//! The requests for what is stored: lists and their pages, purges, groups, and the parameters that
//! name a document, a namespace or a job.

use std::ops::RangeInclusive;

use axum::http::Uri;
use nearprint_engine::document::{DocumentId, Namespace};
use nearprint_engine::{GroupsRequest, NamespaceFilter, OriginalsOrder, Purge};
use nearprint_fingerprint::Distance;
use nearprint_machine::query::SearchKind;
use nearprint_service::{AllowedNamespaces, PageRequest, Selected, Service, answers};
use nearprint_wire::fields;
use nearprint_wire::offer::{Fault, FieldKind, FieldValue, HitParts, OfferOptions, Value};
use percent_encoding::percent_decode_str;

use crate::http::problem::{Code, Problem};
use crate::http::request::schema::describe;

/// How many items a page has.
const LIMIT: RangeInclusive<u64> = 1..=1_000;

/// How many items a page has if the request does not say.
const LIMIT_DEFAULT: u64 = 100;

/// What a cursor and the name of a job look like, as a regular expression.
const CURSOR_FORM: &str = "^[0-9a-f]{32}$";

/// What a cursor is, in words for the client.
const CURSOR: &str = "the `next` of another page of this list";

/// The number of a group in a path.
const NUMBER: FieldKind = FieldKind::Whole(0, i64::MAX as u64);

/// `stored_before`, in seconds since 1970.
const STORED_BEFORE: RangeInclusive<u64> = 1..=u32::MAX as u64;

/// Where a page begins: after the last item of the page before. Opaque to clients.
#[derive(Debug, Clone)]
pub(crate) struct Cursor(Box<str>);

impl FieldValue<'_> for Cursor {
    fn read(value: Value<'_>) -> Result<Self, Fault> {
        Ok(Self(value.string(CURSOR)?.into()))
    }
}

impl Cursor {
    /// As it came.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// The beginning of ids.
#[derive(Debug, Clone)]
pub(crate) struct IdPrefix(Box<str>);

impl FieldValue<'_> for IdPrefix {
    fn read(value: Value<'_>) -> Result<Self, Fault> {
        let text = value.string("a string")?;
        if (1..=DocumentId::BYTES_MAX).contains(&text.len()) {
            return Ok(Self(text.into()));
        }
        let (max, bytes) = (DocumentId::BYTES_MAX, text.len());
        Err(Fault::value(format!("prefix must have 1 to {max} bytes of UTF-8, not {bytes}.")))
    }
}

fields! {
    /// The namespace of a document or a fingerprint.
    pub(crate) struct NamespaceParameter {
        /// The namespace; without it, the default namespace.
        namespace: Namespace [FieldKind::NAMESPACE],
    }
}

fields! {
    /// A document by its name.
    pub(crate) struct NamedDocument {
        /// The id.
        id: DocumentId [FieldKind::Id],
        /// Its namespace; without it, that of the query string, else the default namespace.
        namespace: Namespace [FieldKind::NAMESPACE],
    }
}

fields! {
    /// The query parameters that choose documents.
    pub(crate) struct ListParameters {
        /// The namespace; without it, the default namespace.
        namespace: Namespace [FieldKind::NAMESPACE],
        /// `true` lists the documents of all namespaces.
        all_namespaces: bool [FieldKind::Boolean],
        /// Only documents whose ids begin so.
        prefix: IdPrefix [FieldKind::Text(1, DocumentId::BYTES_MAX)],
        /// The `next` of the page before.
        after: Cursor [FieldKind::Form(CURSOR_FORM)],
        /// How many documents a page has; the default is 100.
        limit: u64 [FieldKind::Whole(1, 1_000)],
        /// What is shown in addition: `metadata`, `sketch`, or both with a comma between them.
        include: ShownParts [FieldKind::Names(&["metadata", "sketch"])],
    }
}

fields! {
    /// The query parameters of the documents of a fingerprint.
    pub(crate) struct FingerprintPageParameters {
        /// The namespace; without it, the default namespace.
        namespace: Namespace [FieldKind::NAMESPACE],
        /// The `next` of the page before.
        after: Cursor [FieldKind::Form(CURSOR_FORM)],
        /// How many documents a page has; the default is 100.
        limit: u64 [FieldKind::Whole(1, 1_000)],
        /// What is shown in addition: `metadata`, `sketch`, or both with a comma between them.
        include: ShownParts [FieldKind::Names(&["metadata", "sketch"])],
    }
}

fields! {
    /// The query parameters of a page.
    pub(crate) struct PageParameters {
        /// The `next` of the page before.
        after: Cursor [FieldKind::Form(CURSOR_FORM)],
        /// How many items a page has; the default is 100.
        limit: u64 [FieldKind::Whole(1, 1_000)],
    }
}

fields! {
    /// The query parameters of a list of jobs.
    pub(crate) struct JobsParameters {
        /// The `next` of the page before.
        after: Cursor [FieldKind::Form(CURSOR_FORM)],
        /// How many jobs a page has; without it, all.
        limit: u64 [FieldKind::Whole(1, 1_000)],
    }
}

/// What documents show in a list in addition.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ShownParts(pub(crate) answers::SelectionParts);

impl FieldValue<'_> for ShownParts {
    fn read(value: Value<'_>) -> Result<Self, Fault> {
        let mut parts = Self::default();
        let takes = "metadata, sketch, or both";
        value.names(takes, &mut |name| {
            let choices = [("metadata", true), ("sketch", false)];
            if Value::Parameter(name).choice(takes, &choices)? {
                parts.0.metadata = true;
            } else {
                parts.0.sketch = true;
            }
            Ok(())
        })?;
        Ok(parts)
    }
}

impl From<Option<HitParts>> for ShownParts {
    fn from(parts: Option<HitParts>) -> Self {
        let metadata = parts.is_some_and(|parts| parts.metadata);
        Self(answers::SelectionParts { metadata, sketch: false })
    }
}

/// The number of items of a page.
pub(crate) fn page_limit(limit: Option<u64>) -> Result<usize, Problem> {
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    let checked = usize::try_from(limit).ok().filter(|_| LIMIT.contains(&limit));
    checked.ok_or_else(|| {
        Problem::invalid("limit", format!("limit is {limit}; it takes 1 to {}.", LIMIT.end()))
    })
}

/// The page that a request asks for.
pub(crate) fn page_request(
    after: Option<&Cursor>,
    limit: Option<u64>,
) -> Result<PageRequest<'_>, Problem> {
    Ok(PageRequest { after: after.map(Cursor::text), limit: page_limit(limit)? })
}

impl ListParameters {
    /// The documents that it chooses, if the request may reach them.
    pub(crate) fn selected(&self, reach: &AllowedNamespaces) -> Result<Selected, Problem> {
        let namespaces = namespaces(self.namespace.clone(), self.all_namespaces, reach)?;
        Ok(Selected { namespaces, prefix: self.prefix.clone().map(|prefix| prefix.0) })
    }

    /// The page that it asks for.
    pub(crate) fn page(&self) -> Result<PageRequest<'_>, Problem> {
        page_request(self.after.as_ref(), self.limit)
    }
}

/// The namespaces that a request chooses, if it may reach them.
pub(crate) fn namespaces(
    namespace: Option<Namespace>,
    all: Option<bool>,
    reach: &AllowedNamespaces,
) -> Result<NamespaceFilter, Problem> {
    if all != Some(true) {
        reach.check(namespace.as_ref().map(Namespace::as_str))?;
        return Ok(NamespaceFilter::Namespace(namespace));
    }
    if namespace.is_some() {
        let detail = "A request names either a namespace or all_namespaces, not both.";
        return Err(Problem::invalid("all_namespaces", detail));
    }
    reach.check_all()?;
    Ok(NamespaceFilter::All)
}

fields! {
    /// Which documents to remove.
    ///
    /// At least one of `namespace`, `all_namespaces`, `prefix`, `stored_before`.
    pub(crate) struct PurgeRequest {
        /// The documents of this namespace; without it, those of the default namespace.
        namespace: Namespace [FieldKind::NAMESPACE],
        /// `true`: the documents of all namespaces.
        all_namespaces: bool [FieldKind::Boolean],
        /// Only those whose ids begin so.
        prefix: IdPrefix [FieldKind::Text(1, DocumentId::BYTES_MAX)],
        /// Only those that were stored before this time, in seconds since 1970.
        stored_before: u64 [FieldKind::Whole(1, u32::MAX as u64)],
        /// `true` counts the documents and removes none.
        dry_run: bool [FieldKind::Boolean],
    }
}

impl PurgeRequest {
    /// What it removes, if the request may reach it.
    pub(crate) fn purge(self, reach: &AllowedNamespaces) -> Result<Purge, Problem> {
        let Self { namespace, all_namespaces, prefix, stored_before, dry_run } = self;
        let names_something = namespace.is_some()
            || all_namespaces == Some(true)
            || prefix.is_some()
            || stored_before.is_some();
        if !names_something {
            let detail = "The request would remove every document of the default namespace. Say \
                          which documents to remove: namespace, all_namespaces, prefix or \
                          stored_before.";
            return Err(Problem::new(Code::InvalidValue, detail));
        }
        Ok(Purge {
            reach: namespaces(namespace, all_namespaces, reach)?,
            prefix: prefix.map(|prefix| prefix.0),
            stored_before_ms: stored_before.map(milliseconds).transpose()?,
            dry_run: dry_run == Some(true),
        })
    }
}

fn milliseconds(stored_before: u64) -> Result<u64, Problem> {
    if STORED_BEFORE.contains(&stored_before) {
        return Ok(stored_before.saturating_mul(1_000));
    }
    let detail = format!(
        "stored_before is {stored_before}; it takes whole seconds since 1970, 1 to {}.",
        STORED_BEFORE.end()
    );
    Err(Problem::invalid("stored_before", detail))
}

fields! {
    /// Which groups to find. `{}` finds those of the default namespace.
    pub(crate) struct GroupsBody {
        /// The largest distance of two near-duplicates; the default is that of look-ups.
        distance: u64 [FieldKind::Whole(0, Distance::LOOKUP_MAX.get() as u64)],
        /// The similarity that confirms a pair; 0 switches verification off. The default is that of
        /// look-ups.
        min_similarity: f64 [FieldKind::SIMILARITY],
        /// The share of their numbers that a pair must have in common, 0 to 1; 0 demands none. The
        /// default is that of look-ups.
        min_numbers: f64 [FieldKind::SIMILARITY],
        /// `false` switches verification off, as `min_similarity` 0 does.
        verified: bool [FieldKind::Boolean],
        /// `exact` joins only what is within the distance; `likely` also similar texts beyond it.
        /// The default is that of look-ups.
        search: SearchKind [FieldKind::Choice(&["likely", "exact"])],
        /// The namespace; without it, the default namespace.
        namespace: Namespace [FieldKind::NAMESPACE],
        /// `true`: the documents of all namespaces. A group has documents of one.
        all_namespaces: bool [FieldKind::Boolean],
        /// The smallest number of documents of a group; the default is 2.
        min_size: u64 [FieldKind::Whole(1, u32::MAX as u64)],
    }
}

impl GroupsBody {
    /// What it finds, if the request may reach it.
    pub(crate) fn request(
        self,
        service: &Service,
        reach: &AllowedNamespaces,
    ) -> Result<GroupsRequest, Problem> {
        let Self { distance, min_similarity, min_numbers, search, .. } = self;
        let Self { verified, namespace, all_namespaces, min_size, .. } = self;
        let min_similarity = match (verified, min_similarity.or(min_numbers)) {
            (Some(false), Some(_)) => {
                let detail = "With verified false there is neither min_similarity nor min_numbers.";
                return Err(Problem::invalid("verified", detail));
            }
            (Some(false), None) => Some(0.0),
            (Some(true) | None, _) => min_similarity,
        };
        let options = OfferOptions {
            distance,
            min_similarity,
            min_numbers,
            search,
            ..OfferOptions::default()
        };
        let namespaces = namespaces(namespace, all_namespaces, reach);
        let request = service.groups_request(&options, NamespaceFilter::All, min_size)?;
        Ok(GroupsRequest { reach: namespaces?, ..request })
    }
}

fields! {
    /// The query parameters of a page of groups, or of the documents of one.
    pub(crate) struct GroupsPageParameters {
        /// The `next` of the page before.
        after: Cursor [FieldKind::Form(CURSOR_FORM)],
        /// How many items a page has; the default is 100.
        limit: u64 [FieldKind::Whole(1, 1_000)],
        /// `metadata` shows that of the documents.
        include: HitParts [FieldKind::Names(&["metadata"])],
    }
}

impl GroupsPageParameters {
    /// The page that it asks for.
    pub(crate) fn page(&self) -> Result<PageRequest<'_>, Problem> {
        page_request(self.after.as_ref(), self.limit)
    }

    /// Whether documents show their metadata.
    pub(crate) fn with_metadata(&self) -> bool {
        self.include.is_some_and(|parts| parts.metadata)
    }
}

fields! {
    /// The query parameters of a list of originals.
    pub(crate) struct OriginalsParameters {
        /// The order; the default is `duplicates`.
        order: OriginalsOrder [FieldKind::Choice(&["duplicates", "recent"])],
        /// The namespace; without it, the default namespace.
        namespace: Namespace [FieldKind::NAMESPACE],
        /// `true` lists the documents of all namespaces.
        all_namespaces: bool [FieldKind::Boolean],
        /// The `next` of the page before.
        after: Cursor [FieldKind::Form(CURSOR_FORM)],
        /// How many documents a page has; the default is 100.
        limit: u64 [FieldKind::Whole(1, 1_000)],
        /// `metadata` shows that of the documents.
        include: HitParts [FieldKind::Names(&["metadata"])],
    }
}

describe! {
    body
    NamedDocument "A document by its name; `id` is required.",
    PurgeRequest "Which documents to remove. At least one of `namespace`, `all_namespaces`, `prefix`, \
                  `stored_before`.",
    GroupsBody "Which groups to find. `{}` finds those of the default namespace.",
}

describe! {
    path
    IdInPath "id" FieldKind::Id, "The id, percent-encoded.";
    FingerprintInPath "hex" FieldKind::Fingerprint, "16 hex digits, with or without `0x`.";
    JobInPath "job" FieldKind::Form(CURSOR_FORM), "The name of the job.";
    GroupInPath "group" NUMBER, "The number of the group.";
}

describe! {
    parameters
    NamespaceParameter,
    ListParameters,
    FingerprintPageParameters,
    PageParameters,
    GroupsPageParameters,
    JobsParameters,
    OriginalsParameters,
}

/// The last part of a path, decoded. Its field is named so in errors.
pub(crate) fn last_of_path(uri: &Uri, field: &'static str) -> Result<String, Problem> {
    // Decoded here, because axum's extractors report bad UTF-8 in a format of their own.
    let encoded = uri.path().rsplit('/').next().unwrap_or_default();
    let text = percent_decode_str(encoded)
        .decode_utf8()
        .map_err(|_| Problem::invalid(field, format!("{field} must be percent-encoded UTF-8.")))?;
    Ok(text.into_owned())
}
