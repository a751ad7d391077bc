//! `/v1/fingerprints/{hex}`: lists the documents of a fingerprint, and removes it with all of them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::Uri;
use axum::response::Response;
use nearprint_engine::document::{Namespace, Sequence};
use nearprint_fingerprint::Fingerprint;

use crate::http::budget;
use crate::http::cipher::{Kind, Purpose};
use crate::http::problem::Problem;
use crate::http::reply::documents::{
    DocumentsReply, FingerprintDocumentsReply, RemovedReply, Showing,
};
use crate::http::request::parameters;
use crate::http::request::reach::NamespaceAccess;
use crate::http::request::selection::{
    Cursor, FingerprintInPath, FingerprintPageParameters, NamespaceParameter, last_of_path,
    page_limit,
};
use crate::http::service::Service;
use crate::http::shares::client_of;
use crate::metrics;

/// List the documents of a fingerprint, oldest first.
#[utoipa::path(get, path = "/v1/fingerprints/{hex}", tag = "documents",
    params(FingerprintInPath,
        FingerprintPageParameters),
    responses((status = 200, description = "A page of its documents",
        body = FingerprintDocumentsReply<'_>)))]
pub(crate) async fn get_fingerprint(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    request: Request,
) -> Result<Response, Problem> {
    let parameters: FingerprintPageParameters = parameters::read(request.uri().query())?;
    let fingerprint = fingerprint_of(request.uri())?;
    let limit = page_limit(parameters.limit)?;
    let parts = parameters.include.unwrap_or_default();
    let namespace = parameters.namespace;
    let list = Purpose::from(Kind::Fingerprint)
        .with(namespace.as_ref().map(Namespace::as_str))
        .of_number(fingerprint.bits());
    let after = Cursor::decrypted(parameters.after.as_ref(), &list, &service.cipher)?;
    let after = Sequence::new(after);
    reach.check(namespace.as_ref().map(Namespace::as_str))?;
    let (bytes_max, share) = service.replies.page(&client_of(request.extensions()));
    let options = parts.page(limit, bytes_max);
    let page = service.engine.documents_of(namespace.as_ref(), fingerprint, after, options).await?;
    let recipe = service.options.defaults.recipe;
    let next = page.next.map(|next| service.cipher.encrypt(&list, next));
    let documents = DocumentsReply::new(&page, &Showing { parts, recipe, reach }, next);
    let reply = FingerprintDocumentsReply::new(fingerprint, namespace.as_ref(), documents);
    Ok(budget::page(&reply, share))
}

/// Remove a fingerprint with all its documents.
///
/// Succeeds with `"removed": 0` if there is none, so that it may be retried.
#[utoipa::path(delete, path = "/v1/fingerprints/{hex}", tag = "documents",
    params(FingerprintInPath,
        NamespaceParameter),
    responses((status = 200, description = "How many documents were removed", body = RemovedReply)))]
pub(crate) async fn delete_fingerprint(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    request: Request,
) -> Result<Json<RemovedReply>, Problem> {
    let parameters: NamespaceParameter = parameters::read(request.uri().query())?;
    let fingerprint = fingerprint_of(request.uri())?;
    let namespace = parameters.namespace;
    reach.check(namespace.as_ref().map(Namespace::as_str))?;
    let removed = service.engine.remove_fingerprint(namespace, fingerprint).await?;
    metrics::written(metrics::WriteOutcome::Removed, removed.documents);
    Ok(Json(RemovedReply::new(removed, &reach)))
}

fn fingerprint_of(uri: &Uri) -> Result<Fingerprint, Problem> {
    last_of_path(uri, "hex")?.parse().map_err(|_| {
        Problem::invalid("hex", "A fingerprint has 16 hex digits, with or without 0x.")
    })
}
