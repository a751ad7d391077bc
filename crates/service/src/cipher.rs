//! What clients hand back: where a page ended, and which job they mean. Both are numbers that grow
//! with the changes of all namespaces, so clients get them encrypted. The numbers that copies of a
//! directory exchange are encrypted, too.
//!
//! One block of AES-256 has the value in its lower bits. The other bits are zero, and those of a
//! forged text, or of one for another purpose, are not. Each purpose has a key of its own, which
//! comes from the secret of the data directory, so what a client has is good after a restart; and a
//! job always has one name.

use aes::Aes256;
use aes::cipher::{BlockCipherDecrypt as _, BlockCipherEncrypt as _, KeyInit as _};
use nearprint_engine::NamespaceFilter;
use nearprint_engine::document::Namespace;
use nearprint_wire::offer::Value;
use ring::hmac;

use crate::refusal::Refusal;

/// The bits that a value may have.
const VALUE_BITS: u32 = 96;

/// The hex digits of an encrypted value.
const DIGITS: usize = 32;

/// What a value stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CursorKind {
    /// A job.
    Job,
    /// A place in a list of jobs.
    Jobs,
    /// A place in a list of documents.
    Documents,
    /// A place in the documents of a fingerprint.
    Fingerprint,
    /// A place in the list of namespaces.
    Namespaces,
    /// A place in the list of originals.
    Originals,
    /// A place in the groups of a job.
    Groups,
    /// A place in the documents of a group.
    Members,
    /// A change that one copy of a directory tells another.
    Change,
    /// A change for which a client waits at a copy that does not have it yet.
    Awaited,
}

/// What a value is good for: its kind, and which list of this kind. A value for another purpose is
/// not accepted in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purpose {
    kind: CursorKind,
    list: Vec<u8>,
}

impl From<CursorKind> for Purpose {
    fn from(kind: CursorKind) -> Self {
        Self { kind, list: Vec::new() }
    }
}

impl Purpose {
    /// Only for lists that have this in common; `None` is not the same as nothing in it.
    #[must_use]
    pub fn with(mut self, part: Option<&str>) -> Self {
        let Some(part) = part else {
            self.list.push(0);
            return self;
        };
        self.list.push(1);
        self.list.extend_from_slice(&(part.len() as u64).to_be_bytes());
        self.list.extend_from_slice(part.as_bytes());
        self
    }

    /// Only for lists of these namespaces.
    #[must_use]
    pub fn of_namespaces(self, namespaces: &NamespaceFilter) -> Self {
        match namespaces {
            NamespaceFilter::All => self.with(Some("all")),
            NamespaceFilter::Namespace(name) => {
                self.with(Some("one")).with(name.as_ref().map(Namespace::as_str))
            }
        }
    }

    /// Only for lists of what has this number.
    #[must_use]
    pub fn of_number(self, number: u64) -> Self {
        self.with(Some(&number.to_string()))
    }
}

/// Encrypts what clients hand back.
#[derive(Debug)]
pub struct Cipher(hmac::Key);

impl Cipher {
    /// A cipher whose key comes from a secret.
    pub fn new(secret: &[u8]) -> Self {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let key = hmac::sign(&secret, b"nearprint: cursors and names of jobs");
        Self(hmac::Key::new(hmac::HMAC_SHA256, key.as_ref()))
    }

    /// The text that stands for a value of at most 96 bits: 32 lower-case hex digits.
    pub fn encrypt(&self, purpose: &Purpose, value: impl Into<u128>) -> String {
        let mut block = value.into().to_be_bytes().into();
        self.block_cipher(purpose).encrypt_block(&mut block);
        format!("{:032x}", u128::from_be_bytes(block.into()))
    }

    /// The value that a text stands for; `None` unless this cipher has made it for this purpose.
    pub fn decrypt(&self, purpose: &Purpose, text: &str) -> Option<u128> {
        let text = Some(text).filter(|text| has_form(text))?;
        let mut block = u128::from_str_radix(text, 16).ok()?.to_be_bytes().into();
        self.block_cipher(purpose).decrypt_block(&mut block);
        let value = u128::from_be_bytes(block.into());
        Some(value).filter(|value| value >> VALUE_BITS == 0)
    }

    /// The number after which a page of a list begins; 0 for the first one.
    ///
    /// # Errors
    /// The text is not a cursor of this list.
    pub fn after<T: TryFrom<u128> + Default>(
        &self,
        cursor: Option<&str>,
        list: &Purpose,
    ) -> Result<T, Refusal> {
        let Some(text) = cursor else { return Ok(T::default()) };
        let value = self.decrypt(list, text).and_then(|value| value.try_into().ok());
        value.ok_or_else(|| {
            let fault = Value::Parameter(text).fault("the `next` of another page of this list");
            Refusal::invalid("after", format!("{}.", fault.of_field("after")))
        })
    }

    fn block_cipher(&self, purpose: &Purpose) -> Aes256 {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(&[purpose.kind as u8]);
        context.update(&purpose.list);
        let key = context.sign();
        Aes256::new_from_slice(key.as_ref()).expect("SHA-256 has 32 bytes, and so has the key")
    }
}

/// Whether a text looks like an encrypted value.
fn has_form(text: &str) -> bool {
    text.len() == DIGITS && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One for each kind, and lists of one kind that differ in a little.
    fn purposes() -> Vec<Purpose> {
        let kinds = [
            CursorKind::Job,
            CursorKind::Jobs,
            CursorKind::Documents,
            CursorKind::Fingerprint,
            CursorKind::Namespaces,
            CursorKind::Originals,
            CursorKind::Groups,
            CursorKind::Members,
            CursorKind::Change,
        ];
        let namespace = |name: &str| NamespaceFilter::Namespace(Namespace::new(name).ok());
        let documents = || Purpose::from(CursorKind::Documents);
        let of = |namespaces: &NamespaceFilter| documents().of_namespaces(namespaces);
        kinds
            .into_iter()
            .map(Purpose::from)
            .chain([of(&NamespaceFilter::All), of(&NamespaceFilter::Namespace(None))])
            .chain(["a", "b", "all"].map(|name| of(&namespace(name))))
            .chain([documents().with(None), documents().with(Some(""))])
            .chain([documents().with(Some("a")).with(Some("b")), documents().with(Some("ab"))])
            .chain([1, 12].map(|number| Purpose::from(CursorKind::Members).of_number(number)))
            .collect()
    }

    proptest! {
        #[test]
        fn a_value_comes_back_and_only_from_its_own_text_purpose_and_secret(
            (value, secret, other) in any::<(u64, [u8; 16], [u8; 16])>(),
            at in 0..DIGITS,
            flip in 1..16_u8,
        ) {
            let cipher = Cipher::new(&secret);
            let purposes = purposes();
            for purpose in &purposes {
                let text = cipher.encrypt(purpose, value);
                prop_assert!(has_form(&text), "{text}");
                prop_assert_eq!(cipher.decrypt(purpose, &text), Some(value.into()));
                for foreign in purposes.iter().filter(|foreign| *foreign != purpose) {
                    prop_assert_eq!(cipher.decrypt(foreign, &text), None);
                }
                if other != secret {
                    prop_assert_eq!(Cipher::new(&other).decrypt(purpose, &text), None);
                }
                let (before, rest) = text.split_at(at);
                let digit = u8::from_str_radix(&rest[..1], 16).unwrap() ^ flip;
                let flipped = format!("{before}{digit:x}{}", &rest[1..]);
                prop_assert_eq!(cipher.decrypt(purpose, &flipped), None);
            }
        }

        #[test]
        fn a_value_of_96_bits_comes_back(high in any::<u32>(), low in any::<u64>()) {
            let (cipher, value) = (Cipher::new(b"secret"), u128::from(high) << 64 | u128::from(low));
            let text = cipher.encrypt(&CursorKind::Originals.into(), value);
            prop_assert_eq!(cipher.decrypt(&CursorKind::Originals.into(), &text), Some(value));
        }

        #[test]
        fn any_other_text_is_refused(text in "\\PC{0,40}|[0-9a-f]{32}|[0-9A-F]{32}|[+-][0-9a-f]{31}") {
            prop_assert_eq!(Cipher::new(b"secret").decrypt(&CursorKind::Documents.into(), &text), None);
        }
    }

    #[test]
    fn texts_have_neither_the_order_nor_the_digits_of_their_values() {
        let cipher = Cipher::new(b"secret");
        let texts: Vec<String> = (1_000..1_064_u64)
            .map(|value| cipher.encrypt(&CursorKind::Documents.into(), value))
            .collect();
        let rises = texts.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((10..54).contains(&rises), "{rises} of 63 are in order");
        let differing = |pair: &[String]| {
            let bits = |text: &String| u128::from_str_radix(text, 16).unwrap();
            (bits(&pair[0]) ^ bits(&pair[1])).count_ones()
        };
        for pair in texts.windows(2) {
            assert!((30..98).contains(&differing(pair)), "{pair:?}");
        }
    }

    #[test]
    fn the_text_of_a_value_is_the_same_in_later_versions() {
        let cipher = Cipher::new(b"secret");
        assert_eq!(
            cipher.encrypt(&CursorKind::Job.into(), 17_u64),
            "f44312bb6563906fb8bae805b022b986"
        );
    }
}
