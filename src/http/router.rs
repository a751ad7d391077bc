//! Every route, in one list, with the permission that it needs; the OpenAPI document is made from
//! the same list.

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use tower_http::set_header::SetResponseHeaderLayer;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;

use crate::access::{Need, Permission};
use crate::http::description;
use crate::http::description::Problems;
use crate::http::middleware::access::{self, Concerned, Rule, Rules};
use crate::http::middleware::observe::{RequestObserver, observe};
use crate::http::problem;
use crate::http::problem::{Code, Problem};
use crate::http::request::parameters::NoParameters;
use crate::http::routes::documents::{fingerprints, groups, list, originals, removals, single};
use crate::http::routes::{
    check_and_insert, compare, fingerprint, health, insert, jobs, metrics, namespaces, page, query,
    snapshots, stats,
};
use crate::http::service::Service;

/// The methods that some resource has.
const METHODS: &str = "GET,HEAD,POST,DELETE,OPTIONS";

fn routes() -> Routes {
    use Concerned::{All, Named};
    use Need::{Nothing, Token};
    use Permission::{Admin, Read, Write};
    Routes { router: OpenApiRouter::with_openapi(description::head()), rules: Rules::default() }
        .add(Read, Named, routes!(fingerprint::post_fingerprint))
        .add(Read, Named, routes!(fingerprint::post_fingerprint_batch))
        .add(Read, Named, routes!(compare::post_compare))
        .add(Read, Named, routes!(query::post_query, query::get_query))
        .add(Read, Named, routes!(query::post_query_batch))
        .add(Write, Named, routes!(insert::post_insert))
        .add(Write, Named, routes!(insert::post_insert_batch))
        .add(Write, Named, routes!(check_and_insert::post_check_and_insert))
        .add(Write, Named, routes!(check_and_insert::post_check_and_insert_batch))
        .add(Write, Named, routes!(removals::post_delete_batch))
        .add(Read, Named, routes!(single::get_document))
        .add(Write, Named, routes!(single::delete_document))
        .add(Read, Named, routes!(list::get_documents))
        .add(Write, Named, routes!(single::delete_document_by_parameter))
        .add(Read, Named, routes!(fingerprints::get_fingerprint))
        .add(Write, Named, routes!(fingerprints::delete_fingerprint))
        .add(Read, Named, routes!(namespaces::get_namespaces))
        .add(Write, Named, routes!(namespaces::delete_namespace))
        .add(Write, Named, routes!(jobs::post_purge))
        .add(Read, Named, routes!(jobs::get_jobs))
        .add(Read, Named, routes!(jobs::get_job))
        .add(Write, Named, routes!(jobs::delete_job))
        // A job that finds groups changes nothing that is stored.
        .add(Read, Named, routes!(groups::post_groups, groups::get_groups_jobs))
        .add(Read, Named, routes!(groups::get_groups, groups::delete_groups))
        .add(Read, Named, routes!(groups::get_group))
        .add(Read, Named, routes!(originals::get_originals))
        .add(Read, Named, routes!(stats::get_stats))
        .add(Admin, All, routes!(snapshots::get_snapshots, snapshots::post_snapshot))
        .add(Admin, All, routes!(snapshots::get_export))
        .add(Nothing, Named, routes!(health::get_healthz))
        .add(Nothing, Named, routes!(health::get_readyz))
        .add(Read, All, routes!(metrics::get_metrics))
        .add(Token, Named, routes!(get_openapi))
        .add(Token, Named, page_file(routes!(page::get_page)))
        .add(Token, Named, page_file(routes!(page::get_style)))
        .add(Token, Named, page_file(routes!(page::get_script)))
}

/// A file of the web page, with headers of its own where other replies have those of [`observe`].
fn page_file(
    (schemas, paths, methods): UtoipaMethodRouter<Arc<Service>>,
) -> UtoipaMethodRouter<Arc<Service>> {
    let header =
        |name, value| SetResponseHeaderLayer::overriding(name, HeaderValue::from_static(value));
    let policy = header(CONTENT_SECURITY_POLICY, page::CONTENT_POLICY);
    (schemas, paths, methods.layer((policy, header(CACHE_CONTROL, page::CACHING))))
}

/// The routes, and what each asks of a token.
struct Routes {
    router: OpenApiRouter<Arc<Service>>,
    rules: Rules,
}

impl Routes {
    /// Adds handlers of one path with what they ask of a token.
    fn add(
        mut self,
        need: impl Into<Need>,
        namespaces: Concerned,
        mut handlers: UtoipaMethodRouter<Arc<Service>>,
    ) -> Self {
        let (_, paths, _) = &mut handlers;
        self.rules.add(paths, Rule { need: need.into(), namespaces });
        Self { router: self.router.routes(handlers), ..self }
    }
}

/// What each route asks of a token.
fn rules() -> &'static Rules {
    static RULES: OnceLock<Rules> = OnceLock::new();
    RULES.get_or_init(|| routes().rules)
}

/// The API over a service.
pub fn router(service: Arc<Service>) -> Router {
    let observer = RequestObserver::new(Arc::clone(&service), rules());
    let (router, _) = routes().router.split_for_parts();
    router
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(observer, observe))
        .with_state(service)
}

/// The description of the API of a service with tokens: each operation names the permission that it needs.
pub fn openapi() -> OpenApi {
    let mut document = openapi_without_tokens();
    access::describe(&mut document, rules());
    document
}

/// The description of the API of a service without tokens, where every request is let in.
fn openapi_without_tokens() -> OpenApi {
    routes().router.into_openapi()
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

async fn not_found(request: Request) -> Response {
    if request.method() == Method::OPTIONS && request.uri().path() == "*" {
        return (StatusCode::NO_CONTENT, [(ALLOW, METHODS)]).into_response();
    }
    Problem::new(Code::NotFound, "GET /openapi.json lists what there is.").into_response()
}

async fn method_not_allowed(request: Request) -> Response {
    // Some health checks ask for nothing else (HAProxy). The router adds the header Allow.
    if request.method() == Method::OPTIONS {
        return StatusCode::NO_CONTENT.into_response();
    }
    let detail = format!(
        "{} is not a method of this resource; the header Allow names those it has.",
        problem::quoted(request.method().as_str())
    );
    Problem::new(Code::MethodNotAllowed, detail).into_response()
}
