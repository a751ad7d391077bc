//! Text of others on a terminal.

use std::borrow::Cow;

/// The text with its control characters escaped: an id may contain a line end, or what a terminal
/// takes for a command.
pub(super) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return text.into();
    }
    let escape = |c: char| {
        let escaped = c.is_control().then(|| c.escape_default());
        escaped.map_or_else(|| c.to_string(), |escaped| escaped.to_string())
    };
    text.chars().map(escape).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_nothing_else() {
        assert_eq!(printable("a\u{1b}[2J\nb"), "a\\u{1b}[2J\\nb");
        assert!(matches!(printable("\u{e4} \"\\"), Cow::Borrowed("\u{e4} \"\\")));
    }
}
