//! `/v1/compare`: compares two documents; stores nothing.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use nearprint_service::{Needs, Prepared, Setting, prepare};
use nearprint_wire::answer::{CompareReply, ComparisonExplanationReply};
use nearprint_wire::offer::{FieldSet as _, OfferOptions};

use crate::http::problem::{Code, Problem};
use crate::http::reply;
use crate::http::request::caller::client_of;
use crate::http::request::json;
use crate::http::request::prepare::of_fields;
use crate::http::request::types::{CompareRequest, ComparedFields, Comparison};
use crate::http::service::HttpService;

/// Compare two documents.
///
/// `duplicate` says whether a look-up of one would count the other. Stores nothing.
#[utoipa::path(post, path = "/v1/compare", tag = "look up",
    request_body = CompareRequest,
    responses((status = 200, description = "How near the two documents are", body = CompareReply)))]
pub(crate) async fn post_compare(
    State(http): State<Arc<HttpService>>,
    request: Request,
) -> Result<Response, Problem> {
    let client = client_of(request.extensions());
    let takes = "two documents as application/json";
    let body = json::whole_body(&http.bodies, request, takes).await?;
    let service = &http.service;
    let setting = service.setting();
    let bytes = body.bytes.len();
    let work = move || compare(&body.bytes, &setting);
    let reply = service.analyse(&client, bytes, work).await??;
    Ok(reply::json(service.replies().answer(&client, reply, None)?))
}

fn compare(json: &[u8], setting: &Setting) -> Result<CompareReply, Problem> {
    let Comparison { pair, options: given } = Comparison::read(json)?;
    let options = prepare::query_options(&given, true, &setting.defaults)?;
    let a = side(pair.a, "a", &given, setting)?;
    let b = side(pair.b, "b", &given, setting)?;
    let criteria = (options.criteria, a.least);
    let explanation =
        || ComparisonExplanationReply::new(a.explained.as_deref(), b.explained.as_deref());
    Ok(CompareReply {
        explanation: a.explain.then(explanation),
        ..CompareReply::new([&a.document, &b.document], criteria)
    })
}

fn side(
    document: Option<ComparedFields<'_>>,
    name: &'static str,
    options: &OfferOptions,
    setting: &Setting,
) -> Result<Prepared, Problem> {
    let missing =
        || Problem::new(Code::DocumentMissing, "A comparison needs two documents, a and b.");
    let ComparedFields(mut fields) = document.ok_or_else(|| missing().of_field(name))?;
    fields.options = fields.options.or(options.clone());
    of_fields(fields, Needs::QUERY, setting).map_err(|problem| problem.inside(name))
}
