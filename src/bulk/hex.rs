//! Lines of hex: a fingerprint, optionally followed by a tab and an id.

use super::entry::{Body, Parsed};
use crate::fingerprint::Fingerprint;

/// Parses a line such as `5f3a00c2d4e6b718<tab>https://a.example/1`.
pub(super) fn parse(line: &[u8]) -> Result<Parsed, String> {
    let line = str::from_utf8(line).map_err(|_| "is not UTF-8".to_owned())?;
    let (hex, id) = match line.split_once('\t') {
        Some((hex, id)) => (hex.trim(), Some(id.trim().to_owned())),
        None => (line, None),
    };
    let fingerprint: Fingerprint = hex
        .parse()
        .map_err(|_| "is not 16 hex digits, alone or before a tab and an id".to_owned())?;
    let id = id.filter(|id| !id.is_empty());
    Ok(Parsed { id, body: Body::Fingerprint(fingerprint), passed: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_fingerprint_and_maybe_a_tab_and_an_id() {
        let body = Body::Fingerprint(Fingerprint::new(0xff));
        let entry = |id: Option<&str>| Parsed {
            id: id.map(str::to_owned),
            body: body.clone(),
            passed: Vec::new(),
        };
        assert_eq!(parse(b"00000000000000ff"), Ok(entry(None)));
        assert_eq!(
            parse(b"0x00000000000000FF\thttps://a.example/1"),
            Ok(entry(Some("https://a.example/1")))
        );
        assert!(parse(b"ff").is_err());
        assert!(parse(b"00000000000000ff id").is_err(), "a space is no tab");
    }
}
