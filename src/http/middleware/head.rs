//! The checks on the head of every request that come before its token.
//!
//! They keep foreign web pages out. A browser sends the requests of a page to every address that it
//! can reach, and a host name of the page may resolve to a loopback address (DNS rebinding). So the
//! `Host` must be a name of this service, and a page of another site may neither write nor export.
//! `Host` and `Transfer-Encoding` are validated as RFC 9112 requires (sections 3.2 and 6.1).

use axum::extract::Request;
use axum::http;
use axum::http::header::{CONNECTION, HOST, HeaderName, ORIGIN, TRANSFER_ENCODING};
use axum::http::{HeaderValue, Method, Version};

use crate::http::host::Authority;
use crate::http::problem::{Code, Problem, quoted};
use crate::http::request::body;
use crate::http::service::HttpService;

/// Where browsers say how the page that sends a request relates to this service.
pub(crate) const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The route whose reply contains the secrets of the data directory.
const EXPORT: &str = "/v1/snapshots/export";

/// The route that streams all documents to clients that accept lines of JSON.
const DOCUMENTS: &str = "/v1/documents";

/// Lets a request through, or says why not.
pub(crate) fn check(
    http: &HttpService,
    route: Option<&str>,
    request: &Request,
) -> Result<(), Problem> {
    known_coding(request)?;
    let host = host(request)?;
    let names = &http.options.host_names;
    // A page that reaches the service by a name of its own has no token to send.
    let is_restricted = !http.access.is_on() || !names.is_empty();
    if let Some(host) = &host
        && is_restricted
        && !names.accept(host)
    {
        return Err(misdirected(host));
    }
    same_site(route, request)?;
    same_origin(request, host.as_ref())
}

/// Refuses a body with a transfer coding other than chunked, the only one that hyper decodes.
fn known_coding(request: &Request) -> Result<(), Problem> {
    let mut codings = request.headers().get_all(TRANSFER_ENCODING).iter();
    let is_chunked =
        |coding: &HeaderValue| coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
    if codings.next().is_none_or(is_chunked) && codings.next().is_none() {
        return Ok(());
    }
    let detail =
        "The only supported Transfer-Encoding is chunked; send the body without any other.";
    Err(ends_connection(Problem::new(Code::UnsupportedTransferCoding, detail)))
}

/// The authority of a request: that of an absolute target, else its `Host`.
///
/// A request of HTTP/1.0 may have none, like those of simple health probes. No browser sends such a
/// request, so no web page can.
fn host(request: &Request) -> Result<Option<Authority<'_>>, Problem> {
    let mut values = request.headers().get_all(HOST).iter();
    let (first, second) = (values.next(), values.next());
    if second.is_some() {
        return Err(invalid_host("The request has more than one Host header; send exactly one."));
    }
    let Some(value) = first else {
        if request.version() < Version::HTTP_11 {
            return Ok(None);
        }
        return Err(invalid_host("The request has no Host header, which HTTP/1.1 requires."));
    };
    let target = request.uri().authority().map(http::uri::Authority::as_str);
    let parsed = value.to_str().ok().and_then(Authority::parse);
    let parsed = parsed.and_then(|host| target.map_or(Some(host), Authority::parse));
    let Some(authority) = parsed else {
        return Err(invalid_host("Host must be a name or an address, with or without a port."));
    };
    Ok(Some(authority))
}

fn invalid_host(detail: &'static str) -> Problem {
    ends_connection(Problem::new(Code::InvalidHost, detail))
}

/// After an ambiguous head, nothing on the connection can be trusted.
fn ends_connection(problem: Problem) -> Problem {
    problem.with_header(CONNECTION, HeaderValue::from_static("close"))
}

fn misdirected(host: &Authority<'_>) -> Problem {
    let detail = format!(
        "This service is not known as {}. Use localhost or 127.0.0.1, or add the name to \
         server.host_names.",
        quoted(host.text)
    );
    Problem::new(Code::HostNotAllowed, detail)
}

/// Whether the reply is a stream of everything, of which only a few may run at one time.
fn exports(route: Option<&str>, request: &Request) -> bool {
    let is_list = route == Some(DOCUMENTS) && body::accepts_ndjson(request.headers());
    is_list || route == Some(EXPORT)
}

/// Trusts `Sec-Fetch-Site`, in which a browser says where a request comes from. Links on other
/// sites may be followed, since their pages cannot read the replies, except to an export.
fn same_site(route: Option<&str>, request: &Request) -> Result<(), Problem> {
    let mut sites = request.headers().get_all(SEC_FETCH_SITE).iter().map(HeaderValue::as_bytes);
    let is_foreign = sites.any(|site| matches!(site, b"cross-site" | b"same-site"));
    let only_reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if !is_foreign || (only_reads && !exports(route, request)) {
        return Ok(());
    }
    let detail = "A page of another site sent this request; only pages of this service may.";
    Err(Problem::new(Code::CrossSite, detail))
}

/// Refuses a request whose `Origin`, the page that sent it, is not this service. Browsers that
/// send no `Sec-Fetch-Site` send it with every request that a script of another site makes and
/// with every form.
fn same_origin(request: &Request, host: Option<&Authority<'_>>) -> Result<(), Problem> {
    let mut origins = request.headers().get_all(ORIGIN).iter();
    let agrees = |origin: &HeaderValue| {
        let origin = origin.to_str().ok()?;
        Some(host?.is_of_origin(origin))
    };
    if origins.all(|origin| agrees(origin) == Some(true)) {
        return Ok(());
    }
    let detail = "The Origin of this request is not its Host: only pages of this service may send \
                  requests. A proxy must pass the Host header on unchanged.";
    Err(Problem::new(Code::CrossSite, detail))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn request(method: &str, target: &str, headers: &[(&str, &str)]) -> Request {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    #[test]
    fn the_authority_of_an_absolute_target_wins_over_the_host() {
        let absolute = request("GET", "http://evil.example/healthz", &[("host", "localhost")]);
        assert_eq!(host(&absolute).unwrap().unwrap().text, "evil.example");
        let absolute = request("GET", "http://localhost:1/healthz", &[("host", "evil.example")]);
        assert_eq!(host(&absolute).unwrap().unwrap().text, "localhost:1");
        let absolute = request("GET", "http://localhost/healthz", &[]);
        assert!(host(&absolute).unwrap_err().is(Code::InvalidHost));
    }

    #[test]
    fn a_page_of_another_site_may_follow_links_only() {
        let foreign = ["cross-site", "same-site"];
        let own = ["same-origin", "none", "something new"];
        let check = |method: &str, route: &str, site: &str| {
            let headers = [("host", "localhost"), ("sec-fetch-site", site)];
            same_site(Some(route), &request(method, route, &headers)).is_ok()
        };
        for method in ["GET", "HEAD", "POST", "DELETE", "OPTIONS"] {
            for site in own {
                assert!(check(method, "/v1/stats", site) && check(method, EXPORT, site));
            }
            for site in foreign {
                let only_reads = matches!(method, "GET" | "HEAD");
                assert_eq!(check(method, "/v1/stats", site), only_reads, "{method} {site}");
                assert!(!check(method, EXPORT, site), "{method} {site}");
            }
        }
        // Whatever else the browser, or something on the way, has added.
        let twice = [("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")];
        assert!(same_site(None, &request("POST", "/", &twice)).is_err());
    }

    #[test]
    fn every_origin_of_a_request_must_agree() {
        let check = |origins: &[&str], host: Option<&str>| {
            let headers: Vec<_> = origins.iter().map(|origin| ("origin", *origin)).collect();
            let host = host.and_then(Authority::parse);
            same_origin(&request("GET", "/", &headers), host.as_ref()).is_ok()
        };
        assert!(check(&[], Some("localhost")) && check(&[], None));
        assert!(check(&["http://localhost"], Some("localhost")));
        assert!(!check(&["http://localhost"], None));
        assert!(!check(&["http://localhost", "http://evil.example"], Some("localhost")));
    }
}
