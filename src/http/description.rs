//! The description of the API (OpenAPI 3.1), made from the handlers and the types of the replies.
//!
//! Requests are read by hand ([`crate::http::request::fields`]), so their schemas are written here; a test holds
//! them against the fields that the reader takes.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::openapi::{
    ArrayBuilder, ComponentsBuilder, ContentBuilder, InfoBuilder, LicenseBuilder, Object,
    OneOfBuilder, OpenApi, OpenApiBuilder, Ref, RefOr, Response, ResponseBuilder, Schema, Type,
};
use utoipa::{IntoParams, IntoResponses, ToSchema};

use crate::http::batch::context::ErrorLine;
use crate::http::problem::ProblemBody;

/// The document without its routes.
pub(crate) fn head() -> OpenApi {
    let license = LicenseBuilder::new()
        .name(env!("CARGO_PKG_LICENSE"))
        .identifier(Some(env!("CARGO_PKG_LICENSE")))
        .build();
    let info = InfoBuilder::new()
        .title("nearprint")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(env!("CARGO_PKG_DESCRIPTION")))
        .license(Some(license))
        .build();
    let components = ComponentsBuilder::new()
        .schema_from::<ProblemBody<'_>>()
        .schema_from::<ErrorLine<'_>>()
        .build();
    OpenApiBuilder::new().info(info).components(Some(components)).build()
}

/// What every route may answer besides its own reply.
pub(crate) struct Problems;

impl IntoResponses for Problems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let statuses = [
            (
                "400",
                "Malformed or contradictory: `malformed_json`, `invalid_value`, `unknown_field`, `repeated_field`, `document_missing`, `document_ambiguous`, `distance_above_max`, `packed_length`, `body_incomplete`, `invalid_host`",
            ),
            ("401", "`token_missing`, `token_unknown`; with WWW-Authenticate"),
            ("403", "`scope_missing`, `cross_site`"),
            ("404", "`not_found`, `document_not_found`"),
            ("405", "`method_not_allowed`"),
            ("408", "`request_timeout`"),
            ("409", "`recipe_mismatch`"),
            ("411", "`length_required`"),
            ("413", "`body_too_large`, `line_too_large`"),
            ("415", "`unsupported_media_type`, `unsupported_charset`, `unsupported_encoding`"),
            ("421", "`host_not_allowed`"),
            ("422", "`empty_document`"),
            ("429", "`rate_limited`; with Retry-After"),
            ("500", "`internal`, `unreadable_record`"),
            ("501", "`unsupported_transfer_coding`"),
            ("503", "`overloaded`, `stopping`, `storage_failed`; with Retry-After"),
            ("507", "`disk_full`, `memory_full`; look-ups go on"),
        ];
        let response = |description: &str| {
            let content =
                ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
            ResponseBuilder::new()
                .description(description)
                .content("application/problem+json", content)
                .build()
        };
        statuses
            .into_iter()
            .map(|(status, text)| (status.to_owned(), response(text).into()))
            .collect()
    }
}

/// The parameter of a document that is the body itself.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "a description; parameters.rs reads them")]
pub(crate) struct DocumentBody {
    /// The id, where the body is not JSON.
    #[param(min_length = 1, max_length = 2048)]
    id: Option<String>,
}

/// How a page of HTML is read, as a query parameter.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "a description; parameters.rs reads it")]
pub(crate) struct Extraction {
    /// Which text of a page of HTML counts; the default is the service's `query.extract`.
    #[param(inline)]
    extract: Option<ExtractChoice>,
}

/// Which text of a page of HTML counts: all that is visible, or the article alone.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "a description; fields.rs reads it")]
pub(crate) enum ExtractChoice {
    Visible,
    Main,
}

/// The options of a look-up as query parameters.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "a description; parameters.rs reads them")]
pub(crate) struct LookUp {
    /// The largest Hamming distance of a hit, 0 to the configured maximum.
    #[param(minimum = 0, maximum = 8)]
    distance: Option<u8>,
    /// How many hits are listed.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u16>,
    /// The similarity that confirms a hit; 0 switches verification off.
    #[param(minimum = 0, maximum = 1)]
    min_similarity: Option<f64>,
}

/// What becomes of duplicates, as a query parameter.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "a description; parameters.rs reads it")]
pub(crate) struct OnDuplicate {
    /// `insert` stores duplicates too.
    #[param(inline)]
    on_duplicate: Option<OnDuplicateChoice>,
}

/// Whether to explain, as a query parameter.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "a description; parameters.rs reads it")]
pub(crate) struct Explain {
    /// Adds the heaviest features, the 64 sums, and to hits the bits that differ.
    explain: Option<bool>,
}

#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "a description; fields.rs reads it")]
pub(crate) enum OnDuplicateChoice {
    Insert,
    Skip,
}

/// A fingerprint in a request: 16 hex digits with or without `0x`, or a 64-bit integer, signed or
/// unsigned.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "a description; fields.rs reads it")]
pub(crate) enum FingerprintIn {
    Hex(String),
    Integer(i128),
}

/// Weighted features: `{"token": weight}` or `[["token", weight]]`.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "a description; fields.rs reads it")]
pub(crate) enum FeaturesIn {
    Object(BTreeMap<String, f64>),
    Pairs(Vec<FeaturePair>),
}

/// A token and its weight: `["token", weight]`.
#[derive(Serialize)]
pub(crate) struct FeaturePair;

impl ToSchema for FeaturePair {}

// utoipa describes a tuple by `items: false`, which not every tool understands.
impl utoipa::PartialSchema for FeaturePair {
    fn schema() -> RefOr<Schema> {
        let token_or_weight = OneOfBuilder::new()
            .item(Object::with_type(Type::String))
            .item(Object::with_type(Type::Number));
        ArrayBuilder::new()
            .items(token_or_weight)
            .min_items(Some(2))
            .max_items(Some(2))
            .description(Some("A token and its weight."))
            .into()
    }
}

/// A body of bytes: packed fingerprints, distances or an export.
#[derive(ToSchema)]
#[schema(value_type = String, content_media_type = "application/octet-stream")]
#[expect(dead_code, reason = "a description")]
pub(crate) struct Packed(Vec<u8>);

/// Declares the schema of a request: a document, and the options named.
macro_rules! request {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        ///
        /// Exactly one of `text`, `html`, `features`, `fingerprint`.
        #[derive(ToSchema)]
        #[expect(dead_code, reason = "a description; fields.rs reads it")]
        pub(crate) struct $name {
            /// Plain text.
            #[schema(nullable = false)]
            text: Option<String>,
            /// A page of HTML.
            #[schema(nullable = false)]
            html: Option<String>,
            #[schema(nullable = false)]
            features: Option<FeaturesIn>,
            #[schema(nullable = false)]
            fingerprint: Option<FingerprintIn>,
            /// The recipe of `fingerprint`; refused (409) unless it is the service's.
            #[schema(nullable = false)]
            recipe: Option<String>,
            /// The caller's name for the document, usually its URL.
            #[schema(min_length = 1, max_length = 2048, nullable = false)]
            id: Option<String>,
            /// Which text of `html` counts; the default is the service's `query.extract`.
            #[schema(nullable = false)]
            extract: Option<ExtractChoice>,
            $($(#[$field_doc])* #[schema(nullable = false)] $field: Option<$type>,)*
        }
    };
}

request!(
    /// A document to make a fingerprint of.
    FingerprintRequest {
        /// Adds the heaviest features and the 64 sums.
        explain: bool,
    }
);

request!(
    /// A document to look up.
    QueryRequest {
        /// The largest Hamming distance of a hit, 0 to the configured maximum.
        #[schema(minimum = 0, maximum = 8)]
        distance: u8,
        /// How many hits are listed.
        #[schema(minimum = 1, maximum = 1000)]
        limit: u16,
        /// The similarity that confirms a hit; 0 switches verification off.
        #[schema(minimum = 0, maximum = 1)]
        min_similarity: f64,
        /// Adds the heaviest features, the 64 sums, and to hits the bits that differ.
        explain: bool,
    }
);

request!(
    /// A document to store.
    InsertRequest {}
);

request!(
    /// A document to look up, and to store if nothing counts.
    CheckAndInsertRequest {
        /// The largest Hamming distance of a hit, 0 to the configured maximum.
        #[schema(minimum = 0, maximum = 8)]
        distance: u8,
        /// How many hits are listed.
        #[schema(minimum = 1, maximum = 1000)]
        limit: u16,
        /// The similarity that confirms a hit; 0 switches verification off.
        #[schema(minimum = 0, maximum = 1)]
        min_similarity: f64,
        /// `insert` stores duplicates too.
        on_duplicate: OnDuplicateChoice,
    }
);

/// Two documents to compare.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a description; fields.rs reads it")]
pub(crate) struct CompareRequest {
    a: InsertRequest,
    b: InsertRequest,
    /// The largest distance of a duplicate.
    #[schema(minimum = 0, maximum = 8, nullable = false)]
    distance: Option<u8>,
    /// The similarity that makes a duplicate; 0 switches verification off.
    #[schema(minimum = 0, maximum = 1, nullable = false)]
    min_similarity: Option<f64>,
    /// Which text of `html` counts, where a document does not say.
    #[schema(nullable = false)]
    extract: Option<ExtractChoice>,
    /// Adds why the documents have their fingerprints, and which features decide the bits that differ.
    #[schema(nullable = false)]
    explain: Option<bool>,
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::problem::Code;
    use crate::http::request::fields::Field;
    use crate::http::request::prepare::{CHECK_AND_INSERT, FINGERPRINT, INSERT, QUERY};

    fn document() -> Value {
        serde_json::to_value(super::super::openapi()).unwrap()
    }

    #[test]
    fn it_describes_every_route_of_the_contract() {
        let document = document();
        assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
        let mut found: Vec<String> = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for method in item.as_object().unwrap().keys() {
                found.push(format!("{} {path}", method.to_uppercase()));
            }
        }
        found.sort();
        let mut expected = [
            "POST /v1/fingerprint",
            "POST /v1/compare",
            "POST /v1/query",
            "GET /v1/query",
            "POST /v1/insert",
            "POST /v1/check-and-insert",
            "POST /v1/fingerprint/batch",
            "POST /v1/query/batch",
            "POST /v1/insert/batch",
            "POST /v1/check-and-insert/batch",
            "GET /v1/documents/{id}",
            "DELETE /v1/documents/{id}",
            "GET /v1/documents",
            "DELETE /v1/documents",
            "DELETE /v1/fingerprints/{hex}",
            "GET /v1/stats",
            "GET /v1/snapshots",
            "GET /v1/snapshots/export",
            "POST /v1/snapshots",
            "GET /healthz",
            "GET /readyz",
            "GET /metrics",
            "GET /openapi.json",
            "GET /",
            "GET /page.css",
            "GET /page.js",
        ];
        expected.sort_unstable();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_schemas_of_requests_have_the_fields_that_are_read() {
        let document = document();
        for (name, shape) in [
            ("FingerprintRequest", &FINGERPRINT),
            ("QueryRequest", &QUERY),
            ("InsertRequest", &INSERT),
            ("CheckAndInsertRequest", &CHECK_AND_INSERT),
        ] {
            let schema = &document["components"]["schemas"][name]["properties"];
            let mut described: Vec<_> = schema.as_object().unwrap().keys().collect();
            let mut read: Vec<_> = shape.fields.iter().map(|field: &Field| field.name()).collect();
            described.sort();
            read.sort_unstable();
            assert_eq!(described, read, "{name}");
        }
    }

    #[test]
    fn every_response_has_a_description() {
        let document = document();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                for (status, response) in operation["responses"].as_object().unwrap() {
                    let description = response["description"].as_str().unwrap_or_default();
                    assert!(!description.is_empty(), "{method} {path} {status}");
                }
            }
        }
    }

    #[test]
    fn no_schema_is_a_bare_boolean() {
        let text = document().to_string();
        assert!(!text.contains("\"items\":false"), "tools for OpenAPI 3.0 refuse it: {text}");
    }

    #[test]
    fn bytes_are_described_as_such_and_not_as_lists_of_numbers() {
        let document = document();
        let request = &document["paths"]["/v1/insert/batch"]["post"]["requestBody"]["content"];
        let packed = request["application/octet-stream"]["schema"]["$ref"].as_str().unwrap();
        assert_eq!(packed, "#/components/schemas/Packed");
        let packed = &document["components"]["schemas"]["Packed"];
        assert_eq!(packed["type"], "string");
        assert_eq!(packed["contentMediaType"], "application/octet-stream");
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let text = document.to_string();
        for reference in text.split("\"#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name}");
        }
    }

    #[test]
    fn every_code_is_in_the_document_under_its_status() {
        let document = document();
        let responses = &document["paths"]["/v1/insert"]["post"]["responses"];
        for code in Code::ALL {
            let (status, name, _) = code.row();
            let description = responses[status.as_str()]["description"].as_str();
            assert!(description.is_some_and(|text| text.contains(&format!("`{name}`"))), "{name}");
        }
    }
}
