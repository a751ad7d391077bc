//! The checks on the head of every request that come before its token.
//!
//! They keep web pages out. A browser sends what a page asks for to every address that it can
//! reach, and a name that belongs to the page may resolve to a loopback address (DNS rebinding).
//! So the `Host` must be a name of this service, and a page of another site may neither write nor
//! export. `Host` and `Transfer-Encoding` are validated as RFC 9112 requires (sections 3.2 and 6.1).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use axum::extract::Request;
use axum::http;
use axum::http::header::{CONNECTION, HOST, HeaderName, ORIGIN, TRANSFER_ENCODING};
use axum::http::{HeaderValue, Method, Version};

use crate::http::problem::{Code, Problem, quoted};
use crate::http::service::Service;

/// Where browsers say how the page that sends a request relates to this service.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The route whose reply holds the secrets of the data directory.
const EXPORT: &str = "/v1/snapshots/export";

/// Lets a request through, or says why not.
pub(crate) fn check(
    service: &Service,
    route: Option<&str>,
    request: &Request,
) -> Result<(), Problem> {
    known_coding(request)?;
    let host = host(request)?;
    let names = &service.options.host_names;
    // A page that reaches the service by a name of its own has no token to send.
    let is_restricted = !service.access.is_on() || !names.is_empty();
    if let Some(host) = &host
        && is_restricted
        && !names.accept(host)
    {
        return Err(misdirected(host));
    }
    same_site(route, request)?;
    same_origin(request, host.as_ref())
}

/// Refuses a body with a coding that was not undone: hyper undoes the chunks and nothing else.
fn known_coding(request: &Request) -> Result<(), Problem> {
    let mut codings = request.headers().get_all(TRANSFER_ENCODING).iter();
    let is_chunked =
        |coding: &HeaderValue| coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
    if codings.next().is_none_or(is_chunked) && codings.next().is_none() {
        return Ok(());
    }
    let detail = "The only Transfer-Encoding that is understood is chunked; send the body without \
                  any other.";
    Err(ends_connection(Problem::new(Code::UnsupportedTransferCoding, detail)))
}

/// The authority that a request is for: that of an absolute target, else its `Host`.
///
/// A request of HTTP/1.0 may have none, as simple health probes do. No browser sends such a
/// request, so it comes from no web page.
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

/// Where a head is ambiguous, so is what follows it.
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

/// Believes the browser about where a request comes from. Links of other sites may be followed,
/// since their pages cannot read the replies; an export is too precious even for that.
fn same_site(route: Option<&str>, request: &Request) -> Result<(), Problem> {
    let mut sites = request.headers().get_all(SEC_FETCH_SITE).iter().map(HeaderValue::as_bytes);
    let is_foreign = sites.any(|site| matches!(site, b"cross-site" | b"same-site"));
    let only_reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if !is_foreign || (only_reads && route != Some(EXPORT)) {
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

/// A host with or without a port, as RFC 3986, section 3.2, writes them; without user information.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Authority<'a> {
    text: &'a str,
    host: Host<'a>,
    port: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Host<'a> {
    Address(IpAddr),
    Name(&'a str),
}

impl<'a> Authority<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = if text.starts_with('[') {
            text.split_inclusive(']')
        } else {
            text.split_inclusive(':')
        };
        let host = parts.next()?;
        let host = host.strip_suffix(':').unwrap_or(host);
        let port = match text.strip_prefix(host)?.strip_prefix(':') {
            None if text.len() == host.len() => None,
            Some("") => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            None | Some(_) => return None,
        };
        Some(Self { text, host: Host::parse(host)?, port })
    }

    /// Whether a browser that reaches this authority would call `origin` the same. The service may
    /// stand behind a proxy with TLS, so the scheme is the origin's own: it only says which port
    /// is meant where none is named.
    fn is_of_origin(&self, origin: &str) -> bool {
        let Some((scheme, authority)) = origin.split_once("://") else { return false };
        let default_port = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return false,
        };
        let port = |authority: &Authority<'_>| authority.port.unwrap_or(default_port);
        Authority::parse(authority)
            .is_some_and(|origin| origin.host.is(self.host) && port(&origin) == port(self))
    }
}

impl<'a> Host<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix('[') {
            let address: Ipv6Addr = rest.strip_suffix(']')?.parse().ok()?;
            // ::ffff:127.0.0.1 is another way to write 127.0.0.1.
            return Some(Self::Address(IpAddr::V6(address).to_canonical()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Some(Self::Address(address.into()));
        }
        let is_allowed =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(&byte);
        // A fully qualified name may end with a dot.
        let name = text.strip_suffix('.').unwrap_or(text);
        (!name.is_empty() && name.bytes().all(is_allowed)).then_some(Self::Name(name))
    }

    fn is(self, other: Host<'_>) -> bool {
        match (self, other) {
            (Self::Address(one), Host::Address(other)) => one == other,
            (Self::Name(one), Host::Name(other)) => one.eq_ignore_ascii_case(other),
            (Self::Address(_), Host::Name(_)) | (Self::Name(_), Host::Address(_)) => false,
        }
    }

    /// Whether it can only mean the machine itself. Names below `localhost` are reserved for that
    /// (RFC 6761, section 6.3): nobody can register one to rebind it.
    fn is_loopback(self) -> bool {
        match self {
            Self::Address(address) => address.is_loopback(),
            Self::Name(name) => {
                let last = name.rsplit('.').next().unwrap_or(name);
                last.eq_ignore_ascii_case("localhost")
            }
        }
    }
}

/// The names of the service besides those of the loopback interface (`server.host_names`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostNames(Vec<String>);

impl HostNames {
    /// At most this many names may be listed.
    pub const COUNT_MAX: usize = 100;

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A service listens on one port and knows nothing of the port that a proxy listens on, so
    /// ports are not compared.
    fn accept(&self, asked: &Authority<'_>) -> bool {
        let is_listed = |name: &String| Host::parse(name).is_some_and(|name| name.is(asked.host));
        asked.host.is_loopback() || self.0.iter().any(is_listed)
    }
}

/// Why a list of host names is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadHostNames;

impl FromStr for HostNames {
    type Err = BadHostNames;

    /// Reads names with commas between them; an empty text is no name.
    fn from_str(text: &str) -> Result<Self, BadHostNames> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        // No name has an asterisk: it would look like a pattern and match nothing.
        let is_valid = |name: &String| !name.contains('*') && Host::parse(name).is_some();
        if names.len() > Self::COUNT_MAX || !names.iter().all(is_valid) {
            return Err(BadHostNames);
        }
        Ok(Self(names))
    }
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
    fn only_loopback_names_and_listed_ones_are_accepted() {
        let listed: HostNames = "near.example, 10.0.0.5,[fd00::5]".parse().unwrap();
        let accepts = |names: &HostNames, host: &str| {
            Authority::parse(host).is_some_and(|host| names.accept(&host))
        };
        for host in [
            "localhost",
            "LOCALHOST:7878",
            "localhost.",
            "localhost:",
            "near.localhost:80",
            "127.0.0.1",
            "127.255.0.9:7878",
            "[::1]",
            "[0:0::1]:7878",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert!(accepts(&HostNames::default(), host), "{host}");
            assert!(accepts(&listed, host), "{host}");
        }
        for host in ["near.example", "Near.Example.:8443", "10.0.0.5:7878", "[FD00:0::5]:1"] {
            assert!(accepts(&listed, host), "{host}");
            assert!(!accepts(&HostNames::default(), host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "evillocalhost",
            "127.0.0.1.evil.example",
            "127.1",
            "128.0.0.1",
            // Browsers take it to this machine, so a page can be served from it.
            "0.0.0.0:7878",
            "[::]",
            "[::2]",
            "sub.near.example",
        ] {
            assert!(!accepts(&listed, host), "{host}");
        }
    }

    #[test]
    fn what_is_no_host_is_not_parsed() {
        for text in [
            "",
            ":80",
            ".",
            "a b",
            "a,b:x",
            "localhost:80:80",
            "localhost:65536",
            "localhost:-1",
            "localhost:+1",
            "user@localhost",
            "localhost/",
            "http://localhost",
            "[::1",
            "[::1]80",
            "::1",
            "[127.0.0.1]",
            "[fe80::1%25lo]",
            "[]",
            "b\u{fc}cher.example",
        ] {
            assert_eq!(Authority::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_origin_agrees_with_a_host_of_the_same_name_and_port() {
        let agrees =
            |host: &str, origin: &str| Authority::parse(host).unwrap().is_of_origin(origin);
        for (host, origin) in [
            ("localhost:7878", "http://localhost:7878"),
            ("LocalHost:7878", "http://localhost:7878"),
            ("localhost:7878", "https://localhost:7878"),
            ("localhost", "http://localhost"),
            ("localhost:80", "http://localhost"),
            ("near.example", "https://near.example"),
            ("near.example", "https://near.example:443"),
            ("near.example:443", "https://near.example"),
            ("[::1]:7878", "http://[::1]:7878"),
        ] {
            assert!(agrees(host, origin), "{host} {origin}");
        }
        for (host, origin) in [
            ("localhost:7878", "null"),
            ("localhost:7878", ""),
            ("localhost:7878", "localhost:7878"),
            ("localhost:7878", "http://localhost"),
            ("localhost:7878", "http://localhost:3000"),
            ("localhost:7878", "http://127.0.0.1:7878"),
            ("localhost:7878", "http://evil.example:7878"),
            ("localhost:80", "https://localhost"),
            ("localhost", "https://localhost:80"),
            ("localhost", "chrome-extension://localhost"),
            ("localhost", "http://localhost/"),
            ("localhost", "http://user@localhost"),
            ("null", "null"),
        ] {
            assert!(!agrees(host, origin), "{host} {origin}");
        }
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

    #[test]
    fn a_list_of_names_has_names_alone() {
        let parse = |text: &str| text.parse::<HostNames>();
        assert_eq!(parse(" ").unwrap(), HostNames::default());
        assert_eq!(parse(" a.example ,b").unwrap().0, ["a.example", "b"]);
        for text in ["a,", ",", "a b", "a:80", "a:", "*.a", "http://a", "::1", "[::1]:1", "a;b c"] {
            assert_eq!(parse(text), Err(BadHostNames), "{text}");
        }
        let many = |count: usize| vec!["a"; count].join(",");
        assert!(parse(&many(HostNames::COUNT_MAX)).is_ok());
        assert!(parse(&many(HostNames::COUNT_MAX + 1)).is_err());
    }
}
