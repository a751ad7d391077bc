//! `/v1/namespaces`: lists the namespaces that have documents.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;

use crate::http::budget;
use crate::http::cipher::Kind;
use crate::http::problem::Problem;
use crate::http::reply::documents::NamespacesReply;
use crate::http::request::parameters;
use crate::http::request::reach::NamespaceAccess;
use crate::http::request::selection::{Cursor, PageParameters, page_limit};
use crate::http::service::Service;
use crate::http::shares::client_of;

/// List the namespaces that have documents.
///
/// In the order in which they began; only those that the token reaches.
#[utoipa::path(get, path = "/v1/namespaces", tag = "namespaces",
    params(PageParameters),
    responses((status = 200, description = "A page of the namespaces",
        body = NamespacesReply<'_>)))]
pub(crate) async fn get_namespaces(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    request: Request,
) -> Result<Response, Problem> {
    let parameters: PageParameters = parameters::read(request.uri().query())?;
    let (bytes_max, share) = service.replies.page(&client_of(request.extensions()));
    let limit = page_limit(parameters.limit)?.min(bytes_max / NamespacesReply::BYTES_EACH).max(1);
    let list = Kind::Namespaces.into();
    let after = Cursor::decrypted(parameters.after.as_ref(), &list, &service.cipher)?;
    let default_documents = reach.admits(None).then(|| service.engine.documents_in(None));
    let admits = move |name: &str| reach.admits(Some(name));
    let engine = service.engine_for(request.extensions());
    let page = engine.namespaces(after, limit, admits).await?;
    let next = page.next.map(|next| service.cipher.encrypt(&list, next));
    Ok(budget::page(&NamespacesReply::new(&page, default_documents, next), share))
}
