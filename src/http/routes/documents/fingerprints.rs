//! `/v1/fingerprints/{hex}`: lists the documents of a fingerprint, and removes it with all of them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::Uri;
use axum::response::Response;
use nearprint_fingerprint::Fingerprint;
use nearprint_service::{answers, budget};
use nearprint_wire::answer::{FingerprintDocumentsReply, RemovedReply};

use crate::http::problem::Problem;
use crate::http::reply;
use crate::http::request::caller::CalledBy;
use crate::http::request::parameters;
use crate::http::request::selection::{
    FingerprintInPath, FingerprintPageParameters, NamespaceParameter, last_of_path, page_request,
};
use crate::http::service::HttpService;
use crate::metrics;

/// List the documents of a fingerprint, oldest first.
#[utoipa::path(get, path = "/v1/fingerprints/{hex}", tag = "documents",
    params(FingerprintInPath,
        FingerprintPageParameters),
    responses((status = 200, description = "A page of its documents",
        body = FingerprintDocumentsReply<'_>)))]
pub(crate) async fn get_fingerprint(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    request: Request,
) -> Result<Response, Problem> {
    let parameters: FingerprintPageParameters = parameters::read(request.uri().query())?;
    let (service, namespace) = (&http.service, parameters.namespace.as_ref());
    let fingerprint = fingerprint_of(request.uri())?;
    let page = page_request(parameters.after.as_ref(), parameters.limit)?;
    let parts = parameters.include.unwrap_or_default().0;
    let listed = service.documents_of(&caller, (fingerprint, namespace), (page, parts)).await?;
    let showing = service.showing(&caller, parts);
    let documents = answers::documents(&listed.page, listed.next, &showing);
    let reply = answers::of_fingerprint((fingerprint, namespace), documents);
    Ok(reply::json(budget::page(&reply, listed.share)))
}

/// Remove a fingerprint with all its documents.
///
/// Succeeds with `"removed": 0` if there is none, so that it may be retried.
#[utoipa::path(delete, path = "/v1/fingerprints/{hex}", tag = "documents",
    params(FingerprintInPath,
        NamespaceParameter),
    responses((status = 200, description = "How many documents were removed", body = RemovedReply)))]
pub(crate) async fn delete_fingerprint(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    request: Request,
) -> Result<Json<RemovedReply>, Problem> {
    let parameters: NamespaceParameter = parameters::read(request.uri().query())?;
    let named = (fingerprint_of(request.uri())?, parameters.namespace);
    let removed = http.service.remove_fingerprint(&caller, named).await?;
    metrics::written(metrics::WriteOutcome::Removed, removed.documents);
    Ok(Json(answers::removed(removed, &caller.namespaces)))
}

fn fingerprint_of(uri: &Uri) -> Result<Fingerprint, Problem> {
    last_of_path(uri, "hex")?.parse().map_err(|_| {
        Problem::invalid("hex", "A fingerprint has 16 hex digits, with or without 0x.")
    })
}
