//! The types of columns that are read.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use super::structures::ArrowSchema;

/// What a column is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnOf {
    Documents,
    DocumentsOrFingerprints,
    Ids,
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnType {
    /// All rows are null.
    Null,
    Strings(Strings),
    Integers(Integer),
    /// Strings, by indices of this type.
    Dictionary(Integer, Strings),
    Vectors(ListLayout, VectorNumber),
}

/// Texts or bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Strings {
    pub(super) layout: StringLayout,
    pub(super) are_text: bool,
}

/// How strings lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StringLayout {
    /// Offsets of 32 bits.
    Small,
    /// Offsets of 64 bits.
    Large,
    View,
}

/// How lists lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListLayout {
    /// Offsets of 32 bits.
    Small,
    /// Offsets of 64 bits.
    Large,
    /// All have so many numbers.
    Fixed(usize),
}

/// A number of a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VectorNumber {
    Single,
    Double,
    Integer(Integer),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Integer {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
}

impl ColumnOf {
    /// The argument that has the column.
    pub(super) const fn argument(self) -> &'static str {
        match self {
            Self::Documents | Self::DocumentsOrFingerprints => "documents",
            Self::Ids => "ids",
        }
    }

    fn takes(self, column: ColumnType) -> bool {
        match column {
            ColumnType::Null => true,
            ColumnType::Strings(strings) | ColumnType::Dictionary(_, strings) => {
                self != Self::Ids || strings.are_text
            }
            ColumnType::Integers(integer) => match self {
                Self::Documents => false,
                Self::DocumentsOrFingerprints => matches!(integer, Integer::I64 | Integer::U64),
                Self::Ids => true,
            },
            ColumnType::Vectors(..) => self != Self::Ids,
        }
    }
}

impl ColumnType {
    /// The type of a column, unless it is read as something else.
    pub(super) fn of(schema: &ArrowSchema, of: ColumnOf) -> PyResult<Self> {
        let kind = match schema.dictionary() {
            None => Self::plain(schema),
            Some(values) if values.dictionary().is_some() => None,
            Some(values) => {
                Integer::of(schema.format()).and_then(|indices| match Self::plain(values)? {
                    Self::Null => Some(Self::Null),
                    Self::Strings(strings) => Some(Self::Dictionary(indices, strings)),
                    Self::Integers(_) | Self::Dictionary(..) | Self::Vectors(..) => None,
                })
            }
        };
        kind.filter(|kind| of.takes(*kind)).ok_or_else(|| refused(schema, of))
    }

    fn plain(schema: &ArrowSchema) -> Option<Self> {
        let format = schema.format();
        if format == b"n" {
            return Some(Self::Null);
        }
        let lists = match format {
            b"+l" => Some(ListLayout::Small),
            b"+L" => Some(ListLayout::Large),
            _ => format
                .strip_prefix(b"+w:")
                .and_then(|width| str::from_utf8(width).ok()?.parse().ok().map(ListLayout::Fixed)),
        };
        if let Some(lists) = lists {
            let numbers = schema.only_child().filter(|child| child.dictionary().is_none())?;
            return VectorNumber::of(numbers.format()).map(|number| Self::Vectors(lists, number));
        }
        let strings = Strings::of(format).map(Self::Strings);
        strings.or_else(|| Integer::of(format).map(Self::Integers))
    }
}

impl Strings {
    fn of(format: &[u8]) -> Option<Self> {
        let (layout, are_text) = match format {
            b"u" => (StringLayout::Small, true),
            b"U" => (StringLayout::Large, true),
            b"vu" => (StringLayout::View, true),
            b"z" => (StringLayout::Small, false),
            b"Z" => (StringLayout::Large, false),
            b"vz" => (StringLayout::View, false),
            _ => return None,
        };
        Some(Self { layout, are_text })
    }
}

impl VectorNumber {
    fn of(format: &[u8]) -> Option<Self> {
        match format {
            b"f" => Some(Self::Single),
            b"g" => Some(Self::Double),
            other => Integer::of(other).map(Self::Integer),
        }
    }
}

impl Integer {
    fn of(format: &[u8]) -> Option<Self> {
        Some(match format {
            b"c" => Self::I8,
            b"C" => Self::U8,
            b"s" => Self::I16,
            b"S" => Self::U16,
            b"i" => Self::I32,
            b"I" => Self::U32,
            b"l" => Self::I64,
            b"L" => Self::U64,
            _ => return None,
        })
    }
}

fn refused(schema: &ArrowSchema, of: ColumnOf) -> PyErr {
    let format = String::from_utf8_lossy(schema.format());
    let argument = of.argument();
    let next = match (schema.format(), of) {
        (b"+s", _) => "a table or a struct; give one column of it",
        (_, ColumnOf::Ids) => "neither strings nor integers; cast it to one of these",
        ([b'+', ..], _) => "lists; vectors are lists of float32, float64 or integers",
        _ if schema.dictionary().is_some() => "a dictionary of other values; cast it to strings",
        _ => "none of strings or binary; cast it to strings",
    };
    PyTypeError::new_err(format!("{argument}: an Arrow column of type {format:?}, {next}"))
}
