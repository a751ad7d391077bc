//! The words of a manual page: roff requests, macros and escapes taken off.
//!
//! Not a formatter. Arguments of macros that print them (headings, bold, names of options) stay,
//! requests and definitions go, escapes become the character they stand for or nothing. Linear in
//! the bytes of the page.

use std::str::Chars;

/// Macros whose arguments are measures or settings, not words of the page.
const SILENT: [&str; 18] = [
    "TH", "IX", "PD", "RS", "RE", "TP", "HP", "PP", "LP", "P", "Dd", "Dt", "Os", "Bl", "El", "Bd",
    "Ed", "UC",
];

/// The text of the page in the order of its source, a line a line.
pub(super) fn words(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    let mut inside_definition = false;
    for line in page.lines() {
        if inside_definition {
            inside_definition = !line.starts_with("..");
            continue;
        }
        match line.strip_prefix(['.', '\'']) {
            Some(control) => {
                let control = control.trim_start();
                let (name, arguments) = control.split_once([' ', '\t']).unwrap_or((control, ""));
                inside_definition = matches!(name, "de" | "de1" | "am" | "ig");
                // Requests of roff itself are lower case; macros that print begin upper case.
                let prints = name.starts_with(|c: char| c.is_ascii_uppercase());
                if prints && !SILENT.contains(&name) {
                    unescape(arguments, ' ', &mut text);
                }
            }
            None => unescape(line, '"', &mut text),
        }
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}

/// Appends a line without its escapes; `quote` is what a bare `"` becomes, which groups the
/// arguments of a macro and is itself in running text.
fn unescape(line: &str, quote: char, text: &mut String) {
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            text.push(if c == '"' { quote } else { c });
            continue;
        }
        match chars.next() {
            // The rest of the line is a comment.
            None | Some('"' | '#') => return,
            Some('f' | '*' | 'n' | 'm' | 'M' | 'F' | 'k') => {
                name(&mut chars);
            }
            Some('s') => size(&mut chars),
            Some('h' | 'v' | 'w' | 'l' | 'L' | 'D' | 'o' | 'z' | 'X' | 'x' | 'b') => {
                quoted(&mut chars);
            }
            Some('(') => text.push(character(&chars.by_ref().take(2).collect::<String>())),
            Some('[') => text.push(character(&until(&mut chars, ']'))),
            Some('e') => text.push('\\'),
            Some('~' | ' ' | '0' | 't') => text.push(' '),
            Some('&' | '|' | '^' | '/' | ',' | ':' | '%' | 'c' | '{' | '}' | 'd' | 'u') => {}
            Some(other) => text.push(other),
        }
    }
}

/// `X`, `(XX` or `[XXX]`.
fn name(chars: &mut Chars<'_>) {
    match chars.next() {
        Some('(') => {
            chars.nth(1);
        }
        Some('[') => {
            until(chars, ']');
        }
        Some(_) | None => {}
    }
}

/// `+2`, `-1`, `0`, `(12`, `[12]`.
fn size(chars: &mut Chars<'_>) {
    if chars.as_str().starts_with(['+', '-']) {
        chars.next();
    }
    name(chars);
}

/// `'...'`; without the quote there is nothing to take off.
fn quoted(chars: &mut Chars<'_>) {
    if chars.as_str().starts_with('\'') {
        chars.next();
        until(chars, '\'');
    }
}

fn until(chars: &mut Chars<'_>, end: char) -> String {
    chars.take_while(|&c| c != end).collect()
}

/// The character of a two-letter name; a space for those that are no part of words.
fn character(name: &str) -> char {
    match name {
        "hy" | "en" | "em" | "mi" => '-',
        "aq" | "oq" | "cq" => '\'',
        "lq" | "rq" | "dq" => '"',
        "rs" => '\\',
        "ha" => '^',
        "ti" => '~',
        "at" => '@',
        ":a" => '\u{e4}',
        ":o" => '\u{f6}',
        ":u" => '\u{fc}',
        "ss" => '\u{df}',
        "'e" => '\u{e9}',
        _ => ' ',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_page_stay_and_its_markup_goes() {
        let page = concat!(
            ".\\\" a comment\n",
            ".de XX\nnot\nshown\n..\n",
            ".TH LS \"1\" \"2022\"\n",
            ".SH NAME\n",
            "ls \\- list \\fBdirectory\\fR contents\n",
            ".TP 4\n",
            "\\fB\\-a\\fR, \\fB\\-\\-all\\fR\n",
            ".BR stat (2)\n",
            ".if n .ne 4\n",
            "Z\\(:urich \\h'1n'end \\s-1SMALL\\s0 \\*(Aqq\\[rq]\n",
            ".Nm cat \\\" trailing\n",
        );
        let expected = concat!(
            "NAME\n",
            "ls - list directory contents\n",
            "-a, --all\n",
            "stat (2)\n",
            "Z\u{fc}rich end SMALL q\"\n",
            "cat \n",
        );
        assert_eq!(words(page), expected);
    }

    #[test]
    fn a_page_that_only_points_to_another_is_empty() {
        assert_eq!(words(".so man1/other.1\n"), "");
    }

    #[test]
    fn an_escape_cut_off_at_the_end_does_no_harm() {
        for line in ["\\", "\\f", "\\f(", "\\[ab", "\\(", "\\h'", "\\s"] {
            words(line);
        }
    }
}
