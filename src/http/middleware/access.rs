//! Which token a route needs, and the reply to a request without it.
//!
//! [`need`] is the only table of scopes; the OpenAPI document is marked from it. A route that is
//! missing there needs the scope `admin`, and one that is missing in [`is_for_limited_tokens`] is
//! refused to tokens that are limited to namespaces. So a forgotten route is closed, not open.

use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};

use crate::access::{Denied, Need, Scope};
use crate::http::problem::{Code, Problem};
use crate::http::request::reach::NamespaceAccess;
use crate::http::service::Service;

/// The name of the scheme in the OpenAPI document.
const SCHEME: &str = "token";

/// What a request needs. `route` is `None` for a path that matches no route.
pub(crate) fn need(method: &Method, route: Option<&str>) -> Need {
    let Some(route) = route else { return Need::Token };
    let method = if *method == Method::HEAD { "GET" } else { method.as_str() };
    match (method, route) {
        ("GET", "/healthz" | "/readyz") => Need::Nothing,
        ("GET", "/" | "/page.css" | "/page.js" | "/openapi.json") => Need::Token,
        (
            "GET",
            "/metrics"
            | "/v1/stats"
            | "/v1/query"
            | "/v1/documents"
            | "/v1/documents/{id}"
            | "/v1/fingerprints/{hex}"
            | "/v1/namespaces"
            | "/v1/jobs"
            | "/v1/jobs/{job}"
            | "/v1/groups"
            | "/v1/groups/{job}"
            | "/v1/groups/{job}/{group}"
            | "/v1/originals",
        )
        | (
            "POST",
            "/v1/fingerprint"
            | "/v1/fingerprint/batch"
            | "/v1/compare"
            | "/v1/query"
            | "/v1/query/batch"
            | "/v1/groups",
        )
        // A job that finds groups changes nothing that is stored.
        | ("DELETE", "/v1/groups/{job}") => Need::Scope(Scope::Read),
        (
            "POST",
            "/v1/insert"
            | "/v1/insert/batch"
            | "/v1/check-and-insert"
            | "/v1/check-and-insert/batch"
            | "/v1/purge",
        )
        | (
            "DELETE",
            "/v1/documents"
            | "/v1/documents/{id}"
            | "/v1/fingerprints/{hex}"
            | "/v1/namespaces/{name}"
            | "/v1/jobs/{job}",
        ) => Need::Scope(Scope::Write),
        _ => Need::Scope(Scope::Admin),
    }
}

/// Whether a token that is limited to namespaces may use a route. Such a route asks [`NamespaceAccess`] as
/// soon as it knows the namespace that the request concerns, or concerns no stored document. The
/// others concern all namespaces at once. `route` is `None` for a path that matches no route.
fn is_for_limited_tokens(route: Option<&str>) -> bool {
    let Some(route) = route else { return true };
    matches!(
        route,
        "/healthz"
            | "/readyz"
            | "/"
            | "/page.css"
            | "/page.js"
            | "/openapi.json"
            | "/v1/fingerprint"
            | "/v1/fingerprint/batch"
            | "/v1/compare"
            | "/v1/query"
            | "/v1/query/batch"
            | "/v1/insert"
            | "/v1/insert/batch"
            | "/v1/check-and-insert"
            | "/v1/check-and-insert/batch"
            | "/v1/documents"
            | "/v1/documents/{id}"
            | "/v1/fingerprints/{hex}"
            | "/v1/namespaces"
            | "/v1/namespaces/{name}"
            | "/v1/purge"
            | "/v1/jobs"
            | "/v1/jobs/{job}"
            | "/v1/groups"
            | "/v1/groups/{job}"
            | "/v1/groups/{job}/{group}"
            | "/v1/originals"
            | "/v1/stats"
    )
}

/// Lets a request through and notes what it may reach, or says why not. Costs nothing when tokens
/// are off.
pub(crate) fn check(
    service: &Service,
    route: Option<&str>,
    request: &mut Request,
) -> Result<(), Problem> {
    if !service.access.is_on() {
        return Ok(());
    }
    let need = need(request.method(), route);
    let presented = presented(request);
    let namespaces = service.access.admit(presented.as_deref(), need).map_err(|denied| {
        let problem = problem(denied);
        // For the web page, make the browser ask for the token; it then sends it with every request.
        if route == Some("/") && matches!(denied, Denied::NoToken | Denied::UnknownToken) {
            let basic = HeaderValue::from_static("Basic realm=\"nearprint\", charset=\"UTF-8\"");
            return problem.with_header(WWW_AUTHENTICATE, basic);
        }
        problem
    })?;
    if namespaces.is_limited() {
        let reach = NamespaceAccess::new(namespaces);
        if !is_for_limited_tokens(route) {
            reach.check_all()?;
        }
        request.extensions_mut().insert(reach);
    }
    Ok(())
}

/// The token of `Authorization: Bearer TOKEN`, or the password of `Authorization: Basic`.
fn presented(request: &Request) -> Option<String> {
    let value = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, rest) = value.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.trim().to_owned());
    }
    if scheme.eq_ignore_ascii_case("basic") {
        let pair = String::from_utf8(STANDARD.decode(rest.trim()).ok()?).ok()?;
        return pair.split_once(':').map(|(_, password)| password.to_owned());
    }
    None
}

fn problem(denied: Denied) -> Problem {
    let (problem, challenge) = match denied {
        Denied::NoToken => (
            Problem::new(
                Code::TokenMissing,
                "This service requires a token: send the header Authorization: Bearer TOKEN.",
            ),
            "Bearer realm=\"nearprint\"".to_owned(),
        ),
        Denied::UnknownToken => (
            Problem::new(
                Code::TokenUnknown,
                "The token of this request is not known to this service.",
            ),
            "Bearer realm=\"nearprint\", error=\"invalid_token\"".to_owned(),
        ),
        Denied::NoScope(scope) => (
            Problem::new(
                Code::ScopeMissing,
                format!("The token of this request does not have the scope {}.", scope.name()),
            ),
            format!(
                "Bearer realm=\"nearprint\", error=\"insufficient_scope\", scope=\"{}\"",
                scope.name()
            ),
        ),
        Denied::TooMany(wait) => {
            let detail = "The token of this request was used more often than its rate allows.";
            return Problem::new(Code::RateLimited, detail).retry_after(wait);
        }
    };
    let challenge = HeaderValue::from_str(&challenge).expect("names and quotes are ASCII");
    problem.with_header(WWW_AUTHENTICATE, challenge)
}

/// Marks each operation of the description with the scope that it needs.
pub(crate) fn describe(document: &mut OpenApi) {
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A token of this service, with the scope that the operation names"))
        .build();
    let components = document.components.get_or_insert_default();
    components.add_security_scheme(SCHEME, SecurityScheme::Http(scheme));
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            let scopes: Option<Vec<&str>> = match need(&method, Some(path)) {
                Need::Nothing => None,
                Need::Token => Some(Vec::new()),
                Need::Scope(scope) => Some(vec![scope.name()]),
            };
            let requirement = |scopes| SecurityRequirement::new(SCHEME, scopes);
            operation.security = Some(scopes.map(requirement).into_iter().collect());
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    let all = [
        (Method::GET, &mut item.get),
        (Method::POST, &mut item.post),
        (Method::PUT, &mut item.put),
        (Method::PATCH, &mut item.patch),
        (Method::DELETE, &mut item.delete),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_in_the_table() {
        let admin = ["GET /v1/snapshots", "POST /v1/snapshots", "GET /v1/snapshots/export"];
        let mut document = crate::http::openapi();
        for (path, item) in &mut document.paths.paths {
            for (method, _) in operations(item) {
                let route = format!("{method} {path}");
                let is_admin = need(&method, Some(path)) == Need::Scope(Scope::Admin);
                assert_eq!(is_admin, admin.contains(&route.as_str()), "{route}");
            }
        }
        assert_eq!(need(&Method::POST, Some("/v1/new")), Need::Scope(Scope::Admin));
        assert_eq!(need(&Method::GET, None), Need::Token);
    }

    #[test]
    fn a_token_comes_as_bearer_or_as_the_password_of_basic() {
        let presented = |value: &str| {
            let request = Request::builder().header(AUTHORIZATION, value);
            presented(&request.body(axum::body::Body::empty()).unwrap())
        };
        let some = |token: &str| Some(token.to_owned());
        assert_eq!(presented("Bearer abc"), some("abc"));
        assert_eq!(presented("bearer  abc "), some("abc"));
        // "me:abc:d"
        assert_eq!(presented("Basic bWU6YWJjOmQ="), some("abc:d"));
        for nothing in ["abc", "Basic abc", "Basic bWU=", "Digest abc", ""] {
            assert_eq!(presented(nothing), None, "{nothing}");
        }
    }
}
