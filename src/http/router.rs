//! Every route, in one list; the OpenAPI document is made from the same list.

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::middleware;
use axum::response::IntoResponse;
use tower_http::set_header::SetResponseHeaderLayer;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::description;
use crate::http::description::Problems;
use crate::http::middleware::access;
use crate::http::middleware::observe::{RequestObserver, observe};
use crate::http::problem;
use crate::http::problem::{Code, Problem};
use crate::http::request::parameters::NoParameters;
use crate::http::routes::documents::{fingerprints, groups, list, originals, single};
use crate::http::routes::{
    check_and_insert, compare, fingerprint, health, insert, jobs, metrics, namespaces, page, query,
    snapshots, stats,
};
use crate::http::service::Service;

fn routes() -> OpenApiRouter<Arc<Service>> {
    OpenApiRouter::with_openapi(description::head())
        .routes(routes!(fingerprint::post_fingerprint))
        .routes(routes!(fingerprint::post_fingerprint_batch))
        .routes(routes!(compare::post_compare))
        .routes(routes!(query::post_query, query::get_query))
        .routes(routes!(query::post_query_batch))
        .routes(routes!(insert::post_insert))
        .routes(routes!(insert::post_insert_batch))
        .routes(routes!(check_and_insert::post_check_and_insert))
        .routes(routes!(check_and_insert::post_check_and_insert_batch))
        .routes(routes!(single::get_document, single::delete_document))
        .routes(routes!(list::get_documents, single::delete_document_by_parameter))
        .routes(routes!(fingerprints::get_fingerprint, fingerprints::delete_fingerprint))
        .routes(routes!(namespaces::get_namespaces))
        .routes(routes!(namespaces::delete_namespace))
        .routes(routes!(jobs::post_purge))
        .routes(routes!(jobs::get_jobs))
        .routes(routes!(jobs::get_job, jobs::delete_job))
        .routes(routes!(groups::post_groups, groups::get_groups_jobs))
        .routes(routes!(groups::get_groups, groups::delete_groups))
        .routes(routes!(groups::get_group))
        .routes(routes!(originals::get_originals))
        .routes(routes!(stats::get_stats))
        .routes(routes!(snapshots::get_snapshots, snapshots::post_snapshot))
        .routes(routes!(snapshots::get_export))
        .routes(routes!(health::get_healthz))
        .routes(routes!(health::get_readyz))
        .routes(routes!(metrics::get_metrics))
        .routes(routes!(get_openapi))
        .merge(page())
}

/// The web page. Its files have headers of their own where other replies have those of [`observe`].
fn page() -> OpenApiRouter<Arc<Service>> {
    let header =
        |name, value| SetResponseHeaderLayer::overriding(name, HeaderValue::from_static(value));
    OpenApiRouter::new()
        .routes(routes!(page::get_page))
        .routes(routes!(page::get_style))
        .routes(routes!(page::get_script))
        .layer((
            header(CONTENT_SECURITY_POLICY, page::CONTENT_POLICY),
            header(CACHE_CONTROL, page::CACHING),
        ))
}

/// The API over a service.
pub fn router(service: Arc<Service>) -> Router {
    let observer = RequestObserver::new(Arc::clone(&service), route_names());
    let (router, _) = routes().split_for_parts();
    router
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(observer, observe))
        .with_state(service)
}

/// The description of the API of a service with tokens: each operation names the scope it needs.
pub fn openapi() -> OpenApi {
    let mut document = openapi_without_tokens();
    access::describe(&mut document);
    document
}

/// The description of the API of a service without tokens, where every request is let in.
fn openapi_without_tokens() -> OpenApi {
    routes().into_openapi()
}

/// The OpenAPI document.
#[utoipa::path(get, path = "/openapi.json", tag = "operations",
    responses((status = 200, description = "This document", body = Object), Problems))]
pub(crate) async fn get_openapi(
    State(service): State<Arc<Service>>,
    _: NoParameters,
) -> impl IntoResponse {
    static WITH_TOKENS: OnceLock<String> = OnceLock::new();
    static WITHOUT_TOKENS: OnceLock<String> = OnceLock::new();
    let json = |document: OpenApi| document.to_json().expect("an OpenAPI document is JSON");
    let text = if service.access.is_on() {
        WITH_TOKENS.get_or_init(|| json(openapi()))
    } else {
        WITHOUT_TOKENS.get_or_init(|| json(openapi_without_tokens()))
    };
    ([(CONTENT_TYPE, "application/json")], text.as_str())
}

/// The names of all routes, for their metrics. The few strings live as long as the process.
fn route_names() -> Vec<&'static str> {
    static NAMES: OnceLock<Vec<&'static str>> = OnceLock::new();
    NAMES
        .get_or_init(|| {
            let paths = openapi().paths.paths.into_keys();
            paths.map(|path| &*path.leak()).collect()
        })
        .clone()
}

async fn not_found() -> Problem {
    Problem::new(Code::NotFound, "GET /openapi.json lists what there is.")
}

async fn method_not_allowed(request: Request) -> Problem {
    let detail = format!(
        "{} is not a method of this resource; the header Allow names those it has.",
        problem::quoted(request.method().as_str())
    );
    Problem::new(Code::MethodNotAllowed, detail)
}
