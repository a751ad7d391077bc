//! Pages whose examples are run: their pieces, and whether what they show came out.
//!
//! A block of `console` has commands after `$ ` and the output of each; in that output `...` stands
//! for any text within a line. A block of `sh` is a script. A word after the language is the name
//! of a file that has the block as its content; `not run:` there gives the reason why the block is
//! not run.

use std::fmt::Write as _;

/// A piece of a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Prose, the lines around a block, and blocks of other languages.
    Text(String),
    /// A command, with the output shown below it.
    Example { command: String, shown: String },
    /// A block of `sh`.
    Script(String),
    /// The content of a file.
    File { name: String, content: String },
    /// A block that is not run, and why.
    NotRun { reason: String, content: String },
}

/// Cuts a page into its pieces.
pub(crate) fn pieces(page: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        pieces.push(Piece::Text(format!("{line}\n")));
        let Some(block) = line.strip_prefix("```") else { continue };
        let content = lines.by_ref().take_while(|line| *line != "```");
        let content = content.fold(String::new(), |content, line| content + line + "\n");
        let (language, more) = block.split_once(' ').unwrap_or((block, ""));
        if let Some(reason) = more.strip_prefix("not run: ") {
            pieces.push(Piece::NotRun { reason: reason.to_owned(), content });
        } else if !more.is_empty() {
            pieces.push(Piece::File { name: more.to_owned(), content });
        } else {
            match language {
                "console" => pieces.extend(examples(&content)),
                "sh" => pieces.push(Piece::Script(content)),
                _ => pieces.push(Piece::Text(content)),
            }
        }
        pieces.push(Piece::Text("```\n".to_owned()));
    }
    pieces
}

/// The commands of a block of `console`. One goes on in the next line after a backslash, or while a
/// quote is open.
fn examples(block: &str) -> Vec<Piece> {
    let mut examples = Vec::new();
    let mut lines = block.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(first) = line.strip_prefix("$ ") else {
            examples.push(Piece::Text(format!("{line}\n")));
            continue;
        };
        let mut command = format!("{first}\n");
        while command.matches('\'').count() % 2 == 1 || command.ends_with("\\\n") {
            writeln!(command, "{}", lines.next().expect("the command ends"))
                .expect("a string takes any text");
        }
        let shown = std::iter::from_fn(|| lines.next_if(|line| !line.starts_with("$ ")));
        let shown = shown.fold(String::new(), |shown, line| shown + line + "\n");
        examples.push(Piece::Example { command, shown });
    }
    examples
}

/// Whether `shown`, in which `...` stands for any text within a line, is what came out.
pub(crate) fn matches(shown: &str, came: &str) -> bool {
    let fits = |shown: &str, came: &str| {
        let mut rest = came;
        let mut parts = shown.split("...").peekable();
        let first = parts.next().unwrap_or_default();
        if !rest.starts_with(first) {
            return false;
        }
        rest = &rest[first.len()..];
        while let Some(part) = parts.next() {
            let found = if parts.peek().is_none() {
                rest.ends_with(part).then(|| rest.len() - part.len())
            } else {
                rest.find(part)
            };
            let Some(at) = found else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.is_empty()
    };
    shown.lines().count() == came.lines().count()
        && shown.lines().zip(came.lines()).all(|(shown, came)| fits(shown, came))
}

#[test]
fn dots_stand_for_any_text_within_a_line() {
    assert!(matches("a...c\n", "abc\n") && matches("a...c\n", "ac\n") && matches("...\n", "x\n"));
    assert!(matches("a...b...c\n", "a1b2c\n"));
    assert!(!matches("a...c\n", "abd\n") && !matches("a\n", "ab\n") && !matches("a\n", "a\nb\n"));
}

#[test]
fn a_page_is_cut_into_what_is_run_and_what_is_not() {
    let page = "a\n```console\n$ x 'y\nz'\nshown\n$ v \\\n  w\n```\n```sh not run: b c\nd\n```\n\
                ```toml e.toml\nf\n```\n```sh\ng\n```\n```text\nh\n```\n";
    let mut run = pieces(page);
    run.retain(|piece| !matches!(piece, Piece::Text(_)));
    let of = |text: &str| text.to_owned();
    let wanted = vec![
        Piece::Example { command: of("x 'y\nz'\n"), shown: of("shown\n") },
        Piece::Example { command: of("v \\\n  w\n"), shown: String::new() },
        Piece::NotRun { reason: of("b c"), content: of("d\n") },
        Piece::File { name: of("e.toml"), content: of("f\n") },
        Piece::Script(of("g\n")),
    ];
    assert_eq!(run, wanted);
}
