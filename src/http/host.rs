//! Names and addresses of hosts, as `Host`, `Origin` and `server.host_names` write them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A host with or without a port, as RFC 3986, section 3.2, writes them; without user information.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Authority<'a> {
    pub(crate) text: &'a str,
    host: Host<'a>,
    port: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Host<'a> {
    Address(IpAddr),
    Name(&'a str),
}

impl<'a> Authority<'a> {
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
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

    /// Whether a browser that reaches this authority would treat it as `origin`. The service may be
    /// behind a proxy with TLS, so the scheme of the origin only decides the default port.
    pub(crate) fn is_of_origin(&self, origin: &str) -> bool {
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

    /// Whether it is always the machine itself. Names below `localhost` are reserved for that (RFC
    /// 6761, section 6.3): nobody can register one to rebind it.
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

/// The names of the service in addition to those of the loopback interface (`server.host_names`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostNames(Vec<String>);

impl HostNames {
    /// At most this many names may be listed.
    pub const COUNT_MAX: usize = 100;

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Ports are not compared, because the service does not know the port of a proxy before it.
    pub(crate) fn accept(&self, authority: &Authority<'_>) -> bool {
        let is_listed =
            |name: &String| Host::parse(name).is_some_and(|name| name.is(authority.host));
        authority.host.is_loopback() || self.0.iter().any(is_listed)
    }
}

/// Why a list of host names is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadHostNames;

impl FromStr for HostNames {
    type Err = BadHostNames;

    /// Reads names, separated by commas; an empty text has none.
    fn from_str(text: &str) -> Result<Self, BadHostNames> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        // An asterisk would look like a pattern, and match nothing.
        let is_valid = |name: &String| !name.contains('*') && Host::parse(name).is_some();
        if names.len() > Self::COUNT_MAX || !names.iter().all(is_valid) {
            return Err(BadHostNames);
        }
        Ok(Self(names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_text_that_is_no_host_is_not_parsed() {
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
    fn a_list_of_names_has_nothing_but_names() {
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
