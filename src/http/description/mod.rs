//! The description of the API (OpenAPI 3.1), made from the handlers and the types of requests and
//! replies.

pub(crate) mod problems;

use nearprint_wire::answer::ProblemReply;
use utoipa::ToSchema;
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder};

use crate::http::batch::replies::ErrorLine;
use crate::http::request::selection::NamedDocument;
use crate::http::request::types::ComparedDocument;

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
        .schema_from::<ComparedDocument>()
        .schema_from::<ProblemReply<'_>>()
        .schema_from::<ErrorLine<'_>>()
        .schema_from::<NamedDocument>()
        .build();
    OpenApiBuilder::new().info(info).components(Some(components)).build()
}

/// A body of bytes: packed fingerprints, distances or an export.
#[derive(ToSchema)]
#[schema(as = Packed, value_type = String, format = Binary,
    content_media_type = "application/octet-stream")]
#[expect(dead_code, reason = "a description")]
pub(crate) struct PackedBody(Vec<u8>);

/// A text or a page as it is, in any charset.
#[derive(ToSchema)]
#[schema(as = Raw, value_type = String, format = Binary)]
#[expect(dead_code, reason = "a description")]
pub(crate) struct RawBody(Vec<u8>);

/// Describes bodies of lines of JSON. `OpenAPI` 3.1 has no word for what a line is, so the
/// descriptions name its schema.
macro_rules! lines {
    ($($name:ident $doc:literal;)*) => {$(
        #[doc = $doc]
        #[derive(ToSchema)]
        #[schema(value_type = String, format = Binary,
            content_media_type = "application/x-ndjson")]
        #[expect(dead_code, reason = "a description")]
        pub(crate) struct $name(String);
    )*};
}

lines! {
    FingerprintLines "Lines of JSON, each a `FingerprintRequest`.";
    QueryLines "Lines of JSON, each a `QueryRequest`.";
    InsertLines "Lines of JSON, each an `InsertRequest`.";
    CheckAndInsertLines "Lines of JSON, each a `CheckAndInsertRequest`.";
    RemovalLines "Lines of JSON, each a `NamedDocument`.";
    FingerprintReplyLines "Lines of JSON, each a `FingerprintReply` or an `ErrorLine`.";
    QueryReplyLines "Lines of JSON, each a `QueryReply` or an `ErrorLine`.";
    InsertReplyLines "Lines of JSON, each an `InsertReply` or an `ErrorLine`.";
    CheckAndInsertReplyLines
        "Lines of JSON, each a `CheckAndInsertReply` or an `ErrorLine`.";
    RemovedLines "Lines of JSON, each a `RemovedReply` or an `ErrorLine`.";
    DocumentLines
        "Lines of JSON, each a `DocumentReply`; if the stream fails, the last is an `ErrorLine`.";
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::http::problem::Code;

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
            "POST /v1/delete/batch",
            "POST /v1/check-and-insert/batch",
            "GET /v1/documents/{id}",
            "DELETE /v1/documents/{id}",
            "GET /v1/documents",
            "GET /v1/fingerprints/{hex}",
            "DELETE /v1/fingerprints/{hex}",
            "GET /v1/namespaces",
            "POST /v1/purge",
            "GET /v1/jobs",
            "GET /v1/jobs/{job}",
            "DELETE /v1/jobs/{job}",
            "GET /v1/originals",
            "POST /v1/groups",
            "GET /v1/groups/{job}",
            "GET /v1/groups/{job}/{group}",
            "GET /v1/stats",
            "GET /v1/me",
            "GET /v1/nodes",
            "GET /v1/history",
            "GET /v1/snapshots",
            "GET /v1/snapshots/export",
            "GET /v1/changes",
            "POST /v1/cluster/stand-back",
            "POST /v1/snapshots",
            "GET /healthz",
            "GET /readyz",
            "GET /readyz/writes",
            "GET /readyz/reads",
            "GET /metrics",
            "GET /openapi.json",
            "GET /",
            "GET /console/{file}",
            "GET /favicon.ico",
        ];
        expected.sort_unstable();
        assert_eq!(found, expected);
    }

    #[test]
    fn every_code_is_the_error_of_some_operation() {
        let document = document().to_string();
        let elsewhere = [
            // No operation is asked for.
            Code::MethodNotAllowed,
            // Only lines of a batch have them.
            Code::LineTooLarge,
            Code::ReplyNotRead,
        ];
        for code in Code::ALL {
            let is_given = document.contains(&format!("`{}`", code.name()));
            assert_eq!(is_given, !elsewhere.contains(code), "{code:?}");
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
}
