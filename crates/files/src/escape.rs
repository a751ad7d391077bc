//! Names and addresses that are not UTF-8, as text.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Bytes as text. Those that are not UTF-8 become `%E9`, as in addresses, so that two different
/// names stay two.
pub(super) fn escaped(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            write!(text, "%{byte:02X}").expect("a string takes any text");
        }
    }
    Cow::Owned(text)
}

/// The same of a path.
pub fn escaped_path(path: &Path) -> Cow<'_, str> {
    escaped(path.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_utf_8_becomes_percent_signs_and_digits() {
        assert_eq!(escaped("caf\u{e9} 100 %".as_bytes()), "caf\u{e9} 100 %");
        assert_eq!(escaped(b"caf\xe9/\xc3\xa9\xff"), "caf%E9/\u{e9}%FF");
        assert_eq!(escaped(b"\xe4\xbd"), "%E4%BD");
    }
}
