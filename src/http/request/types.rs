//! The requests for documents: which of the fields and options of [`nearprint_wire::offer`] each
//! of them takes in its JSON, its query string, and the query string of a batch.

use std::borrow::Cow;

use nearprint_engine::document::DocumentId;
use nearprint_fingerprint::Fingerprint;
use nearprint_service::Needs;
use nearprint_wire::fields;
use nearprint_wire::offer::{
    DocumentFields, Fault, Field, FieldKind, FieldSet as _, FieldValue, OfferOptions, Value,
};
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::http::problem::Problem;
use crate::http::request::{json, parameters, schema};

/// The fields of a document, which every request takes in JSON.
const DOCUMENT: &[&str] =
    &["text", "html", "features", "vector", "fingerprint", "recipe", "sketch", "id", "extract"];

/// A request for documents.
#[derive(Debug)]
pub(crate) struct RequestKind {
    doc: &'static str,
    /// The options that it takes in JSON and in query strings.
    options: &'static [&'static str],
    /// Those that it takes in JSON only.
    in_json: &'static [&'static str],
    /// Those that it takes in query strings only.
    in_query: &'static [&'static str],
    pub(crate) needs: Needs,
}

pub(crate) const FINGERPRINT: RequestKind = RequestKind {
    doc: "A document to make a fingerprint of.",
    options: &["explain"],
    in_json: &[],
    in_query: &[],
    needs: Needs::FINGERPRINT,
};

pub(crate) const QUERY: RequestKind = RequestKind {
    doc: "A document to look up.",
    options: &[
        "distance",
        "limit",
        "min_similarity",
        "min_numbers",
        "search",
        "counts",
        "explain",
        "namespace",
        "max_age",
        "include",
    ],
    in_json: &[],
    in_query: &["id_from"],
    needs: Needs::QUERY,
};

pub(crate) const INSERT: RequestKind = RequestKind {
    doc: "A document to store.",
    options: &["namespace", "expires_in", "expires_at"],
    in_json: &["metadata"],
    in_query: &["id_from"],
    needs: Needs::WRITE,
};

pub(crate) const CHECK_AND_INSERT: RequestKind = RequestKind {
    doc: "A document to look up, and to store if nothing counts.",
    options: &[
        "distance",
        "limit",
        "min_similarity",
        "min_numbers",
        "search",
        "counts",
        "on_duplicate",
        "touch",
        "namespace",
        "max_age",
        "expires_in",
        "expires_at",
        "include",
    ],
    in_json: &["metadata"],
    in_query: &["id_from"],
    needs: Needs::WRITE,
};

const COMPARED: RequestKind = RequestKind {
    doc: "A document to compare; with an id and without content, the one that is stored.",
    options: &["namespace"],
    in_json: &[],
    in_query: &[],
    needs: Needs::QUERY,
};

/// What a comparison takes in addition to its two documents.
const COMPARISON: &[&str] = &["distance", "min_similarity", "min_numbers", "extract", "explain"];

/// The query parameters of `GET /v1/query`.
const GET_QUERY: &[&str] = &[
    "fingerprint",
    "recipe",
    "id",
    "distance",
    "limit",
    "min_similarity",
    "min_numbers",
    "counts",
    "explain",
    "namespace",
    "max_age",
    "include",
];

/// A document as a request has it, with its options.
#[derive(Debug, Default)]
pub(crate) struct RequestFields<'v> {
    pub(crate) document: DocumentFields<'v>,
    pub(crate) options: OfferOptions,
}

fields! {
    /// What query strings may contain in addition to options.
    pub(crate) struct NamedInQuery {
        /// 16 hex digits, with or without `0x`.
        fingerprint: Fingerprint [FieldKind::Fingerprint],
        /// The recipe of the fingerprint; refused (409) unless it is the service's.
        recipe: Box<str> [FieldKind::STRING],
        /// The id of the document, unless the body is JSON.
        id: DocumentId [FieldKind::Id],
        /// The reply begins while the body is still being sent, for clients that read and send at
        /// the same time. Plain clients and proxies such as nginx do not: they need the reply to
        /// wait for the end of the body, which is the default.
        early_reply: bool [FieldKind::Boolean],
    }
}

/// The query parameters of a request for one document, or of a batch.
#[derive(Debug, Default)]
pub(crate) struct Parameters {
    pub(crate) named: NamedInQuery,
    pub(crate) options: OfferOptions,
}

/// A document of a comparison.
#[derive(Debug)]
pub(crate) struct ComparedFields<'v>(pub(crate) RequestFields<'v>);

fields! {
    /// Two documents to compare.
    pub(crate) struct ComparedPair<'v> {
        /// A document.
        a: ComparedFields<'v> [FieldKind::Document("ComparedDocument")],
        /// What it is compared with.
        b: ComparedFields<'v> [FieldKind::Document("ComparedDocument")],
    }
}

#[derive(Debug, Default)]
pub(crate) struct Comparison<'v> {
    pub(crate) pair: ComparedPair<'v>,
    /// The options of both documents, unless a document has its own.
    pub(crate) options: OfferOptions,
}

impl RequestKind {
    fn names_in_json(&self) -> impl Iterator<Item = &'static str> + Clone {
        DOCUMENT.iter().chain(self.options).chain(self.in_json).copied()
    }

    fn options_in_query(&self) -> impl Iterator<Item = &'static str> + Clone {
        ["extract"].iter().chain(self.options).chain(self.in_query).copied()
    }

    fn names_in_batch_query(&self) -> impl Iterator<Item = &'static str> + Clone {
        self.options_in_query().chain(["early_reply"])
    }

    fn names_in_query(&self) -> impl Iterator<Item = &'static str> + Clone {
        ["id"].into_iter().chain(self.options_in_query())
    }

    /// Reads the JSON of a document.
    pub(crate) fn fields<'a>(&self, json: &'a [u8]) -> Result<RequestFields<'a>, Problem> {
        let mut fields = RequestFields::default();
        json::read_into(json, &mut |name, value| fields.set(self, name, value))?;
        Ok(fields)
    }

    /// Reads the query parameters of a request for one document.
    pub(crate) fn parameters(&self, query: Option<&str>) -> Result<Parameters, Problem> {
        Parameters::read(query, &self.names_in_query())
    }

    /// Reads the query parameters of a batch, whose options are the defaults of its lines.
    pub(crate) fn batch_parameters(&self, query: Option<&str>) -> Result<Parameters, Problem> {
        Parameters::read(query, &self.names_in_batch_query())
    }
}

impl<'v> RequestFields<'v> {
    fn set(&mut self, kind: &RequestKind, name: &str, value: Value<'v>) -> Result<(), Fault> {
        let names = kind.names_in_json();
        let (document, options) = (&mut self.document, &mut self.options);
        known(names, name, value, || document.set(name, value).or_else(|| options.set(name, value)))
    }

    /// Whether the text is a copy, because it has escapes, instead of a part of the body.
    pub(crate) fn is_a_copy(&self) -> bool {
        let is_part = |text: &Option<Cow<'_, str>>| matches!(text, Some(Cow::Borrowed(_)));
        let DocumentFields { text, html, features, .. } = &self.document;
        !is_part(text) && !is_part(html) && features.is_none()
    }

    /// The fields without the body and without features.
    pub(crate) fn into_copy(self) -> RequestFields<'static> {
        let owned = |text: Option<Cow<'_, str>>| text.map(|text| text.into_owned().into());
        let DocumentFields { text, html, vector, fingerprint, recipe, sketch, id, features: _ } =
            self.document;
        let (text, html) = (owned(text), owned(html));
        let document =
            DocumentFields { text, html, features: None, vector, fingerprint, recipe, sketch, id };
        RequestFields { document, options: self.options }
    }
}

impl Parameters {
    fn read(
        query: Option<&str>,
        names: &(impl Iterator<Item = &'static str> + Clone),
    ) -> Result<Self, Problem> {
        let Self { mut named, mut options } = Self::default();
        parameters::read_into(query, &mut |name, value| {
            known(names.clone(), name, value, || {
                named.set(name, value).or_else(|| options.set(name, value))
            })
        })?;
        Ok(Self { named, options })
    }

    /// Reads the query parameters of `GET /v1/query`.
    pub(crate) fn of_get_query(query: Option<&str>) -> Result<Self, Problem> {
        Self::read(query, &GET_QUERY.iter().copied())
    }
}

impl<'v> FieldValue<'v> for ComparedFields<'v> {
    fn read(value: Value<'v>) -> Result<Self, Fault> {
        let mut fields = RequestFields::default();
        value.object(&mut |name, value| fields.set(&COMPARED, name, value))?;
        Ok(Self(fields))
    }
}

impl<'v> Comparison<'v> {
    /// Reads the JSON of a comparison.
    pub(crate) fn read(json: &'v [u8]) -> Result<Self, Problem> {
        let Self { mut pair, mut options } = Self::default();
        let names = ["a", "b"].into_iter().chain(COMPARISON.iter().copied());
        json::read_into(json, &mut |name, value| {
            known(names.clone(), name, value, || {
                pair.set(name, value).or_else(|| options.set(name, value))
            })
        })?;
        Ok(Self { pair, options })
    }
}

/// Sets a field if it is one of these; otherwise it is unknown. Null is as good as a missing field,
/// as in replies.
fn known<'n>(
    names: impl Iterator<Item = &'n str> + Clone,
    name: &str,
    value: Value<'_>,
    set: impl FnOnce() -> Option<Result<(), Fault>>,
) -> Result<(), Fault> {
    let is_known = names.clone().any(|own| own == name);
    if is_known && value.is_null() {
        return Ok(());
    }
    let read = if is_known { set() } else { None };
    read.unwrap_or_else(|| Err(Fault::unknown(names)))
}

/// The description of a field in JSON.
fn in_json(name: &str) -> Option<&'static Field> {
    let fields = DocumentFields::FIELDS.iter().chain(OfferOptions::FIELDS);
    fields.chain(ComparedPair::FIELDS).find(|field| field.name == name)
}

/// The description of a query parameter.
fn in_query(name: &str) -> Option<&'static Field> {
    NamedInQuery::FIELDS.iter().chain(OfferOptions::FIELDS).find(|field| field.name == name)
}

/// Declares what the OpenAPI document calls the bodies and the query parameters of requests.
macro_rules! schemas {
    ($(body $body:ident: $doc:expr, $in_json:expr;)* $(query $query:ident: $in_query:expr;)*) => {
        $(
            #[doc = concat!("The schema of the body `", stringify!($body), "`.")]
            #[derive(Debug)]
            pub(crate) enum $body {}

            impl PartialSchema for $body {
                fn schema() -> RefOr<Schema> {
                    schema::object($doc, $in_json.filter_map(in_json))
                }
            }

            impl ToSchema for $body {}
        )*
        $(
            #[doc = concat!("The description of the parameters `", stringify!($query), "`.")]
            #[derive(Debug)]
            pub(crate) enum $query {}

            impl IntoParams for $query {
                fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
                    schema::parameters($in_query.filter_map(in_query))
                }
            }
        )*
    };
}

schemas! {
    body FingerprintRequest: FINGERPRINT.doc, FINGERPRINT.names_in_json();
    body QueryRequest: QUERY.doc, QUERY.names_in_json();
    body InsertRequest: INSERT.doc, INSERT.names_in_json();
    body CheckAndInsertRequest: CHECK_AND_INSERT.doc, CHECK_AND_INSERT.names_in_json();
    body ComparedDocument: COMPARED.doc, COMPARED.names_in_json();
    body CompareRequest: "Two documents to compare.",
        ["a", "b"].into_iter().chain(COMPARISON.iter().copied());
    query FingerprintParameters: FINGERPRINT.names_in_query();
    query QueryParameters: QUERY.names_in_query();
    query InsertParameters: INSERT.names_in_query();
    query CheckAndInsertParameters: CHECK_AND_INSERT.names_in_query();
    query FingerprintBatchParameters: FINGERPRINT.names_in_batch_query();
    query QueryBatchParameters: QUERY.names_in_batch_query();
    query InsertBatchParameters: INSERT.names_in_batch_query();
    query CheckAndInsertBatchParameters: CHECK_AND_INSERT.names_in_batch_query();
    query GetQueryParameters: GET_QUERY.iter().copied();
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn fields(json: &str) -> Result<RequestFields<'_>, Problem> {
        CHECK_AND_INSERT.fields(json.as_bytes())
    }

    fn report(problem: &Problem) -> Value {
        serde_json::to_value(problem.body()).unwrap()
    }

    fn bits(json: &str) -> Option<u64> {
        let json = format!("{{\"fingerprint\":{json}}}");
        fields(&json).ok()?.document.fingerprint.map(Fingerprint::bits)
    }

    #[test]
    fn an_error_does_not_repeat_a_long_value() {
        let long = "\u{7f}".repeat(1 << 20);
        for json in [
            format!("\"{long}\""),
            format!("{{\"{long}\":1}}"),
            format!("{{\"distance\":\"{long}\"}}"),
            format!("{{\"min_similarity\":\"{long}\"}}"),
            format!("{{\"min_numbers\":\"{long}\"}}"),
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
        let text = |json| fields(json).unwrap().document.text;
        assert!(matches!(text(r#"{"text":"plain"}"#), Some(Cow::Borrowed("plain"))));
        assert!(matches!(text(r#"{"text":"a\n"}"#), Some(Cow::Owned(_))));
    }

    #[test]
    fn a_report_has_the_code_the_field_and_what_is_wrong() {
        let takes = "text, html, features, vector, fingerprint, recipe, sketch, id, extract, distance, limit, \
                     min_similarity, min_numbers, search, counts, on_duplicate, touch, namespace, max_age, expires_in, \
                     expires_at, include, metadata";
        for (json, code, field, detail) in [
            (
                r#"{"treshold":1}"#,
                "unknown_field",
                "treshold",
                &*format!("this request takes {takes}"),
            ),
            (r#"{"id":"a","id":"b"}"#, "repeated_field", "id", "the field is there twice"),
            (r#"{"text":1}"#, "invalid_value", "text", "text is the number 1; it takes a string"),
            (
                r#"{"limit":1e999}"#,
                "invalid_value",
                "limit",
                "limit is the number 1e999; it takes a whole number of 0 or more",
            ),
            (
                r#"{"extract":"all"}"#,
                "invalid_value",
                "extract",
                "extract is `all`; it takes content, visible or main",
            ),
            (
                r#"{"features":[["a",1,2]]}"#,
                "invalid_value",
                "features",
                "an array of 3 is not a pair [\"token\", weight]",
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
        for json in ["{", "nonsense", r#"{"text":"x"} x"#] {
            let body = report(&fields(json).unwrap_err());
            assert_eq!((&body["code"], &body["field"]), (&"malformed_json".into(), &Value::Null));
        }
    }

    #[test]
    fn an_array_is_no_request() {
        let body = report(&fields(r#"["some text"]"#).unwrap_err());
        assert_eq!(body["detail"], "the JSON is an array; it takes a JSON object (column 1)");
        let nested = Comparison::read(br#"{"a":["x"]}"#).unwrap_err();
        assert_eq!(report(&nested)["field"], "a");
    }

    #[test]
    fn a_long_value_leaves_space_for_what_was_expected() {
        let json = format!("{{\"extract\":\"{}\"}}", "y".repeat(10_000));
        let body = report(&fields(&json).unwrap_err());
        let detail = body["detail"].as_str().unwrap();
        assert!(
            detail.contains("it takes content, visible or main") && detail.len() < 200,
            "{detail}"
        );
    }

    #[test]
    fn a_report_has_the_place_of_the_fault() {
        let detail = |json| report(&fields(json).unwrap_err())["detail"].clone();
        let at = |json| {
            let detail = detail(json);
            let (_, place) = detail.as_str().unwrap().rsplit_once("column ").unwrap();
            place.trim_end_matches(')').parse::<usize>().unwrap()
        };
        assert_eq!(at(r#"{"text": 1}"#), 10);
        assert_eq!(at(r#"{"id": "a", "features": [["a", 1], ["b"]]}"#), 36);
        assert_eq!(at("{\"id\": \"a\",\n \"text\": [1]}"), 10);
        assert!(detail("{\n\"text\": 1}").as_str().unwrap().ends_with(" at line 2 column 9"));
        assert_eq!(at(r#"{"text": "x", "more": 1}"#), 16);
        assert_eq!(at(r#"{"text": "x", "text": "y"}"#), 16);
    }

    #[test]
    fn a_comparison_names_the_inner_field() {
        let field =
            |json: &str| report(&Comparison::read(json.as_bytes()).unwrap_err())["field"].clone();
        assert_eq!(field(r#"{"a":{"text":"x"},"b":{"fingerprint":1.5}}"#), "b.fingerprint");
        assert_eq!(field(r#"{"a":{"text":"x","text":"y"}}"#), "a.text");
        assert_eq!(field(r#"{"a":{"limit":1}}"#), "a.limit");
        assert_eq!(field(r#"{"c":1}"#), "c");
    }

    #[test]
    fn query_parameters_are_reported_like_fields() {
        let report = |query| report(&QUERY.parameters(Some(query)).unwrap_err());
        let limit = report("limit=x");
        assert_eq!((&limit["code"], &limit["field"]), (&"invalid_value".into(), &"limit".into()));
        assert_eq!(limit["detail"], "limit is `x`; it takes a whole number of 0 or more.");
        assert_eq!(report("limit=1&limit=2")["code"], "repeated_field");
        let unknown = report("treshold=1");
        assert_eq!(unknown["field"], "treshold");
        let known = "id, extract, distance, limit, min_similarity, min_numbers, search, counts, explain, namespace, \
                     max_age, include, id_from";
        let detail = format!("This request takes the query parameters {known}.");
        assert_eq!(unknown["detail"], detail);
        let given = QUERY.parameters(Some("id=a+b%21&explain=true&extract=main")).unwrap();
        assert!(given.named.id.is_some_and(|id| id.as_str() == "a b!"));
        assert_eq!(given.options.explain, Some(true));
    }
}
