//! The requests: one type each, from which their JSON, their query parameters and the OpenAPI
//! document are derived.
//!
//! `request!` declares a document with the options of its route: the type of the JSON body, and
//! those of the query parameters of a single request and of a batch. It is a macro because serde
//! can flatten a struct into one that refuses unknown fields only with a copy of the whole body.

use std::borrow::Cow;

use nearprint_engine::document::Namespace;
use nearprint_fingerprint::Fingerprint;
use nearprint_text::Wanted;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::http::problem::Problem;
use crate::http::request::document_fields::{
    HitPart, IdIn, IdSource, Include, MetadataIn, NamespaceIn,
};
use crate::http::request::json::{self, Object};
use crate::http::request::parameters;
use crate::http::request::values::{
    Borrowed, ExtractChoice, FeaturesIn, FingerprintIn, IdValue, OnDuplicateChoice, SearchChoice,
    Text, VectorIn, given, given_parameter,
};

/// Declares the options that any request may have.
macro_rules! options {
    ($($field:ident: $type:ty,)*) => {
        /// The options of a request as written. [`crate::http::request::prepare`] checks their
        /// ranges against the configuration.
        #[derive(Debug, Clone, Default)]
        pub(crate) struct RequestOptions {
            $(pub(crate) $field: Option<$type>,)*
        }

        impl RequestOptions {
            /// These options; those that are missing come from `other`.
            pub(crate) fn or(self, other: Self) -> Self {
                Self { $($field: self.$field.or(other.$field),)* }
            }

            /// The first option that both have.
            pub(crate) fn given_in_both(&self, other: &Self) -> Option<&'static str> {
                $(if self.$field.is_some() && other.$field.is_some() {
                    return Some(stringify!($field));
                })*
                None
            }
        }
    };
}

options! {
    distance: u64,
    limit: u64,
    min_similarity: f64,
    search: SearchChoice,
    counts: bool,
    on_duplicate: OnDuplicateChoice,
    extract: ExtractChoice,
    explain: bool,
    namespace: NamespaceIn,
    max_age: u64,
    expires_in: u64,
    expires_at: u64,
    metadata: MetadataIn,
    include: Include<HitPart>,
    id_from: IdSource,
    touch: bool,
}

impl RequestOptions {
    /// These options of a line; those that are missing come from the query parameters of its batch.
    /// An expiry of the line takes the place of that of the batch, whichever way either is given.
    pub(crate) fn or_of_batch(self, batch: &Self) -> Self {
        let mut batch = batch.clone();
        if self.expires_in.is_some() || self.expires_at.is_some() {
            (batch.expires_in, batch.expires_at) = (None, None);
        }
        self.or(batch)
    }

    pub(crate) fn namespace(&self) -> Option<&Namespace> {
        self.namespace.as_ref().map(|namespace| &namespace.0)
    }
}

/// The fields of a document of any request.
#[derive(Debug)]
pub(crate) struct RequestFields<'a> {
    pub(crate) text: Option<Cow<'a, str>>,
    pub(crate) html: Option<Cow<'a, str>>,
    pub(crate) features: Option<Vec<(Cow<'a, str>, f64)>>,
    pub(crate) vector: Option<Vec<f32>>,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) recipe: Option<Cow<'a, str>>,
    pub(crate) id: Option<IdIn>,
    pub(crate) options: RequestOptions,
}

impl RequestFields<'_> {
    /// Whether the text is a copy, because it has escapes, instead of a part of the body.
    pub(crate) fn is_a_copy(&self) -> bool {
        let is_part = |text: &Option<Cow<'_, str>>| matches!(text, Some(Cow::Borrowed(_)));
        !is_part(&self.text) && !is_part(&self.html) && self.features.is_none()
    }

    /// The fields without the body and without features.
    pub(crate) fn into_copy(self) -> RequestFields<'static> {
        let owned = |text: Option<Cow<'_, str>>| text.map(|text| text.into_owned().into());
        RequestFields {
            text: owned(self.text),
            html: owned(self.html),
            features: None,
            recipe: owned(self.recipe),
            ..self
        }
    }
}

/// The query parameters of a request for one document.
#[derive(Debug, Default)]
pub(crate) struct Parameters {
    pub(crate) id: Option<IdIn>,
    pub(crate) options: RequestOptions,
}

/// How a request for documents is read, whatever its type.
#[derive(Debug)]
pub(crate) struct RequestKind {
    pub(crate) body: for<'a> fn(&'a [u8]) -> Result<RequestFields<'a>, Problem>,
    pub(crate) parameters: fn(Option<&str>) -> Result<Parameters, Problem>,
    /// Reads the query parameters of a batch, which are the defaults of its lines.
    pub(crate) batch_parameters: fn(Option<&str>) -> Result<RequestOptions, Problem>,
    pub(crate) needs: Needs,
}

/// What a request of a kind needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    /// What an analysis computes in addition to the fingerprint.
    pub(crate) analysis: Wanted,
    /// Whether it wants all hits, unless it says so itself.
    pub(crate) all_hits: bool,
}

impl Needs {
    /// Those of a look-up.
    pub(crate) const QUERY: Self = Self { analysis: Wanted::STORED, all_hits: true };

    /// Those of a write: the verdict.
    pub(crate) const WRITE: Self = Self { analysis: Wanted::STORED, all_hits: false };
}

/// Declares the query parameters of a request. The brackets contain what OpenAPI says about one.
macro_rules! query_parameters {
    (
        $(#[$doc:meta])*
        $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty [$($schema:tt)+],)* }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Deserialize, IntoParams)]
        #[serde(deny_unknown_fields)]
        #[into_params(parameter_in = Query)]
        pub(crate) struct $name {
            $(
                $(#[$field_doc])*
                #[serde(default, deserialize_with = "given_parameter")]
                #[param($($schema)+)]
                pub(crate) $field: Option<$type>,
            )*
        }
    };
}

pub(crate) use query_parameters;

/// Declares the JSON of a document with its options. The brackets contain what OpenAPI says about an
/// option in addition to its type.
macro_rules! document {
    (
        $(#[$doc:meta])*
        $body:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty [$($schema:tt)*],)* }
    ) => {
        $(#[$doc])*
        ///
        /// Exactly one of `text`, `html`, `features`, `vector`, `fingerprint`.
        #[derive(Debug, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $body<'a> {
            /// Plain text.
            #[serde(borrow, default, deserialize_with = "given")]
            #[schema(value_type = Option<String>, nullable = false)]
            text: Option<Text<'a>>,
            /// A page of HTML.
            #[serde(borrow, default, deserialize_with = "given")]
            #[schema(value_type = Option<String>, nullable = false)]
            html: Option<Text<'a>>,
            #[serde(borrow, default, deserialize_with = "given")]
            #[schema(nullable = false)]
            features: Option<FeaturesIn<'a>>,
            #[serde(default, deserialize_with = "given")]
            #[schema(nullable = false)]
            vector: Option<VectorIn>,
            #[serde(default, deserialize_with = "given")]
            #[schema(nullable = false)]
            fingerprint: Option<FingerprintIn>,
            /// The recipe of `fingerprint`; refused (409) unless it is the service's.
            #[serde(borrow, default, deserialize_with = "given")]
            #[schema(value_type = Option<String>, nullable = false)]
            recipe: Option<Borrowed<'a>>,
            #[serde(default, deserialize_with = "given")]
            #[schema(nullable = false)]
            id: Option<IdIn>,
            /// Which text of `html` counts; the default is the service's `query.extract`.
            #[serde(default, deserialize_with = "given")]
            #[schema(nullable = false)]
            extract: Option<ExtractChoice>,
            $(
                $(#[$field_doc])*
                #[serde(default, deserialize_with = "given")]
                #[schema($($schema)* nullable = false)]
                $field: Option<$type>,
            )*
        }

        impl<'a> From<$body<'a>> for RequestFields<'a> {
            fn from(body: $body<'a>) -> Self {
                Self {
                    text: body.text.map(|text| text.0),
                    html: body.html.map(|html| html.0),
                    features: body.features.map(|features| features.0),
                    vector: body.vector.map(|vector| vector.0),
                    fingerprint: body.fingerprint.map(|fingerprint| fingerprint.0),
                    recipe: body.recipe.map(|recipe| recipe.0),
                    id: body.id,
                    options: RequestOptions {
                        extract: body.extract,
                        $($field: body.$field,)*
                        ..RequestOptions::default()
                    },
                }
            }
        }
    };
}

/// Declares a request for a document, with its options: first those that are fields and query
/// parameters, then those that are fields only, then those that are query parameters only.
macro_rules! request {
    (
        $(#[$doc:meta])*
        $kind:ident: $body:ident, $parameters:ident, $batch_parameters:ident, $needs:expr,
        { $($(#[$field_doc:meta])* $field:ident: $type:ty [$($schema:tt)*],)* }
        { $($(#[$only_doc:meta])* $only:ident: $only_type:ty [$($only_schema:tt)*],)* }
        { $($(#[$other_doc:meta])* $other:ident: $other_type:ty [$($other_schema:tt)*],)* }
    ) => {
        document! {
            $(#[$doc])*
            $body {
                $($(#[$field_doc])* $field: $type [$($schema)*],)*
                $($(#[$only_doc])* $only: $only_type [$($only_schema)*],)*
            }
        }

        query_parameters! {
            /// The query parameters of a single request.
            $parameters {
                /// The id, unless the body is JSON.
                id: IdValue [value_type = Option<String>, min_length = 1, max_length = 2048],
                /// Which text of a page of HTML counts; the default is the service's `query.extract`.
                extract: ExtractChoice [inline],
                $($(#[$field_doc])* $field: $type [$($schema)* inline],)*
                $($(#[$other_doc])* $other: $other_type [$($other_schema)* inline],)*
            }
        }

        query_parameters! {
            /// The query parameters of a batch.
            $batch_parameters {
                /// Which text of a page of HTML counts; the default is the service's `query.extract`.
                extract: ExtractChoice [inline],
                $($(#[$field_doc])* $field: $type [$($schema)* inline],)*
                $($(#[$other_doc])* $other: $other_type [$($other_schema)* inline],)*
            }
        }

        pub(crate) const $kind: RequestKind = RequestKind {
            body: |json| json::read::<$body<'_>>(json).map(RequestFields::from),
            parameters: |query| {
                let parameters: $parameters = parameters::read(query)?;
                Ok(Parameters {
                    id: parameters.id.map(|id| IdIn::Given(id.0)),
                    options: RequestOptions {
                        extract: parameters.extract,
                        $($field: parameters.$field,)*
                        $($other: parameters.$other,)*
                        ..RequestOptions::default()
                    },
                })
            },
            batch_parameters: |query| {
                let parameters: $batch_parameters = parameters::read(query)?;
                Ok(RequestOptions {
                    extract: parameters.extract,
                    $($field: parameters.$field,)*
                    $($other: parameters.$other,)*
                    ..RequestOptions::default()
                })
            },
            needs: $needs,
        };
    };
}

request! {
    /// A document to make a fingerprint of.
    FINGERPRINT: FingerprintRequest, FingerprintParameters, FingerprintBatchParameters,
    Needs { analysis: Wanted { sketch: false, features: true }, all_hits: true },
    {
        /// Adds the heaviest features and the 64 sums.
        explain: bool [],
    }
    {}
    {}
}

request! {
    /// A document to look up.
    QUERY: QueryRequest, QueryParameters, QueryBatchParameters,
    Needs::QUERY,
    {
        /// The largest Hamming distance of a hit, 0 to the configured maximum.
        distance: u64 [value_type = Option<u8>, minimum = 0, maximum = 12,],
        /// How many hits are listed.
        limit: u64 [value_type = Option<u16>, minimum = 1, maximum = 1000,],
        /// The similarity that confirms a hit; 0 switches verification off.
        min_similarity: f64 [minimum = 0, maximum = 1,],
        /// `exact` finds fingerprints within the distance and no others; `likely`, for a text, also
        /// likely ones beyond it.
        search: SearchChoice [],
        /// `false` ends the search at the first hit that counts, and lists it alone; `true` searches
        /// and verifies all. The default is true for a query and false for a check-and-insert.
        counts: bool [],
        /// Adds the heaviest features, the 64 sums, and to hits the bits that differ.
        explain: bool [],
        /// The namespace of the document; without it, the default namespace.
        namespace: NamespaceIn [value_type = Option<String>, min_length = 1, max_length = 256,],
        /// Only documents that were stored at most this many seconds ago count.
        max_age: u64 [value_type = Option<u32>, minimum = 1, maximum = 4_294_967_295_u32,],
    }
    {
        /// What hits show of their documents in addition.
        include: Include<HitPart> [value_type = Option<Vec<HitPart>>,],
    }
    {
        /// What hits show of their documents in addition.
        include: Include<HitPart> [value_type = Option<HitPart>,],
        /// Makes the id, if none is given, from the fingerprint or from the text.
        id_from: IdSource [],
    }
}

request! {
    /// A document to store.
    INSERT: InsertRequest, InsertParameters, InsertBatchParameters,
    Needs::WRITE,
    {
        /// The namespace of the document; without it, the default namespace.
        namespace: NamespaceIn [value_type = Option<String>, min_length = 1, max_length = 256,],
        /// In how many seconds the document expires.
        expires_in: u64 [minimum = 1, maximum = 3_155_760_000_u32,],
        /// When the document expires, in seconds since 1970.
        expires_at: u64 [minimum = 1, maximum = 4_294_967_295_u32,],
    }
    {
        metadata: MetadataIn [],
    }
    {
        /// Makes the id, if none is given, from the fingerprint or from the text.
        id_from: IdSource [],
    }
}

request! {
    /// A document to look up, and to store if nothing counts.
    CHECK_AND_INSERT: CheckAndInsertRequest, CheckAndInsertParameters,
    CheckAndInsertBatchParameters, Needs::WRITE,
    {
        /// The largest Hamming distance of a hit, 0 to the configured maximum.
        distance: u64 [value_type = Option<u8>, minimum = 0, maximum = 12,],
        /// How many hits are listed.
        limit: u64 [value_type = Option<u16>, minimum = 1, maximum = 1000,],
        /// The similarity that confirms a hit; 0 switches verification off.
        min_similarity: f64 [minimum = 0, maximum = 1,],
        /// `exact` finds fingerprints within the distance and no others; `likely`, for a text, also
        /// likely ones beyond it.
        search: SearchChoice [],
        /// `false` ends the search at the first hit that counts, and lists it alone; `true` searches
        /// and verifies all. The default is true for a query and false for a check-and-insert.
        counts: bool [],
        /// `insert` stores duplicates too.
        on_duplicate: OnDuplicateChoice [],
        /// `false` does not count the original of a duplicate (`GET /v1/originals`).
        touch: bool [],
        /// The namespace of the document; without it, the default namespace.
        namespace: NamespaceIn [value_type = Option<String>, min_length = 1, max_length = 256,],
        /// Only documents that were stored at most this many seconds ago count.
        max_age: u64 [value_type = Option<u32>, minimum = 1, maximum = 4_294_967_295_u32,],
        /// In how many seconds the document expires.
        expires_in: u64 [minimum = 1, maximum = 3_155_760_000_u32,],
        /// When the document expires, in seconds since 1970.
        expires_at: u64 [minimum = 1, maximum = 4_294_967_295_u32,],
    }
    {
        metadata: MetadataIn [],
        /// What hits show of their documents in addition.
        include: Include<HitPart> [value_type = Option<Vec<HitPart>>,],
    }
    {
        /// What hits show of their documents in addition.
        include: Include<HitPart> [value_type = Option<HitPart>,],
        /// Makes the id, if none is given, from the fingerprint or from the text.
        id_from: IdSource [],
    }
}

document! {
    /// A document to compare.
    ComparedDocument {}
}

/// Two documents to compare.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompareRequest<'a> {
    #[serde(borrow, default, deserialize_with = "given")]
    #[schema(value_type = ComparedDocument<'a>)]
    pub(crate) a: Option<Object<ComparedDocument<'a>>>,
    #[serde(borrow, default, deserialize_with = "given")]
    #[schema(value_type = ComparedDocument<'a>)]
    pub(crate) b: Option<Object<ComparedDocument<'a>>>,
    /// The largest distance of a duplicate.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u8>, minimum = 0, maximum = 12, nullable = false)]
    distance: Option<u64>,
    /// The similarity that makes a duplicate; 0 switches verification off.
    #[serde(default, deserialize_with = "given")]
    #[schema(minimum = 0, maximum = 1, nullable = false)]
    min_similarity: Option<f64>,
    /// Which text of `html` counts, unless the document has its own `extract`.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    extract: Option<ExtractChoice>,
    /// Adds why the documents have their fingerprints, and which features decide the bits that
    /// differ.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    explain: Option<bool>,
}

impl CompareRequest<'_> {
    pub(crate) fn options(&self) -> RequestOptions {
        RequestOptions {
            distance: self.distance,
            min_similarity: self.min_similarity,
            extract: self.extract,
            explain: self.explain,
            ..RequestOptions::default()
        }
    }
}

query_parameters! {
    /// The query parameters of `GET /v1/query`.
    GetQueryParameters {
        /// 16 hex digits, with or without `0x`.
        fingerprint: FingerprintIn [value_type = String],
        /// Refused unless it is the service's.
        recipe: String [value_type = Option<String>],
        /// The id of the document that is looked up.
        id: IdValue [value_type = Option<String>, min_length = 1, max_length = 2048],
        /// The largest Hamming distance of a hit, 0 to the configured maximum.
        distance: u64 [value_type = Option<u8>, minimum = 0, maximum = 12],
        /// How many hits are listed.
        limit: u64 [value_type = Option<u16>, minimum = 1, maximum = 1000],
        /// The similarity that confirms a hit; 0 switches verification off.
        min_similarity: f64 [minimum = 0, maximum = 1],
        /// `false` ends the search at the first hit that counts, and lists it alone.
        counts: bool [value_type = Option<bool>],
        /// Adds to hits the bits that differ.
        explain: bool [value_type = Option<bool>],
        /// The namespace to search; without it, the default namespace.
        namespace: NamespaceIn [value_type = Option<String>, min_length = 1, max_length = 256],
        /// Only documents that were stored at most this many seconds ago count.
        max_age: u64 [value_type = Option<u32>, minimum = 1, maximum = 4_294_967_295_u32],
        /// What hits show of their documents in addition.
        include: Include<HitPart> [value_type = Option<HitPart>],
    }
}

impl GetQueryParameters {
    pub(crate) fn options(&self) -> RequestOptions {
        RequestOptions {
            distance: self.distance,
            limit: self.limit,
            min_similarity: self.min_similarity,
            counts: self.counts,
            explain: self.explain,
            namespace: self.namespace.clone(),
            max_age: self.max_age,
            include: self.include.clone(),
            ..RequestOptions::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn fields(json: &str) -> Result<RequestFields<'_>, Problem> {
        (CHECK_AND_INSERT.body)(json.as_bytes())
    }

    fn report(problem: &Problem) -> Value {
        serde_json::to_value(problem.body()).unwrap()
    }

    fn bits(json: &str) -> Option<u64> {
        let json = format!("{{\"fingerprint\":{json}}}");
        fields(&json).ok()?.fingerprint.map(Fingerprint::bits)
    }

    #[test]
    fn an_error_does_not_repeat_a_long_value() {
        let long = "\u{7f}".repeat(1 << 20);
        for json in [
            format!("\"{long}\""),
            format!("{{\"{long}\":1}}"),
            format!("{{\"distance\":\"{long}\"}}"),
            format!("{{\"min_similarity\":\"{long}\"}}"),
            format!("{{\"on_duplicate\":\"{long}\"}}"),
            format!("{{\"fingerprint\":\"{long}\"}}"),
            format!("{{\"id\":\"{long}\"}}"),
            format!("{{\"id\":{{\"from\":\"{long}\"}}}}"),
            format!("{{\"id\":{{\"{long}\":1}}}}"),
            format!("{{\"namespace\":\"{long}\"}}"),
            format!("{{\"metadata\":\"{long}\"}}"),
            format!("{{\"include\":\"{long}\"}}"),
            format!("{{\"include\":[\"{long}\"]}}"),
            format!("{{\"expires_in\":\"{long}\"}}"),
            format!("{{\"features\":\"{long}\"}}"),
            format!("{{\"features\":[\"{long}\"]}}"),
            format!("{{\"features\":[[\"a\",\"{long}\"]]}}"),
            format!("{{\"features\":{{\"a\":\"{long}\"}}}}"),
            format!("{{\"vector\":\"{long}\"}}"),
            format!("{{\"vector\":[\"{long}\"]}}"),
        ] {
            let error = serde_json::from_str::<Object<CheckAndInsertRequest<'_>>>(&json);
            let message = error.unwrap_err().to_string();
            assert!(message.len() < 2_000, "{} of {:?}", message.len(), &json[..20]);
            let report = report(&fields(&json).unwrap_err());
            assert_eq!(report["field"].is_null(), json.starts_with('"'));
            let detail = report["detail"].as_str().unwrap();
            assert!(
                report["code"] != "unknown_field"
                    || detail.contains("on_duplicate")
                    || detail.contains("takes from"),
                "{detail}"
            );
            let report = report.to_string();
            assert!(report.len() < 1_000, "{}", &report[..200]);
        }
    }

    #[test]
    fn a_fingerprint_comes_as_hex_or_as_a_signed_or_unsigned_integer() {
        assert_eq!(bits("\"ffffffffffffffff\""), Some(u64::MAX));
        assert_eq!(bits("\"0x00000000000000aB\""), Some(0xab));
        assert_eq!(bits("18446744073709551615"), Some(u64::MAX));
        assert_eq!(bits("9007199254740993"), Some((1 << 53) + 1));
        assert_eq!(bits("-1"), Some(u64::MAX));
        assert_eq!(bits("-9223372036854775808"), Some(1 << 63));
        assert_eq!(bits("0"), Some(0));
    }

    #[test]
    fn any_other_fingerprint_is_an_error_that_names_the_field() {
        for json in [
            "1.0",
            "1e3",
            "18446744073709551616",
            "-9223372036854775809",
            "\"ab\"",
            "null",
            "true",
            "[]",
            "{}",
            "1e999",
        ] {
            let json = format!("{{\"fingerprint\":{json}}}");
            let body = report(&fields(&json).unwrap_err());
            assert_eq!(body["code"], "invalid_value", "{json} {body}");
            assert_eq!(body["field"], "fingerprint", "{json} {body}");
        }
    }

    #[test]
    fn text_without_an_escape_is_borrowed() {
        let text = |json| fields(json).unwrap().text;
        assert!(matches!(text(r#"{"text":"plain"}"#), Some(Cow::Borrowed("plain"))));
        assert!(matches!(text(r#"{"text":"a\n"}"#), Some(Cow::Owned(_))));
        let recipe = fields(r#"{"recipe":"np2"}"#).unwrap().recipe;
        assert!(matches!(recipe, Some(Cow::Borrowed("np2"))));
    }

    #[test]
    fn a_report_has_the_code_the_field_and_what_is_wrong() {
        let takes = "text, html, features, vector, fingerprint, recipe, id, extract, distance, limit, \
                     min_similarity, search, counts, on_duplicate, touch, namespace, max_age, expires_in, \
                     expires_at, metadata, include";
        let pair = "a pair [\"token\", weight]";
        for (json, code, field, detail) in [
            (
                r#"{"treshold":1}"#,
                "unknown_field",
                "treshold",
                &*format!("this request takes {takes}"),
            ),
            (r#"{"id":"a","id":"b"}"#, "repeated_field", "id", "the field is there twice"),
            (r#"{"text":1}"#, "invalid_value", "text", "invalid type: number, expected a string"),
            (r#"{"limit":1e999}"#, "invalid_value", "limit", "number out of range"),
            (
                r#"{"extract":"all"}"#,
                "invalid_value",
                "extract",
                "unknown variant `all`, expected one of `content`, `visible`, `main`",
            ),
            (
                r#"{"features":[["a",1,2]]}"#,
                "invalid_value",
                "features",
                &*format!("invalid length 3, expected {pair}"),
            ),
        ] {
            let body = report(&fields(json).unwrap_err());
            assert_eq!(
                (&body["code"], &body["field"]),
                (&code.into(), &field.into()),
                "{json} {body}"
            );
            let found = body["detail"].as_str().unwrap();
            assert!(found.starts_with(&format!("{detail} (column ")), "{json} {body}");
        }
        for json in
            ["{", "nonsense", r#"{"text":"\ud800"}"#, r#"{"text":"x"} x"#, r#"{"text":"\x"}"#]
        {
            let body = report(&fields(json).unwrap_err());
            assert_eq!((&body["code"], &body["field"]), (&"malformed_json".into(), &Value::Null));
        }
    }

    #[test]
    fn an_array_is_no_request() {
        let body = report(&fields(r#"["some text"]"#).unwrap_err());
        assert_eq!(body["detail"], "invalid type: sequence, expected a JSON object (column 1)");
        let nested = json::read::<CompareRequest<'_>>(br#"{"a":["x"]}"#).unwrap_err();
        assert_eq!(report(&nested)["field"], "a");
    }

    #[test]
    fn a_long_value_leaves_space_for_what_was_expected() {
        let json = format!("{{\"extract\":\"{}\"}}", "y".repeat(10_000));
        let body = report(&fields(&json).unwrap_err());
        let detail = body["detail"].as_str().unwrap();
        assert!(
            detail.contains("expected one of `content`, `visible`, `main`") && detail.len() < 200,
            "{detail}"
        );
    }

    #[test]
    fn a_comparison_names_the_inner_field() {
        let field = |json: &str| {
            report(&json::read::<CompareRequest<'_>>(json.as_bytes()).unwrap_err())["field"].clone()
        };
        assert_eq!(field(r#"{"a":{"text":"x"},"b":{"fingerprint":1.5}}"#), "b.fingerprint");
        assert_eq!(field(r#"{"a":{"text":"x","text":"y"}}"#), "a.text");
        assert_eq!(field(r#"{"a":{"limit":1}}"#), "a.limit");
        assert_eq!(field(r#"{"c":1}"#), "c");
    }

    #[test]
    fn query_parameters_are_reported_like_fields() {
        let report = |query| report(&(QUERY.parameters)(Some(query)).unwrap_err());
        let limit = report("limit=x");
        assert_eq!((&limit["code"], &limit["field"]), (&"invalid_value".into(), &"limit".into()));
        assert_eq!(limit["detail"], "limit takes a whole number of 0 or more.");
        assert_eq!(report("limit=1&limit=2")["code"], "repeated_field");
        let unknown = report("treshold=1");
        assert_eq!(unknown["field"], "treshold");
        let known = "id, extract, distance, limit, min_similarity, search, counts, explain, namespace, \
                     max_age, include, id_from";
        let detail = format!("This request takes the query parameters {known}.");
        assert_eq!(unknown["detail"], detail);
        let given = (QUERY.parameters)(Some("id=a+b%21&explain=true&extract=main")).unwrap();
        assert!(matches!(given.id, Some(IdIn::Given(id)) if id.as_str() == "a b!"));
        assert_eq!(given.options.explain, Some(true));
    }
}
