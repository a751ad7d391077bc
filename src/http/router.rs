//! Every route, in one list, with the permission that it needs; the OpenAPI document is made from
//! the same list.

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use nearprint_wire::offer::FieldSet as _;
use tower_http::set_header::SetResponseHeaderLayer;
use utoipa::openapi::{OpenApi, RefOr};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;

use crate::access::{Need, Permission};
use crate::http::description;
use crate::http::description::problems::{
    self, ADDITION, BODY, BUSY, CHANGE, CHANGES, DISTANCE, DOCUMENT, ErrorGroup, FINGERPRINT,
    FOUND_GROUPS, JSON, METADATA, NAMESPACE, NEW_JOB, OF_NODE, ONE_DOCUMENT, ONE_FILE, ONE_JOB,
    ONE_SEARCH, PACKED, PARAMETERS, PASSES_ON, READ, READINESS, TYPES, WHILE_RUNNING,
};
use crate::http::middleware::access::{self, Concerned, RouteRules, Rule};
use crate::http::middleware::freshness::Freshness;
use crate::http::middleware::observe::{RequestObserver, observe};
use crate::http::problem;
use crate::http::problem::{Code, Problem};
use crate::http::request::parameters::NoParameters;
use crate::http::request::schema;
use crate::http::routes::about::{history, me, nodes};
use crate::http::routes::copies::{changes, lead, snapshots};
use crate::http::routes::documents::{fingerprints, groups, list, originals, removals, single};
use crate::http::routes::{
    check_and_insert, compare, console, fingerprint, health, insert, jobs, metrics, namespaces,
    query, stats,
};
use crate::http::service::HttpService;

/// The methods that some resource has.
const METHODS: &str = "GET,HEAD,POST,DELETE,OPTIONS";

/// The errors of requests of one form.
const OF_COMPARISON: &[&[ErrorGroup]] = &[OF_DOCUMENT, &[DISTANCE, ONE_DOCUMENT, NAMESPACE, READ]];
const OF_LINES: &[ErrorGroup] = &[PARAMETERS, TYPES, BUSY];
const OF_BATCH: &[ErrorGroup] = &[PARAMETERS, TYPES, PACKED, NAMESPACE, BUSY];
const OF_DOCUMENT: &[ErrorGroup] = &[PARAMETERS, TYPES, BODY, JSON, DOCUMENT, BUSY];
const OF_NEW_JOB: &[ErrorGroup] = &[PARAMETERS, TYPES, BODY, JSON, NAMESPACE, NEW_JOB, BUSY];
const OF_ADDITION: &[ErrorGroup] = &[CHANGE, ADDITION];
const OF_PAGE: &[ErrorGroup] = &[PARAMETERS, NAMESPACE, READ, BUSY];
const OF_CHANGES: &[&[ErrorGroup]] = &[&[PARAMETERS, WHILE_RUNNING, CHANGES, BUSY]];
const OF_REMOVAL: &[ErrorGroup] = &[PARAMETERS, NAMESPACE, CHANGE, BUSY];

fn routes() -> Routes {
    use Concerned::{All, Named};
    use Need::{Nothing, Token};
    use Permission::{Admin, Read, Write};
    Routes {
        router: OpenApiRouter::with_openapi(description::head()),
        rules: RouteRules::default(),
    }
    .add(Read, Named, routes!(fingerprint::post_fingerprint), &[OF_DOCUMENT])
    .add(Read, Named, routes!(fingerprint::post_fingerprint_batch), &[OF_LINES])
    .add(Read, Named, routes!(compare::post_compare), OF_COMPARISON)
    .add(Read, Named, routes!(query::post_query), &[OF_DOCUMENT, &[DISTANCE, NAMESPACE, READ]])
    .add(Read, Named, routes!(query::get_query), &[OF_PAGE, &[FINGERPRINT, DISTANCE]])
    .add(Read, Named, routes!(query::post_query_batch), &[OF_BATCH, &[DISTANCE]])
    .add(
        Write,
        Named,
        routes!(insert::post_insert),
        &[OF_DOCUMENT, OF_ADDITION, &[METADATA, NAMESPACE]],
    )
    .add(Write, Named, routes!(insert::post_insert_batch), &[OF_BATCH, OF_ADDITION])
    .add(
        Write,
        Named,
        routes!(check_and_insert::post_check_and_insert),
        &[OF_DOCUMENT, OF_ADDITION, &[METADATA, DISTANCE, NAMESPACE, READ]],
    )
    .add(
        Write,
        Named,
        routes!(check_and_insert::post_check_and_insert_batch),
        &[OF_BATCH, OF_ADDITION, &[DISTANCE]],
    )
    .add(Write, Named, routes!(removals::post_delete_batch), &[OF_LINES, &[BODY]])
    .add(Read, Named, routes!(single::get_document), &[OF_PAGE, &[ONE_DOCUMENT]])
    .add(Write, Named, routes!(single::delete_document), &[OF_REMOVAL])
    .add(Read, Named, routes!(list::get_documents), &[OF_PAGE])
    .add(Read, Named, routes!(fingerprints::get_fingerprint), &[OF_PAGE])
    .add(Write, Named, routes!(fingerprints::delete_fingerprint), &[OF_REMOVAL])
    .add(Read, Named, routes!(namespaces::get_namespaces), &[&[PARAMETERS, READ, BUSY]])
    .add(Write, Named, routes!(jobs::post_purge), &[OF_NEW_JOB, &[CHANGE]])
    .add(Read, Named, routes!(jobs::get_jobs), &[&[PARAMETERS, BUSY]])
    .add(Read, Named, routes!(jobs::get_job), &[&[PARAMETERS, ONE_JOB, BUSY]])
    .add(Write, Named, routes!(jobs::delete_job), &[&[PARAMETERS, ONE_JOB, CHANGE, BUSY]])
    // A job that finds groups changes nothing that is stored.
    .add(Read, Named, routes!(groups::post_groups), &[OF_NEW_JOB, &[DISTANCE, WHILE_RUNNING]])
    .add(Read, Named, routes!(groups::get_groups), &[&[PARAMETERS, ONE_SEARCH, READ, BUSY]])
    .add(
        Read,
        Named,
        routes!(groups::get_group),
        &[&[PARAMETERS, ONE_SEARCH, FOUND_GROUPS, READ, BUSY]],
    )
    .add(Read, Named, routes!(originals::get_originals), &[OF_PAGE])
    .add(Read, Named, routes!(stats::get_stats), &[&[PARAMETERS, NAMESPACE, BUSY]])
    .add(Read, All, routes!(history::get_history), &[&[PARAMETERS, BUSY]])
    .add(Read, All, routes!(nodes::get_nodes), &[&[PARAMETERS, BUSY]])
    .add(Admin, All, routes!(snapshots::get_snapshots), &[&[PARAMETERS, BUSY]])
    .add(Admin, All, routes!(snapshots::post_snapshot), &[&[PARAMETERS, WHILE_RUNNING, BUSY]])
    .add(Admin, All, routes!(snapshots::get_export), &[&[PARAMETERS, WHILE_RUNNING, BUSY]])
    .add(Admin, All, routes!(changes::get_changes), OF_CHANGES)
    .add(Admin, All, routes!(lead::post_stand_back), &[&[PARAMETERS, OF_NODE, BUSY]])
    .add(Nothing, Named, routes!(health::get_healthz), &[])
    .add(Nothing, Named, routes!(health::get_readyz), &[&[READINESS]])
    .add(Nothing, Named, routes!(health::get_readyz_writes), &[&[READINESS, PASSES_ON]])
    .add(Nothing, Named, routes!(health::get_readyz_reads), &[&[PARAMETERS, READINESS]])
    .add(Read, All, routes!(metrics::get_metrics), &[])
    .add(Token, Named, routes!(me::get_me), &[&[PARAMETERS, BUSY]])
    .add(Token, Named, routes!(get_openapi), &[&[PARAMETERS, BUSY]])
    .add(Nothing, Named, console_file(routes!(console::get_page)), &[&[BUSY]])
    .add(Nothing, Named, console_file(routes!(console::get_file)), &[&[ONE_FILE, BUSY]])
    .add(Nothing, Named, console_file(routes!(console::get_icon)), &[&[BUSY]])
}

/// A file of the console, with headers of its own where other replies have those of [`observe`].
fn console_file(
    (schemas, paths, methods): UtoipaMethodRouter<Arc<HttpService>>,
) -> UtoipaMethodRouter<Arc<HttpService>> {
    let header =
        |name, value| SetResponseHeaderLayer::overriding(name, HeaderValue::from_static(value));
    let policy = header(CONTENT_SECURITY_POLICY, console::CONTENT_POLICY);
    (schemas, paths, methods.layer((policy, header(CACHE_CONTROL, console::CACHING))))
}

/// The routes, and what each asks of a token.
struct Routes {
    router: OpenApiRouter<Arc<HttpService>>,
    rules: RouteRules,
}

impl Routes {
    /// Adds handlers of one path with what they ask of a token, and the errors that they give.
    fn add(
        mut self,
        need: impl Into<Need>,
        namespaces: Concerned,
        mut handlers: UtoipaMethodRouter<Arc<HttpService>>,
        problems: &[&[ErrorGroup]],
    ) -> Self {
        let (_, paths, _) = &mut handlers;
        let rule = Rule { need: need.into(), namespaces };
        self.rules.add(paths, rule);
        let problems = problems.concat();
        for (_, operation) in paths.paths.values_mut().flat_map(access::operations) {
            problems::describe(operation, &problems, rule);
            if rule.need == Permission::Read.into() {
                operation
                    .parameters
                    .get_or_insert_default()
                    .extend(schema::parameters(Freshness::FIELDS.iter()).into_iter().map(RefOr::T));
            }
            operation.extensions = schema::exclusions(operation.parameters.as_deref());
        }
        Self { router: self.router.routes(handlers), ..self }
    }
}

/// What each route asks of a token.
fn rules() -> &'static RouteRules {
    static RULES: OnceLock<RouteRules> = OnceLock::new();
    RULES.get_or_init(|| routes().rules)
}

/// The API over a service.
pub fn router(service: Arc<HttpService>) -> Router {
    let observer = RequestObserver::new(Arc::clone(&service), rules());
    let (router, _) = routes().router.split_for_parts();
    router
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(observer, observe))
        .with_state(service)
}

/// The description of the API of a service with tokens: each operation names the permission that it
/// needs.
pub fn openapi() -> OpenApi {
    described(true)
}

/// The description of the API of a service that may need tokens.
fn described(needs_tokens: bool) -> OpenApi {
    let mut document = routes().router.into_openapi();
    access::describe(&mut document, rules(), needs_tokens);
    document
}

/// The OpenAPI document.
#[utoipa::path(get, path = "/openapi.json", tag = "operations",
    responses((status = 200, description = "This document", body = Object)))]
pub(crate) async fn get_openapi(
    State(http): State<Arc<HttpService>>,
    _: NoParameters,
) -> impl IntoResponse {
    let text = http.description.get_or_init(|| {
        let mut document = described(http.access.is_on());
        schema::limit_distance(&mut document, http.service.options().defaults.distance_max);
        document.to_json().expect("an OpenAPI document is JSON")
    });
    ([(CONTENT_TYPE, "application/json")], text.clone())
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
