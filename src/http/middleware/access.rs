//! Whether a request is let in, and the reply if it is not. What each route asks for stands in the
//! list of routes ([`crate::http::router()`]); the OpenAPI document is marked from it.

use std::collections::HashMap;

use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nearprint_engine::Client;
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::{Operation, PathItem, Paths};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};

use crate::access::{Admitted, Denied, Need, Permission, Rights};
use crate::http::problem::{Code, Problem};
use crate::http::routes::jobs;
use crate::http::service::HttpService;

/// The ways to present a token: names in the OpenAPI document, and what they are.
const SCHEMES: [(&str, HttpAuthScheme, &str); 2] = [
    (
        "token",
        HttpAuthScheme::Bearer,
        "A token of this service, with the scope that the operation names",
    ),
    ("password", HttpAuthScheme::Basic, "The same token as the password of any user"),
];

/// What the requests of a route ask of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) need: Need,
    pub(crate) namespaces: Concerned,
}

/// Which namespaces a request concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Concerned {
    /// None, or those for which the handler asks [`nearprint_service::AllowedNamespaces`] once it
    /// knows them.
    Named,
    /// All at once: a token that is limited to namespaces is refused.
    All,
}

/// The rules of all routes: for each path, those of its methods.
#[derive(Debug, Default)]
pub(crate) struct RouteRules(HashMap<String, Vec<(Method, Rule)>>);

impl RouteRules {
    /// Sets the rule of some operations.
    pub(crate) fn add(&mut self, paths: &mut Paths, rule: Rule) {
        for (path, item) in &mut paths.paths {
            let methods = operations(item).map(|(method, _)| (method, rule));
            self.0.entry(path.clone()).or_default().extend(methods);
        }
    }

    /// The paths of all routes, and the methods of each.
    pub(crate) fn methods(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = &str>)> {
        self.0
            .iter()
            .map(|(path, rules)| (path.as_str(), rules.iter().map(|(method, _)| method.as_str())))
    }

    /// Whether a request may change what is stored.
    pub(crate) fn writes(&self, method: &Method, route: Option<&str>) -> bool {
        self.of(method, route).need == Permission::Write.into()
    }

    /// Whether a request reads what is stored.
    pub(crate) fn reads(&self, method: &Method, route: Option<&str>) -> bool {
        self.of(method, route).need == Permission::Read.into()
    }

    /// The rule of a request. `route` is `None` for a path that matches no route.
    fn of(&self, method: &Method, route: Option<&str>) -> Rule {
        if *method == Method::OPTIONS {
            return Rule { need: Need::Nothing, namespaces: Concerned::Named };
        }
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let methods = route.and_then(|path| self.0.get(path)).map_or(&[][..], Vec::as_slice);
        match (methods.iter().find(|(known, _)| known == method), methods.first()) {
            (Some((_, rule)), _) => *rule,
            // A method that the route does not have.
            (None, Some((_, other))) => Rule { need: Permission::Admin.into(), ..*other },
            (None, None) => Rule { need: Need::Token, namespaces: Concerned::Named },
        }
    }
}

/// Lets a request through and notes whose it is and what it may reach, or says why not. Costs
/// nothing when tokens are off. Whoever may begin a search for groups may also end it.
pub(crate) fn check(
    http: &HttpService,
    rules: &RouteRules,
    route: Option<&str>,
    request: &mut Request,
) -> Result<(), Problem> {
    if !http.access.is_on() {
        return Ok(());
    }
    let rule = rules.of(request.method(), route);
    let writes = rule.need == Permission::Write.into();
    let ends_search = writes && jobs::is_of_search(http, route, request.uri());
    let need = if ends_search { Permission::Read.into() } else { rule.need };
    let presented = presented(request.headers());
    let admitted = http.access.admit(presented.as_deref(), need).map_err(|denied| {
        // The log names the token of a request that is refused, too.
        if let Some(name) = presented.as_deref().and_then(|token| http.access.name_of(token)) {
            request.extensions_mut().insert(Client::Token(name));
        }
        problem(denied)
    })?;
    let Admitted { namespaces, token } = admitted;
    if let Some(name) = token {
        request.extensions_mut().insert(Client::Token(name));
    }
    if namespaces.is_limited() {
        if rule.namespaces == Concerned::All {
            namespaces.check_all()?;
        }
        request.extensions_mut().insert(namespaces);
    }
    Ok(())
}

/// What the token of a request allows.
pub(crate) fn rights(http: &HttpService, headers: &HeaderMap) -> Result<Rights, Problem> {
    http.access.rights(presented(headers).as_deref()).map_err(problem)
}

/// The token of `Authorization: Bearer TOKEN`, or the password of `Authorization: Basic`.
fn presented(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
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
        Denied::NoPermission(permission) => (
            Problem::new(
                Code::ScopeMissing,
                format!("The token of this request does not have the scope {}.", permission.name()),
            ),
            format!(
                "Bearer realm=\"nearprint\", error=\"insufficient_scope\", scope=\"{}\"",
                permission.name()
            ),
        ),
        Denied::TooMany(wait) => {
            let detail = "The token of this request was used more often than its rate allows.";
            return Problem::new(Code::RateLimited, detail).retry_after(Some(wait));
        }
    };
    let challenge = HeaderValue::from_str(&challenge).expect("names and quotes are ASCII");
    problem.with_header(WWW_AUTHENTICATE, challenge)
}

/// Marks each operation of the description with the permission that it needs, in either of two
/// schemes; unless `needs_tokens`, nothing will do too.
pub(crate) fn describe(document: &mut OpenApi, rules: &RouteRules, needs_tokens: bool) {
    let components = document.components.get_or_insert_default();
    for (name, kind, what) in SCHEMES {
        let scheme = HttpBuilder::new().scheme(kind).description(Some(what)).build();
        components.add_security_scheme(name, SecurityScheme::Http(scheme));
    }
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            let scopes: Option<Vec<&str>> = match rules.of(&method, Some(path)).need {
                Need::Nothing => None,
                Need::Token => Some(Vec::new()),
                Need::Permission(permission) => Some(vec![permission.name()]),
            };
            let Some(scopes) = scopes else {
                operation.security = Some(Vec::new());
                continue;
            };
            let nothing = (!needs_tokens).then(SecurityRequirement::default);
            let scheme = |(name, ..): (&str, _, _)| SecurityRequirement::new(name, scopes.clone());
            operation.security = Some(nothing.into_iter().chain(SCHEMES.map(scheme)).collect());
        }
    }
}

/// The operations of a path, with their methods.
pub(crate) fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
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
    fn a_method_that_a_route_does_not_have_is_for_administrators() {
        let rule = Rule { need: Permission::Read.into(), namespaces: Concerned::All };
        let rules = RouteRules(HashMap::from([("/v1/a".to_owned(), vec![(Method::GET, rule)])]));
        for method in [Method::GET, Method::HEAD] {
            assert_eq!(rules.of(&method, Some("/v1/a")), rule);
        }
        let admin = Rule { need: Permission::Admin.into(), ..rule };
        assert_eq!(rules.of(&Method::POST, Some("/v1/a")), admin);
        assert_eq!(rules.of(&Method::GET, None).need, Need::Token);
        for route in [Some("/v1/a"), None] {
            assert_eq!(rules.of(&Method::OPTIONS, route).need, Need::Nothing);
        }
    }

    #[test]
    fn a_token_comes_as_bearer_or_as_the_password_of_basic() {
        let presented = |value: &str| {
            let request = Request::builder().header(AUTHORIZATION, value);
            presented(request.body(()).unwrap().headers())
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
