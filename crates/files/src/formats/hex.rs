//! Lines of hex: a fingerprint, alone or with an id in front of it or after it.

use nearprint_fingerprint::Fingerprint;
use nearprint_wire::offer::Content;

use crate::entry::Parsed;

/// Parses `HEX`, `HEX<tab>ID` or `ID HEX`. Behind an id of decimal digits, `HEX` may lack its zeros
/// in front, as in files of go-simstore.
pub(super) fn parse(line: &str) -> Result<Parsed, String> {
    let line = line.trim();
    let parts = match line.split_once('\t') {
        Some((hex, id)) if let Some(hex) = full(hex) => Some((Some(id), hex)),
        _ => match line.rsplit_once([' ', '\t']) {
            Some((id, hex)) => full(hex).or_else(|| short(id, hex)).map(|hex| (Some(id), hex)),
            None => full(line).map(|hex| (None, hex)),
        },
    };
    let (id, fingerprint) = parts.ok_or_else(|| {
        "is not 16 hex digits, alone, before a tab and an id, or behind an id and a space"
            .to_owned()
    })?;
    let id = id.map(|id| id.trim().to_owned()).filter(|id| !id.is_empty());
    Ok(Parsed { id, content: Content::Fingerprint(fingerprint), passed: Vec::new() })
}

fn full(hex: &str) -> Option<Fingerprint> {
    hex.trim().parse().ok()
}

/// Fewer than 16 digits behind an id in decimal.
fn short(id: &str, hex: &str) -> Option<Fingerprint> {
    let is_number = !id.trim().is_empty() && id.trim().bytes().all(|byte| byte.is_ascii_digit());
    let is_hex = hex.len() <= 16 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let bits = u64::from_str_radix(hex, 16).ok().filter(|_| is_number && is_hex);
    bits.map(Fingerprint::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_fingerprint_with_an_id_on_either_side_or_none() {
        for (line, id, bits) in [
            ("00000000000000ff", None, 0xff),
            ("00000000000000ff\t", None, 0xff),
            ("0x00000000000000FF\thttps://a.example/1", Some("https://a.example/1"), 0xff),
            ("00000000000000ff\tan id of words", Some("an id of words"), 0xff),
            ("https://a.example/1 00000000000000ff", Some("https://a.example/1"), 0xff),
            ("an id of words\t00000000000000ff", Some("an id of words"), 0xff),
            ("17 ff", Some("17"), 0xff),
            ("17   00000000000000ff", Some("17"), 0xff),
            ("1234567890123456 abc", Some("1234567890123456"), 0xabc),
        ] {
            let content = Content::Fingerprint(Fingerprint::new(bits));
            let expected = Parsed { id: id.map(str::to_owned), content, passed: Vec::new() };
            assert_eq!(parse(line), Ok(expected), "{line}");
        }
        for line in ["ff", "00000000000000ff id", "x ff", "17 +f", "17 00000000000000fff", ""] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
