//! The requests for what is stored: lists and their pages, purges, groups, and the parameters that
//! name a document, a namespace or a job.

use std::ops::RangeInclusive;

use axum::http::Uri;
use nearprint_engine::document::{DocumentId, Namespace, Sequence};
use nearprint_engine::{GroupsRequest, ListQuery, PageOptions, Purge};
use percent_encoding::percent_decode_str;
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};
use utoipa::{IntoParams, ToSchema};

use crate::http::options::RequestDefaults;
use crate::http::problem::Problem;
use crate::http::request::document_fields::{DocumentPart, HitPart, Include, NamespaceIn};
use crate::http::request::prepare;
use crate::http::request::reach::NamespaceAccess;
use crate::http::request::types::{RequestOptions, query_parameters};
use crate::http::request::values::{Borrowed, Field, IdValue, given, given_parameter};

/// How many items a page has.
const LIMIT: RangeInclusive<u64> = 1..=1_000;

/// How many items a page has if the request does not say.
const LIMIT_DEFAULT: u64 = 100;

/// `stored_before`, in seconds since 1970.
const STORED_BEFORE: RangeInclusive<u64> = 1..=u32::MAX as u64;

/// Where a page begins: behind the last item of the page before. Opaque to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ToSchema)]
#[schema(value_type = String)]
pub(crate) struct Cursor(pub(crate) u64);

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Borrowed::deserialize(deserializer)?.0;
        let cursor = text.parse().map(Self);
        cursor.map_err(|_| D::Error::custom("after takes the `next` of another page."))
    }
}

/// The beginning of ids.
#[derive(Debug, Clone)]
pub(crate) struct PrefixIn(Box<str>);

impl<'de> Deserialize<'de> for PrefixIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Borrowed::deserialize(deserializer)?.0;
        if (1..=DocumentId::BYTES_MAX).contains(&text.len()) {
            return Ok(Self(text.into()));
        }
        let (max, bytes) = (DocumentId::BYTES_MAX, text.len());
        Err(D::Error::custom(format!("prefix must have 1 to {max} bytes of UTF-8, not {bytes}.")))
    }
}

impl Field<'_> for PrefixIn {}

query_parameters! {
    /// The namespace of a document or a fingerprint.
    NamespaceParameter {
        /// The namespace; without it, the default namespace.
        namespace: NamespaceIn [value_type = Option<String>, min_length = 1, max_length = 256],
    }
}

query_parameters! {
    /// The query parameters that name a document.
    IdParameters {
        /// The id.
        id: IdValue [value_type = String],
        /// Its namespace; without it, the default namespace.
        namespace: NamespaceIn [value_type = Option<String>, min_length = 1, max_length = 256],
    }
}

query_parameters! {
    /// The query parameters that choose documents.
    ListParameters {
        /// The id of one document. With it, only `namespace` may be given.
        id: IdValue [value_type = Option<String>, min_length = 1, max_length = 2048],
        /// The namespace; without it, the default namespace.
        namespace: NamespaceIn [value_type = Option<String>, min_length = 1, max_length = 256],
        /// `true` lists the documents of all namespaces.
        all_namespaces: bool [value_type = Option<bool>],
        /// Only documents whose ids begin so.
        prefix: PrefixIn [value_type = Option<String>, min_length = 1, max_length = 2048],
        /// The `next` of the page before.
        after: Cursor [value_type = Option<String>],
        /// How many documents a page has; the default is 100.
        limit: u64 [value_type = Option<u16>, minimum = 1, maximum = 1000],
        /// What is shown in addition: `metadata`, `sketch`, or both with a comma between them.
        include: Include<DocumentPart> [value_type = Option<Vec<DocumentPart>>, explode = false, inline],
    }
}

query_parameters! {
    /// The query parameters of the documents of a fingerprint.
    FingerprintPageParameters {
        /// The namespace; without it, the default namespace.
        namespace: NamespaceIn [value_type = Option<String>, min_length = 1, max_length = 256],
        /// The `next` of the page before.
        after: Cursor [value_type = Option<String>],
        /// How many documents a page has; the default is 100.
        limit: u64 [value_type = Option<u16>, minimum = 1, maximum = 1000],
        /// What is shown in addition: `metadata`, `sketch`, or both with a comma between them.
        include: Include<DocumentPart> [value_type = Option<Vec<DocumentPart>>, explode = false, inline],
    }
}

query_parameters! {
    /// The query parameters of a page.
    PageParameters {
        /// The `next` of the page before.
        after: Cursor [value_type = Option<String>],
        /// How many items a page has; the default is 100.
        limit: u64 [value_type = Option<u16>, minimum = 1, maximum = 1000],
    }
}

/// What documents show in a list in addition.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SelectionParts {
    pub(crate) metadata: bool,
    pub(crate) sketch: bool,
}

impl SelectionParts {
    pub(crate) fn of(include: Option<&Include<DocumentPart>>) -> Self {
        let has = |part| include.is_some_and(|include| include.has(&part));
        Self { metadata: has(DocumentPart::Metadata), sketch: has(DocumentPart::Sketch) }
    }

    /// The options of a page of at most `bytes_max` bytes.
    pub(crate) const fn page(self, limit: usize, bytes_max: usize) -> PageOptions {
        PageOptions { limit, bytes_max, with_metadata: self.metadata }
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

/// The cursor of a page as the change that it stands for.
pub(crate) fn sequence_of(after: Option<Cursor>) -> Sequence {
    Sequence::new(after.map_or(0, |cursor| cursor.0))
}

/// A namespace as a request names it.
pub(crate) fn named(namespace: Option<NamespaceIn>) -> Option<Namespace> {
    namespace.map(|namespace| namespace.0)
}

impl ListParameters {
    /// The first parameter that chooses documents by something other than their id.
    pub(crate) fn chooses_many(&self) -> Option<&'static str> {
        let given = [
            ("all_namespaces", self.all_namespaces.is_some()),
            ("prefix", self.prefix.is_some()),
            ("after", self.after.is_some()),
            ("limit", self.limit.is_some()),
            ("include", self.include.is_some()),
        ];
        given.into_iter().find_map(|(name, is_given)| is_given.then_some(name))
    }

    /// The documents that it chooses, if the request may reach them.
    pub(crate) fn query(&self, reach: &NamespaceAccess) -> Result<ListQuery, Problem> {
        let namespaces = namespaces(self.namespace.clone(), self.all_namespaces, reach)?;
        let prefix = self.prefix.clone().map(|prefix| prefix.0);
        Ok(ListQuery { reach: namespaces, prefix, after: sequence_of(self.after) })
    }
}

/// The namespaces that a request chooses, if it may reach them.
pub(crate) fn namespaces(
    namespace: Option<NamespaceIn>,
    all: Option<bool>,
    reach: &NamespaceAccess,
) -> Result<nearprint_engine::NamespaceFilter, Problem> {
    let namespace = named(namespace);
    if all != Some(true) {
        reach.check(namespace.as_ref().map(Namespace::as_str))?;
        return Ok(nearprint_engine::NamespaceFilter::Namespace(namespace));
    }
    if namespace.is_some() {
        let detail = "A request names either a namespace or all_namespaces, not both.";
        return Err(Problem::invalid("all_namespaces", detail));
    }
    reach.check_all()?;
    Ok(nearprint_engine::NamespaceFilter::All)
}

/// Which documents to remove.
///
/// At least one of `namespace`, `all_namespaces`, `prefix`, `stored_before`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PurgeRequest {
    /// The documents of this namespace; without it, those of the default namespace.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 256, nullable = false)]
    namespace: Option<NamespaceIn>,
    /// `true`: the documents of all namespaces.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    all_namespaces: Option<bool>,
    /// Only those whose ids begin so.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 2048, nullable = false)]
    prefix: Option<PrefixIn>,
    /// Only those that were stored before this time, in seconds since 1970.
    #[serde(default, deserialize_with = "given")]
    #[schema(minimum = 1, maximum = 4_294_967_295_u32, nullable = false)]
    stored_before: Option<u64>,
    /// `true` counts the documents and removes none.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    dry_run: Option<bool>,
}

impl PurgeRequest {
    /// What it removes, if the request may reach it.
    pub(crate) fn purge(self, reach: &NamespaceAccess) -> Result<Purge, Problem> {
        let Self { namespace, all_namespaces, prefix, stored_before, dry_run } = self;
        let names_something = namespace.is_some()
            || all_namespaces == Some(true)
            || prefix.is_some()
            || stored_before.is_some();
        if !names_something {
            let detail = "The request would remove every document of the default namespace. Say \
                          which documents to remove: namespace, all_namespaces, prefix or \
                          stored_before.";
            return Err(Problem::new(crate::http::problem::Code::InvalidValue, detail));
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

/// Which groups to find. `{}` finds those of the default namespace.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupsBody {
    /// The largest distance of two near-duplicates; the default is that of look-ups.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u8>, minimum = 0, maximum = 8, nullable = false)]
    distance: Option<u64>,
    /// The similarity that confirms a pair; 0 switches verification off. The default is that of
    /// look-ups.
    #[serde(default, deserialize_with = "given")]
    #[schema(minimum = 0, maximum = 1, nullable = false)]
    min_similarity: Option<f64>,
    /// `false` switches verification off, as `min_similarity` 0 does.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    verified: Option<bool>,
    /// The namespace; without it, the default namespace.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 256, nullable = false)]
    namespace: Option<NamespaceIn>,
    /// `true`: the documents of all namespaces. A group has documents of one.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    all_namespaces: Option<bool>,
    /// The smallest number of documents of a group; the default is 2.
    #[serde(default, deserialize_with = "given")]
    #[schema(minimum = 1, maximum = 4_294_967_295_u32, nullable = false)]
    size_min: Option<u64>,
}

impl GroupsBody {
    /// What it finds, if the request may reach it.
    pub(crate) fn request(
        self,
        defaults: &RequestDefaults,
        reach: &NamespaceAccess,
    ) -> Result<GroupsRequest, Problem> {
        let Self { distance, min_similarity, verified, namespace, all_namespaces, size_min } = self;
        let min_similarity = match (verified, min_similarity) {
            (Some(false), Some(_)) => {
                let detail = "With verified false there is no min_similarity.";
                return Err(Problem::invalid("verified", detail));
            }
            (Some(false), None) => Some(0.0),
            (Some(true) | None, given) => given,
        };
        let options = RequestOptions { distance, min_similarity, ..RequestOptions::default() };
        let criteria = prepare::query_options(&options, true, defaults)?.criteria;
        let size_min = size_min.unwrap_or(2);
        let checked = u32::try_from(size_min).ok().filter(|size| *size > 0);
        let size_min = checked.ok_or_else(|| {
            let detail = format!("size_min is {size_min}; it takes 1 to {}.", u32::MAX);
            Problem::invalid("size_min", detail)
        })?;
        let reach = namespaces(namespace, all_namespaces, reach)?;
        Ok(GroupsRequest { reach, criteria, size_min })
    }
}

query_parameters! {
    /// The query parameters of a page of groups, or of the documents of one.
    GroupsPageParameters {
        /// The `next` of the page before.
        after: Cursor [value_type = Option<String>],
        /// How many items a page has; the default is 100.
        limit: u64 [value_type = Option<u16>, minimum = 1, maximum = 1000],
        /// `metadata` shows that of the documents.
        include: Include<HitPart> [value_type = Option<HitPart>],
    }
}

/// The order of a list of originals.
#[derive(Debug, Clone, Copy, ToSchema)]
#[schema(rename_all = "snake_case")]
pub(crate) enum Order {
    /// The most duplicates first.
    Duplicates,
    /// The last duplicate first.
    Recent,
}

impl<'de> Deserialize<'de> for Order {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Borrowed::deserialize(deserializer)?.0;
        match &*text {
            "duplicates" => Ok(Self::Duplicates),
            "recent" => Ok(Self::Recent),
            _ => Err(D::Error::custom("order takes duplicates or recent.")),
        }
    }
}

impl Field<'_> for Order {}

/// Where a page begins. Opaque to clients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlaceIn(pub(crate) u32, pub(crate) Sequence);

impl<'de> Deserialize<'de> for PlaceIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Borrowed::deserialize(deserializer)?.0;
        let parsed = text.split_once('.').and_then(|(number, sequence)| {
            Some(Self(number.parse().ok()?, Sequence::new(sequence.parse().ok()?)))
        });
        parsed.ok_or_else(|| D::Error::custom("after takes the `next` of another page."))
    }
}

impl Field<'_> for PlaceIn {}

query_parameters! {
    /// The query parameters of a list of originals.
    OriginalsParameters {
        /// The order; the default is `duplicates`.
        order: Order [value_type = Option<Order>, inline],
        /// The namespace; without it, the default namespace.
        namespace: NamespaceIn [value_type = Option<String>, min_length = 1, max_length = 256],
        /// `true` lists the documents of all namespaces.
        all_namespaces: bool [value_type = Option<bool>],
        /// The `next` of the page before.
        after: PlaceIn [value_type = Option<String>],
        /// How many documents a page has; the default is 100.
        limit: u64 [value_type = Option<u16>, minimum = 1, maximum = 1000],
        /// `metadata` shows that of the documents.
        include: Include<HitPart> [value_type = Option<HitPart>],
    }
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
