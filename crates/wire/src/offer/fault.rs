//! What is wrong with a field, and where.

use std::borrow::Cow;
use std::fmt;

/// The longest piece of the input that a message repeats, in bytes.
const REPEATED_MAX: usize = 64;

/// A field that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub kind: FaultKind,
    /// The field, with the objects around it: `text`, or `a.text`. `None` for the input as a whole.
    pub field: Option<String>,
    /// The address of the first wrong byte.
    address: Option<usize>,
}

/// The kinds of [`Fault`]s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// The input is not JSON.
    Syntax {
        /// The message of the parser.
        message: String,
        /// Its line and column, each counted from 1; `None` for an escape in a string.
        place: Option<(usize, usize)>,
    },
    /// No field has this name.
    Unknown {
        /// The fields that are taken, with commas between them.
        takes: String,
    },
    /// The field is there twice.
    Repeated,
    /// The field takes other values.
    Type {
        /// The value, in words.
        given: String,
        /// What the field takes instead.
        takes: &'static str,
    },
    /// The value is not acceptable; a sentence.
    Value(String),
}

impl Fault {
    const fn new(kind: FaultKind) -> Self {
        Self { kind, field: None, address: None }
    }

    /// The syntax error of a parser.
    pub fn syntax(error: &serde_json::Error) -> Self {
        let (text, place) = (error.to_string(), (error.line(), error.column()));
        let suffix = format!(" at line {} column {}", place.0, place.1);
        let message = text.strip_suffix(&suffix).unwrap_or(&text).to_owned();
        Self::new(FaultKind::Syntax { message, place: Some(place) })
    }

    /// An escape in a string that stands for no character.
    pub(super) fn escape(message: &str) -> Self {
        Self::new(FaultKind::Syntax { message: message.to_owned(), place: None })
    }

    /// A name that no field has; `takes` are the fields.
    pub fn unknown<'n>(takes: impl IntoIterator<Item = &'n str>) -> Self {
        let takes = takes.into_iter().collect::<Vec<_>>().join(", ");
        Self::new(FaultKind::Unknown { takes })
    }

    /// A field that was there before.
    pub const fn repeated() -> Self {
        Self::new(FaultKind::Repeated)
    }

    /// Some JSON of another type than the field takes.
    pub(super) fn kind(json: &str, takes: &'static str) -> Self {
        let given = match json.as_bytes() {
            [b'{', ..] => "an object".to_owned(),
            [b'[', ..] => "an array".to_owned(),
            [b'"', ..] => format!("the string {}", shortened(json)),
            [b't' | b'f' | b'n', ..] => json.to_owned(),
            _ => format!("the number {}", shortened(json)),
        };
        Self::new(FaultKind::Type { given, takes })
    }

    /// A text that stands for no value of the field.
    pub(super) fn text(text: &str, takes: &'static str) -> Self {
        let given = format!("`{}`", shortened(text));
        Self::new(FaultKind::Type { given, takes })
    }

    /// A value that is not acceptable.
    pub fn value(why: impl fmt::Display) -> Self {
        Self::new(FaultKind::Value(why.to_string()))
    }

    /// The fault of the value of a field, or inside it.
    #[must_use]
    pub fn of_field(mut self, name: &str) -> Self {
        let name = shortened(name);
        self.field = Some(match self.field {
            Some(inner) => format!("{name}.{inner}"),
            None => name.into_owned(),
        });
        self
    }

    /// Whether the name of the field is wrong, and not its value.
    pub(super) fn is_of_the_name(&self) -> bool {
        let is_own = self.field.is_none();
        is_own && matches!(self.kind, FaultKind::Unknown { .. } | FaultKind::Repeated)
    }

    /// The fault of the whole value, not of a field inside it.
    #[must_use]
    pub(super) fn of_whole(self) -> Self {
        Self { field: None, ..self }
    }

    /// The fault of this part of the input, unless it is that of a smaller part.
    #[must_use]
    pub(super) fn at(mut self, part: &str) -> Self {
        self.address.get_or_insert(part.as_ptr().addr());
        self
    }

    /// What is wrong, and where in the whole input: the column, and the line unless it is the
    /// first.
    pub fn in_text(&self, input: &[u8]) -> String {
        match self.place(input) {
            // A line of a batch, and a body of one line, need no line number.
            (1, column) => format!("{self} (column {column})"),
            (line, column) => format!("{self} at line {line} column {column}"),
        }
    }

    /// Where the fault is in the whole input: its line and its column in bytes, each counted from
    /// 1.
    pub fn place(&self, input: &[u8]) -> (usize, usize) {
        if let FaultKind::Syntax { place: Some(place), .. } = self.kind {
            return place;
        }
        let offset = self.address.and_then(|at| at.checked_sub(input.as_ptr().addr()));
        let before = offset.and_then(|offset| input.get(..offset)).unwrap_or_default();
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        (memchr::memchr_iter(b'\n', before).count() + 1, before.len() - line_start + 1)
    }
}

impl fmt::Display for Fault {
    /// What is wrong, without the place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = self.field.as_deref().unwrap_or("the JSON");
        match &self.kind {
            FaultKind::Syntax { message, .. } | FaultKind::Value(message) => f.write_str(message),
            FaultKind::Unknown { takes } => write!(f, "this request takes {takes}"),
            FaultKind::Repeated => f.write_str("the field is there twice"),
            FaultKind::Type { given, takes } => write!(f, "{field} is {given}; it takes {takes}"),
        }
    }
}

/// The beginning of a text that may be long.
pub(super) fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= REPEATED_MAX {
        return text.into();
    }
    format!("{}...", &text[..text.floor_char_boundary(REPEATED_MAX)]).into()
}
