//! The running text of a manual page, read from its roff source.
//!
//! Near-duplicates show in the sentences of a page, so nothing is rendered: lines with requests and
//! macros are dropped, headings included, and escapes are removed.

use std::str::Chars;

/// The text lines of a page without their escapes.
pub(super) fn running_text(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    for line in page.lines().filter(|line| !line.starts_with(['.', '\''])) {
        let mut chars = line.chars();
        while let Some(c) = chars.next() {
            if c == '\\' { text.extend(escape(&mut chars)) } else { text.push(c) }
        }
        text.push('\n');
    }
    text
}

/// The character that an escape stands for, if it is part of a word; reads past the escape.
fn escape(chars: &mut Chars<'_>) -> Option<char> {
    match chars.next()? {
        '-' => Some('-'),
        'e' => Some('\\'),
        ' ' | '~' | '0' => Some(' '),
        // A font, a string or a size: `\fB`, `\f(CW`, `\f[CW]`, `\s+1`.
        'f' | '*' | 's' => {
            match chars.next()? {
                '(' => chars.nth(1),
                '[' => chars.find(|&c| c == ']'),
                '+' | '-' => chars.next(),
                _ => None,
            };
            None
        }
        // A character by its name: `\(aq`, `\[aq]`.
        '(' => chars.nth(1).map(|_| ' '),
        '[' => chars.find(|&c| c == ']').map(|_| ' '),
        // A comment to the end of the line.
        '"' | '#' => chars.last().and(None),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_stay_and_markup_goes() {
        let page = concat!(
            ".\\\" a comment\n",
            ".TH LS \"1\" \"2022\"\n",
            ".SH NAME\n",
            "ls \\- list \\fBdirectory\\fR contents\\\" a comment\n",
            "'br\n",
            "\\fB\\-a\\f[], \\s-1A\\s0, \\f(CW\\-\\-all\\fR: do\\(aqs and don\\[aq]ts\\&\n",
        );
        let expected = "ls - list directory contents\n-a, A, --all: do s and don ts\n";
        assert_eq!(running_text(page), expected);
    }

    #[test]
    fn an_escape_that_is_cut_off_is_dropped() {
        for line in ["\\", "\\f", "\\f(", "\\f[ab", "\\(", "\\[ab", "\\s", "\\\""] {
            assert_eq!(running_text(line), "\n", "{line}");
        }
    }
}
