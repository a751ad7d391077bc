//! Columns that other libraries made: of texts, bytes, vectors and integers.

use std::ops::Range;

use bytemuck::{AnyBitPattern, pod_read_unaligned, try_cast_slice};
use pyo3::exceptions::{PyImportError, PyNotImplementedError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use super::structures::{ArrowArray, ArrowArrayStream, ArrowSchema, Owned};
use super::types::{
    ColumnOf, ColumnType, Integer, ListLayout, StringLayout, Strings, VectorNumber,
};
use crate::errors;

/// A value of a column.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ColumnValue<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
    Vector(&'a [f32]),
    Integer(i128),
}

/// What is wrong with the memory of a column.
#[derive(Debug)]
struct Broken(&'static str);

/// The arrays of a column.
pub(crate) enum Chunks {
    Stream(Stream),
    Single(Option<Chunk>),
}

pub(crate) struct Stream {
    arrays: Owned<ArrowArrayStream>,
    kind: ColumnType,
    of: ColumnOf,
}

/// An array of a column.
#[derive(Debug)]
pub(crate) struct Chunk {
    array: Owned<ArrowArray>,
    kind: ColumnType,
    of: ColumnOf,
    /// The numbers of vectors that are not read in place.
    converted: Option<Converted>,
}

/// Numbers of lists as vectors have them.
#[derive(Debug)]
struct Converted {
    /// The place of the first in the child.
    first: usize,
    numbers: Vec<f32>,
}

impl Chunks {
    /// The arrays of an object with the PyCapsule interface; `None` if it has none.
    pub(crate) fn of(object: &Bound<'_, PyAny>, of: ColumnOf) -> PyResult<Option<Self>> {
        if object.hasattr("__arrow_c_stream__")? {
            return match object.call_method0("__arrow_c_stream__") {
                Ok(capsule) => Stream::of(&capsule, of).map(Self::Stream).map(Some),
                Err(error) if is_of_python(object, &error)? => Ok(None),
                Err(error) => Err(error),
            };
        }
        if !object.hasattr("__arrow_c_array__")? {
            return Ok(None);
        }
        let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
            object.call_method0("__arrow_c_array__")?.extract()?;
        let schema = Owned::<ArrowSchema>::take(&schema, c"arrow_schema")?;
        let array = Owned::<ArrowArray>::take(&array, c"arrow_array")?;
        let chunk = Chunk::of(array, ColumnType::of(&schema.0, of)?, of)?;
        Ok(Some(Self::Single(Some(chunk))))
    }

    /// The next array.
    pub(crate) fn next(&mut self) -> PyResult<Option<Chunk>> {
        match self {
            Self::Stream(stream) => stream.next(),
            Self::Single(chunk) => Ok(chunk.take()),
        }
    }
}

/// Whether a column is a list of Python objects rather than one of Arrow: pandas has the method
/// whether or not pyarrow is there, and whether or not pyarrow has a type for the objects.
fn is_of_python(object: &Bound<'_, PyAny>, error: &PyErr) -> PyResult<bool> {
    let py = object.py();
    let has_no_type = errors::is_of_a_value(py, error)
        || error.is_instance_of::<PyImportError>(py)
        || error.is_instance_of::<PyNotImplementedError>(py);
    Ok(has_no_type && object.hasattr("tolist")?)
}

impl Stream {
    fn of(capsule: &Bound<'_, PyAny>, of: ColumnOf) -> PyResult<Self> {
        let mut stream = Owned::<ArrowArrayStream>::take(capsule, c"arrow_array_stream")?;
        let schema = stream.schema().map_err(|message| failed(of, &message))?;
        Ok(Self { arrays: stream, kind: ColumnType::of(&schema.0, of)?, of })
    }

    fn next(&mut self) -> PyResult<Option<Chunk>> {
        let array = self.arrays.next_array().map_err(|message| failed(self.of, &message))?;
        array.map(|array| Chunk::of(array, self.kind, self.of)).transpose()
    }
}

fn failed(of: ColumnOf, message: &str) -> PyErr {
    PyRuntimeError::new_err(format!("{}: the Arrow stream failed: {message}", of.argument()))
}

impl Chunk {
    fn of(array: Owned<ArrowArray>, kind: ColumnType, of: ColumnOf) -> PyResult<Self> {
        let mut chunk = Self { array, kind, of, converted: None };
        if let ColumnType::Vectors(lists, number) = kind {
            chunk.converted = chunk.unbroken(array_numbers(&chunk.array.0, lists, number))?;
        }
        Ok(chunk)
    }

    /// Its rows; nulls are `None`.
    pub(crate) fn rows(&self) -> PyResult<Vec<Option<ColumnValue<'_>>>> {
        let array = &self.array.0;
        let rows = || array.rows()?.map(|at| self.row(array, at)).collect();
        self.unbroken(rows())
    }

    /// About how many bytes its rows have.
    pub(crate) fn bytes(&self) -> PyResult<usize> {
        self.unbroken(self.array.0.size(self.kind))
    }

    fn row<'a>(
        &'a self,
        array: &'a ArrowArray,
        at: usize,
    ) -> Result<Option<ColumnValue<'a>>, Broken> {
        if self.kind == ColumnType::Null || !array.is_valid(at)? {
            return Ok(None);
        }
        let value = match self.kind {
            ColumnType::Null => return Ok(None),
            ColumnType::Strings(strings) => array.text_or_bytes(strings, at)?,
            ColumnType::Integers(integer) => ColumnValue::Integer(array.integer(integer, at)?),
            ColumnType::Dictionary(indices, strings) => {
                let (values, at) = array.entry(indices, at)?;
                if !values.is_valid(at)? {
                    return Ok(None);
                }
                values.text_or_bytes(strings, at)?
            }
            ColumnType::Vectors(lists, _) => {
                ColumnValue::Vector(self.vector(array, array.list(lists, at)?)?)
            }
        };
        Ok(Some(value))
    }

    fn vector<'a>(&'a self, array: &'a ArrowArray, at: Range<usize>) -> Result<&'a [f32], Broken> {
        let missing = Broken("a list ends beyond its numbers");
        if let Some(Converted { first, numbers }) = &self.converted {
            let from = at.start.checked_sub(*first);
            return from.and_then(|from| numbers.get(from..)?.get(..at.len())).ok_or(missing);
        }
        try_cast_slice(array.numbers_in_place(at)?).map_err(|_| missing)
    }

    fn unbroken<T>(&self, read: Result<T, Broken>) -> PyResult<T> {
        read.map_err(|Broken(what)| {
            let argument = self.of.argument();
            PyValueError::new_err(format!("{argument}: a broken Arrow column: {what}"))
        })
    }
}

/// The numbers of the vectors of an array; `None` if they can be read where they are. A null
/// becomes a NaN, which no vector may have.
fn array_numbers(
    array: &ArrowArray,
    lists: ListLayout,
    number: VectorNumber,
) -> Result<Option<Converted>, Broken> {
    let rows = array.rows()?;
    let child = array.only_child().ok_or(Broken("the numbers of lists are missing"))?;
    let all = child.rows()?;
    if rows.is_empty() || all.is_empty() {
        return Ok(Some(Converted { first: 0, numbers: Vec::new() }));
    }
    let (first, end) = (array.list(lists, rows.start)?.start, array.list(lists, rows.end - 1)?.end);
    if end < first {
        return Err(Broken("offsets that descend"));
    }
    let are_whole = child.null_count == 0 || child.bytes(0, 0..0).is_none();
    if are_whole
        && number == VectorNumber::Single
        && try_cast_slice::<u8, f32>(array.numbers_in_place(first..end)?).is_ok()
    {
        return Ok(None);
    }
    let numbers = (first..end).map(|at| {
        let at = all.start + at;
        if child.is_valid(at)? { child.number(number, at) } else { Ok(f32::NAN) }
    });
    numbers.collect::<Result<_, _>>().map(|numbers| Some(Converted { first, numbers }))
}

impl ArrowArray {
    /// The places of its rows in its buffers.
    fn rows(&self) -> Result<Range<usize>, Broken> {
        let length = usize::try_from(self.length).map_err(|_| Broken("a negative length"))?;
        let from = usize::try_from(self.offset).map_err(|_| Broken("a negative offset"))?;
        Ok(from..from + length)
    }

    /// Whether a row is not null. A bitmap has a bit for each row from the beginning of the buffer.
    fn is_valid(&self, at: usize) -> Result<bool, Broken> {
        if self.null_count == 0 {
            return Ok(true);
        }
        if at >= self.rows()?.end {
            return Err(Broken("a row beyond its array"));
        }
        Ok(self.bytes(0, at / 8..at / 8 + 1).is_none_or(|bits| bits[0] >> (at % 8) & 1 == 1))
    }

    /// The value at a place of a buffer that has one for each row, and `more`.
    fn value<T: AnyBitPattern>(&self, at: usize, more: usize) -> Result<T, Broken> {
        if at >= self.rows()?.end + more {
            return Err(Broken("a row beyond its array"));
        }
        let bytes = self.bytes(1, at * size_of::<T>()..(at + 1) * size_of::<T>());
        bytes.map(pod_read_unaligned).ok_or(Broken("a buffer is missing"))
    }

    fn integer(&self, integer: Integer, at: usize) -> Result<i128, Broken> {
        Ok(match integer {
            Integer::I8 => self.value::<i8>(at, 0)?.into(),
            Integer::U8 => self.value::<u8>(at, 0)?.into(),
            Integer::I16 => self.value::<i16>(at, 0)?.into(),
            Integer::U16 => self.value::<u16>(at, 0)?.into(),
            Integer::I32 => self.value::<i32>(at, 0)?.into(),
            Integer::U32 => self.value::<u32>(at, 0)?.into(),
            Integer::I64 => self.value::<i64>(at, 0)?.into(),
            Integer::U64 => self.value::<u64>(at, 0)?.into(),
        })
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "vectors have single precision; what is too large becomes infinite and is refused"
    )]
    fn number(&self, number: VectorNumber, at: usize) -> Result<f32, Broken> {
        match number {
            VectorNumber::Single => self.value(at, 0),
            VectorNumber::Double => self.value::<f64>(at, 0).map(|number| number as f32),
            VectorNumber::Integer(integer) => self.integer(integer, at).map(|number| number as f32),
        }
    }

    /// The places of the numbers of a list in the child.
    fn list(&self, lists: ListLayout, at: usize) -> Result<Range<usize>, Broken> {
        let numbers = match lists {
            ListLayout::Small => self.offset::<i32>(at)?..self.offset::<i32>(at + 1)?,
            ListLayout::Large => self.offset::<i64>(at)?..self.offset::<i64>(at + 1)?,
            ListLayout::Fixed(width) => at * width..(at + 1) * width,
        };
        let all = self.only_child().map_or(Ok(0..0), Self::rows)?;
        if numbers.end > all.len() {
            return Err(Broken("a list ends beyond its numbers"));
        }
        Ok(numbers)
    }

    /// The bytes of numbers of single precision in the child.
    fn numbers_in_place(&self, at: Range<usize>) -> Result<&[u8], Broken> {
        if at.is_empty() {
            return Ok(&[]);
        }
        let child = self.only_child().ok_or(Broken("the numbers of lists are missing"))?;
        let first = child.rows()?.start;
        let bytes = (first + at.start) * size_of::<f32>()..(first + at.end) * size_of::<f32>();
        child.bytes(1, bytes).ok_or(Broken("a buffer is missing"))
    }

    /// The values that the rows are indices of, and the place of that of a row.
    fn entry(&self, indices: Integer, at: usize) -> Result<(&Self, usize), Broken> {
        let values = self.dictionary().ok_or(Broken("a dictionary is missing"))?;
        let index = usize::try_from(self.integer(indices, at)?);
        let place = index.ok().and_then(|index| values.rows().ok()?.nth(index));
        Ok((values, place.ok_or(Broken("an index beyond its dictionary"))?))
    }

    /// About how many bytes its rows have.
    fn size(&self, kind: ColumnType) -> Result<usize, Broken> {
        let mut rows = self.rows()?;
        if rows.is_empty() {
            return Ok(0);
        }
        let (first, end, length) = (rows.start, rows.end, rows.len());
        match kind {
            ColumnType::Null => Ok(0),
            ColumnType::Integers(_) => Ok(length * size_of::<u64>()),
            ColumnType::Strings(Strings { layout: StringLayout::Small, .. }) => {
                Ok(self.offset::<i32>(end)?.saturating_sub(self.offset::<i32>(first)?))
            }
            ColumnType::Strings(Strings { layout: StringLayout::Large, .. }) => {
                Ok(self.offset::<i64>(end)?.saturating_sub(self.offset::<i64>(first)?))
            }
            ColumnType::Strings(strings) => rows.try_fold(0, |bytes, at| {
                let is_valid = self.is_valid(at)?;
                Ok(bytes + if is_valid { self.string(strings, at)?.len() } else { 0 })
            }),
            ColumnType::Dictionary(indices, strings) => rows.try_fold(0, |bytes, at| {
                if !self.is_valid(at)? {
                    return Ok(bytes);
                }
                let (values, at) = self.entry(indices, at)?;
                Ok(bytes + if values.is_valid(at)? { values.string(strings, at)?.len() } else { 0 })
            }),
            ColumnType::Vectors(lists, _) => {
                let numbers = self.list(lists, end - 1)?.end;
                Ok(numbers.saturating_sub(self.list(lists, first)?.start) * size_of::<f32>())
            }
        }
    }

    fn text_or_bytes(&self, strings: Strings, at: usize) -> Result<ColumnValue<'_>, Broken> {
        let bytes = self.string(strings, at)?;
        if !strings.are_text {
            return Ok(ColumnValue::Bytes(bytes));
        }
        str::from_utf8(bytes).map(ColumnValue::Text).map_err(|_| Broken("a text is not UTF-8"))
    }

    fn string(&self, strings: Strings, at: usize) -> Result<&[u8], Broken> {
        match strings.layout {
            StringLayout::Small => self.between::<i32>(at),
            StringLayout::Large => self.between::<i64>(at),
            StringLayout::View => self.viewed(at),
        }
    }

    /// The bytes of a row between two offsets.
    fn between<T: AnyBitPattern + TryInto<usize>>(&self, at: usize) -> Result<&[u8], Broken> {
        let (from, to) = (self.offset::<T>(at)?, self.offset::<T>(at + 1)?);
        if to < from {
            return Err(Broken("offsets that descend"));
        }
        self.content(2, from..to)
    }

    /// An offset, of which there is one more than rows.
    fn offset<T: AnyBitPattern + TryInto<usize>>(&self, at: usize) -> Result<usize, Broken> {
        self.value::<T>(at, 1)?.try_into().map_err(|_| Broken("a negative offset"))
    }

    /// The bytes of a row of views: in the view itself, or in one of the buffers after them.
    fn viewed(&self, at: usize) -> Result<&[u8], Broken> {
        const VIEW: usize = 16;
        const IN_THE_VIEW_MAX: usize = 12;

        if at >= self.rows()?.end {
            return Err(Broken("a row beyond its array"));
        }
        let view = self.content(1, at * VIEW..(at + 1) * VIEW)?;
        let (words, _) = view.as_chunks::<4>();
        let word = |number: usize| usize::try_from(i32::from_le_bytes(words[number]));
        let length = word(0).map_err(|_| Broken("a negative length"))?;
        if length <= IN_THE_VIEW_MAX {
            return Ok(&view[4..4 + length]);
        }
        let (Ok(number), Ok(from)) = (word(2), word(3)) else {
            return Err(Broken("a negative offset"));
        };
        // Validity and views come before the buffers, their sizes after.
        let last = usize::try_from(self.n_buffers).map_or(0, |buffers| buffers.saturating_sub(1));
        if number + 2 >= last {
            return Err(Broken("a buffer is missing"));
        }
        let size: i64 = pod_read_unaligned(self.content(last, number * 8..(number + 1) * 8)?);
        if usize::try_from(size).map_or(true, |size| from + length > size) {
            return Err(Broken("a view ends beyond its buffer"));
        }
        self.content(number + 2, from..from + length)
    }

    fn content(&self, buffer: usize, range: Range<usize>) -> Result<&[u8], Broken> {
        if range.is_empty() {
            return Ok(&[]);
        }
        self.bytes(buffer, range).ok_or(Broken("a buffer is missing"))
    }
}
