//! Namespaces: whose documents a token reaches.
//!
//! A document has the namespace that its client names, or belongs to the default namespace. In the
//! line of a token, `namespaces=` lists names, and prefixes that end with `*`:
//!
//! ```text
//! crawler  read,write   sha256:9f86d081...   namespaces=news/*,shop,a%2Cb
//! ```
//!
//! A comma, white space, `%`, `;` and a literal `*` at the end are percent-encoded there. Pure; a
//! check compares the namespace with at most [`NAMESPACES_MAX`] names.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use nearprint_engine::document::Namespace;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// The largest number of names in the line of a token: each is compared with the namespace of every
/// document in a request.
pub const NAMESPACES_MAX: usize = 100;

/// What is encoded in a line: whatever would end the name, the column or the line, and `*`, which
/// would make a prefix of it. White space outside ASCII is encoded like everything outside ASCII.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'*').add(b',').add(b';');

/// The namespaces that a token reaches: all of them, or only those with certain names. Cheap to
/// clone.
///
/// ```
/// use nearprint_service::namespaces::AllowedNamespaces;
/// let namespaces: AllowedNamespaces = "shop,news/*".parse().unwrap();
/// assert!(namespaces.admits(Some("shop")) && namespaces.admits(Some("news/fr")));
/// assert!(!namespaces.admits(Some("shops")) && !namespaces.admits(None));
/// assert!(AllowedNamespaces::ALL.admits(None));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedNamespaces(Option<Arc<[NamePattern]>>);

impl AllowedNamespaces {
    /// Every namespace, the default one included.
    pub const ALL: Self = Self(None);

    /// No namespace.
    pub fn none() -> Self {
        Self(Some(Arc::default()))
    }

    /// Only the namespaces with these names; never the default one.
    ///
    /// # Errors
    /// [`BadNamespaces::TooMany`] if there are more than [`NAMESPACES_MAX`].
    pub fn limited_to(names: Vec<NamePattern>) -> Result<Self, BadNamespaces> {
        if names.len() > NAMESPACES_MAX {
            return Err(BadNamespaces::TooMany);
        }
        Ok(Self(Some(names.into())))
    }

    /// Whether there is a namespace that is not reached. A limited token must not use an operation
    /// that concerns all namespaces at once, nor be shown a number that grows with what others do.
    pub const fn is_limited(&self) -> bool {
        self.0.is_some()
    }

    /// The names that are reached, and the prefixes of such; `None` if all namespaces are.
    pub fn patterns(&self) -> Option<&[NamePattern]> {
        self.0.as_deref()
    }

    /// Whether the namespace with this name is reached; `None` is the default namespace.
    pub fn admits(&self, name: Option<&str>) -> bool {
        let Some(names) = &self.0 else { return true };
        name.is_some_and(|name| names.iter().any(|pattern| pattern.matches(name)))
    }
}

/// Reads the list of a token's line.
impl FromStr for AllowedNamespaces {
    type Err = BadNamespaces;

    fn from_str(list: &str) -> Result<Self, BadNamespaces> {
        // One more than allowed is enough to refuse the list.
        let names = list.split(',').take(NAMESPACES_MAX + 1).map(NamePattern::decoded);
        Self::limited_to(names.collect::<Result<_, _>>()?)
    }
}

/// The list as a token's line has it; nothing for all namespaces.
impl fmt::Display for AllowedNamespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, name) in self.0.iter().flat_map(|names| names.iter()).enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{name}")?;
        }
        Ok(())
    }
}

/// The name of a namespace, or a prefix of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern {
    name: String,
    is_prefix: bool,
}

impl NamePattern {
    /// A name as it is, or a prefix followed by `*`.
    ///
    /// # Errors
    /// [`BadNamespaces::Length`].
    pub fn new(text: &str) -> Result<Self, BadNamespaces> {
        let (name, is_prefix) = without_star(text);
        Self::checked(name.to_owned(), is_prefix)
    }

    /// The same, percent-encoded.
    fn decoded(text: &str) -> Result<Self, BadNamespaces> {
        let (name, is_prefix) = without_star(text);
        // The decoder leaves a % that begins no escape as it is. Here it is a mistake.
        let is_escape = |rest: &str| {
            rest.len() >= 2 && rest.bytes().take(2).all(|digit| digit.is_ascii_hexdigit())
        };
        if name.contains(';') || !name.split('%').skip(1).all(is_escape) {
            return Err(BadNamespaces::Encoding);
        }
        let name = percent_decode_str(name).decode_utf8().map_err(|_| BadNamespaces::Encoding)?;
        Self::checked(name.into_owned(), is_prefix)
    }

    fn checked(name: String, is_prefix: bool) -> Result<Self, BadNamespaces> {
        // `*` alone is the prefix of every name.
        let least = usize::from(!is_prefix);
        if (least..=Namespace::BYTES_MAX).contains(&name.len()) {
            Ok(Self { name, is_prefix })
        } else {
            Err(BadNamespaces::Length)
        }
    }

    fn matches(&self, name: &str) -> bool {
        if self.is_prefix { name.starts_with(&self.name) } else { name == self.name }
    }
}

fn without_star(text: &str) -> (&str, bool) {
    text.strip_suffix('*').map_or((text, false), |prefix| (prefix, true))
}

/// The name as a token's line has it.
impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.is_prefix { "*" } else { "" };
        write!(f, "{}{star}", utf8_percent_encode(&self.name, ENCODED))
    }
}

/// The text is not a list of namespaces. It is not quoted, because a misplaced token may be in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.why())]
pub enum BadNamespaces {
    /// There are more than [`NAMESPACES_MAX`].
    TooMany,
    /// A name is empty or too long.
    Length,
    /// A name is not percent-encoded UTF-8.
    Encoding,
}

impl BadNamespaces {
    /// What is wrong, in words.
    pub const fn why(self) -> &'static str {
        match self {
            Self::TooMany => "it lists more than 100 namespaces",
            Self::Length => "a namespace has 1 to 256 bytes",
            Self::Encoding => "a namespace must be UTF-8, percent-encoded where necessary",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(list: &str) -> AllowedNamespaces {
        list.parse().unwrap()
    }

    #[test]
    fn a_name_admits_itself_and_a_prefix_what_begins_with_it() {
        let namespaces = parsed("shop,news/*");
        for (name, is_admitted) in [
            ("shop", true),
            ("shop/", false),
            ("Shop", false),
            ("sho", false),
            ("news/", true),
            ("news/fr", true),
            ("news", false),
            ("", false),
        ] {
            assert_eq!(namespaces.admits(Some(name)), is_admitted, "{name}");
        }
    }

    #[test]
    fn a_star_alone_admits_every_namespace_but_the_default_one() {
        let namespaces = parsed("*");
        assert!(namespaces.admits(Some("a")) && namespaces.admits(Some("*")));
        assert!(!namespaces.admits(None));
        assert!(namespaces.is_limited());
    }

    #[test]
    fn a_list_never_admits_the_default_namespace() {
        for namespaces in [parsed("a"), parsed("a*,b"), AllowedNamespaces::none()] {
            assert!(namespaces.is_limited() && !namespaces.admits(None), "{namespaces}");
        }
        assert!(!AllowedNamespaces::none().admits(Some("a")));
        assert!(AllowedNamespaces::ALL.admits(None) && AllowedNamespaces::ALL.admits(Some("a")));
        assert!(!AllowedNamespaces::ALL.is_limited());
    }

    #[test]
    fn a_name_is_percent_encoded_in_the_list() {
        for (list, name) in [
            ("a%2Cb", "a,b"),
            ("a%20b", "a b"),
            ("a%25", "a%"),
            ("a%3Bb", "a;b"),
            ("a%2a", "a*"),
            ("a*b", "a*b"),
            ("%E8%8C%B6", "\u{8336}"),
            ("\u{8336}", "\u{8336}"),
        ] {
            let namespaces = parsed(list);
            assert!(namespaces.admits(Some(name)), "{list}");
            assert!(!namespaces.admits(Some(&format!("{name}x"))), "{list} is no prefix");
        }
        assert!(parsed("100%25/*").admits(Some("100%/a")));
        assert!(parsed("%2A*").admits(Some("*a")) && !parsed("%2A*").admits(Some("a")));
    }

    #[test]
    fn what_is_printed_is_read_back() {
        let all_ascii: String = (0_u8..128).map(char::from).collect();
        for text in ["a", "a,b c%;d", "*", "a**", "\u{3000}\u{8336}", "\u{85}*", &all_ascii] {
            let namespaces =
                AllowedNamespaces::limited_to(vec![NamePattern::new(text).unwrap()]).unwrap();
            let printed = namespaces.to_string();
            assert!(!printed.contains(|c: char| c.is_whitespace() || c == ';'), "{printed}");
            assert_eq!(parsed(&printed), namespaces, "{printed}");
        }
        assert_eq!(parsed("a,b*,%2A").to_string(), "a,b*,%2A");
    }

    #[test]
    fn a_list_out_of_bounds_is_refused() {
        let refusal = |list: &str| list.parse::<AllowedNamespaces>().unwrap_err();
        let longest = "x".repeat(Namespace::BYTES_MAX);
        assert!(parsed(&longest).admits(Some(&longest)));
        assert!(parsed(&format!("{longest}*")).admits(Some(&longest)));
        for wrong in ["", "a,", ",a", "a,,b", &format!("{longest}x"), &format!("{longest}x*")] {
            assert_eq!(refusal(wrong), BadNamespaces::Length, "{wrong}");
        }
        for wrong in ["%", "a%2", "a%zz", "%+1", "%FF", "a;b", "%2\u{e9}"] {
            assert_eq!(refusal(wrong), BadNamespaces::Encoding, "{wrong}");
        }
        let many = vec!["a"; NAMESPACES_MAX].join(",");
        assert!(parsed(&many).admits(Some("a")));
        assert_eq!(refusal(&format!("{many},a")), BadNamespaces::TooMany);
        assert!(BadNamespaces::TooMany.to_string().contains(&NAMESPACES_MAX.to_string()));
        assert!(BadNamespaces::Length.to_string().contains(&Namespace::BYTES_MAX.to_string()));
    }
}
