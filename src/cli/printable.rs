//! Text of others on a terminal.

use std::borrow::Cow;

/// The text with those characters escaped that could mislead a reader: an id may contain a line
/// end, what a terminal takes for a command, or what turns the direction of the text after it.
pub(super) fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, misleads)
}

/// The same of a text that may have several lines.
pub(super) fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| misleads(c) && !matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, is_escaped: fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(is_escaped) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_escaped(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown.into()
}

/// Control characters, the ends of lines and paragraphs of Unicode, and the marks that turn the
/// direction of text (UAX 9). Joiners are not among them: Persian and Indic scripts need them.
fn misleads(c: char) -> bool {
    let turns = matches!(c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_mislead_is_escaped_and_nothing_else() {
        assert_eq!(printable("a\u{1b}[2J\nb\u{9b}"), "a\\u{1b}[2J\\nb\\u{9b}");
        for turn in
            "\u{61c}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}\u{2028}\u{2029}".chars()
        {
            assert_eq!(printable(&format!("a{turn}b")), format!("a{}b", turn.escape_unicode()));
        }
        for kept in ["\u{e4} \"\\", "\u{645}\u{6cc}\u{200c}\u{62e}", "\u{915}\u{94d}\u{200d}"] {
            assert!(matches!(printable(kept), Cow::Borrowed(same) if same == kept));
        }
        assert_eq!(printable_lines("a\n\tb\r\u{202e}"), "a\n\tb\\r\\u{202e}");
    }
}
