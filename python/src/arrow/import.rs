//! Columns of texts and bytes that other libraries made.

use std::ffi::{CStr, c_int};
use std::slice;

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::structures::{ArrowArray, ArrowArrayStream, ArrowSchema, Owned, Structure};
use crate::documents::{Accepts, BatchDocument};

impl<T: Structure> Owned<T> {
    /// Takes it out of a capsule, which keeps a released one.
    fn take(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<Self> {
        let capsule = capsule.cast::<PyCapsule>()?;
        let mut at = capsule.pointer_checked(Some(name))?.cast::<T>();
        // SAFETY: a capsule of this name holds this structure, and the interpreter is attached, so
        // nobody else reads it now. The interface lets a consumer move it: it is copied, and the
        // original marked as released.
        let mut taken = unsafe { at.read() };
        // SAFETY: as above.
        *unsafe { at.as_mut() }.release() = None;
        if taken.release().is_none() {
            return Err(PyValueError::new_err("the Arrow column was consumed before"));
        }
        Ok(Self(taken))
    }
}

/// How the rows of a column lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Null,
    /// Offsets of 32 bits.
    Small,
    /// Offsets of 64 bits.
    Large,
    View,
    /// Fingerprints, `uint64`.
    Fingerprints,
}

/// The type of a column.
#[derive(Debug, Clone, Copy)]
struct ColumnType {
    layout: Layout,
    is_text: bool,
}

impl ColumnType {
    fn of(schema: &ArrowSchema, accepts: Accepts) -> PyResult<Self> {
        // SAFETY: a schema has a format, a C string that lives as long as it.
        let format = unsafe { CStr::from_ptr(schema.format) };
        let (layout, is_text) = match format.to_bytes() {
            b"n" => (Layout::Null, true),
            b"u" => (Layout::Small, true),
            b"U" => (Layout::Large, true),
            b"vu" => (Layout::View, true),
            b"z" => (Layout::Small, false),
            b"Z" => (Layout::Large, false),
            b"vz" => (Layout::View, false),
            b"L" if accepts == Accepts::FingerprintsToo => (Layout::Fingerprints, false),
            other => return Err(refused(&String::from_utf8_lossy(other))),
        };
        if !schema.dictionary.is_null() {
            return Err(refused("dictionary"));
        }
        Ok(Self { layout, is_text })
    }
}

fn refused(format: &str) -> PyErr {
    let next = match format.as_bytes() {
        b"+s" => "a table or a struct; give one column of it",
        b"+l" | b"+L" | b"+w" => "lists; give vectors as a numpy array of two dimensions",
        _ => "none of strings or binary; cast it to strings",
    };
    PyTypeError::new_err(format!("documents: an Arrow column of type {format:?}, {next}"))
}

/// The arrays of a column.
pub(crate) enum Chunks {
    Stream(Stream),
    Single(Option<Chunk>),
}

/// An array of texts or bytes.
#[derive(Debug)]
pub(crate) struct Chunk {
    array: Owned<ArrowArray>,
    kind: ColumnType,
}

pub(crate) struct Stream {
    stream: Owned<ArrowArrayStream>,
    kind: ColumnType,
}

impl Chunks {
    /// The arrays of an object with the PyCapsule interface; `None` if it has none.
    pub(crate) fn of(object: &Bound<'_, PyAny>, accepts: Accepts) -> PyResult<Option<Self>> {
        if object.hasattr("__arrow_c_stream__")? {
            // pandas has the method whether or not pyarrow is there.
            return match object.call_method0("__arrow_c_stream__") {
                Ok(capsule) => Stream::of(&capsule, accepts).map(Self::Stream).map(Some),
                Err(error)
                    if error.is_instance_of::<pyo3::exceptions::PyImportError>(object.py()) =>
                {
                    Ok(None)
                }
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
        Ok(Some(Self::Single(Some(Chunk { array, kind: ColumnType::of(&schema.0, accepts)? }))))
    }

    /// The next array.
    pub(crate) fn next(&mut self) -> PyResult<Option<Chunk>> {
        match self {
            Self::Stream(stream) => stream.next(),
            Self::Single(chunk) => Ok(chunk.take()),
        }
    }
}

impl Stream {
    fn of(capsule: &Bound<'_, PyAny>, accepts: Accepts) -> PyResult<Self> {
        let mut stream = Owned::<ArrowArrayStream>::take(capsule, c"arrow_array_stream")?;
        let mut schema = Owned(ArrowSchema::EMPTY);
        let get = stream.0.get_schema.ok_or_else(|| broken("it has no schema"))?;
        // SAFETY: the stream is not released, and fills a released schema.
        let code = unsafe { get(&raw mut stream.0, &raw mut schema.0) };
        Self::check(&mut stream, code)?;
        let kind = ColumnType::of(&schema.0, accepts)?;
        Ok(Self { stream, kind })
    }

    fn next(&mut self) -> PyResult<Option<Chunk>> {
        let mut array = Owned(ArrowArray::EMPTY);
        let get = self.stream.0.get_next.ok_or_else(|| broken("it has no arrays"))?;
        // SAFETY: the stream is not released, and fills a released array.
        let code = unsafe { get(&raw mut self.stream.0, &raw mut array.0) };
        Self::check(&mut self.stream, code)?;
        // A released array is the end.
        Ok(array.0.release.is_some().then_some(Chunk { array, kind: self.kind }))
    }

    fn check(stream: &mut Owned<ArrowArrayStream>, code: c_int) -> PyResult<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the stream is not released; the message lives until its next call.
        let message = stream.0.get_last_error.map(|get| unsafe { get(&raw mut stream.0) });
        let message = message.filter(|message| !message.is_null()).map(|message| {
            // SAFETY: it is a C string.
            unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
        });
        let message = message.unwrap_or_else(|| format!("error {code}"));
        Err(PyRuntimeError::new_err(format!("documents: the Arrow stream failed: {message}")))
    }
}

impl Chunk {
    /// Its rows; nulls are `None`.
    pub(crate) fn rows(&self) -> PyResult<Vec<Option<BatchDocument<'_>>>> {
        let array = &self.array.0;
        let length = usize::try_from(array.length).map_err(|_| broken("a negative length"))?;
        let from = usize::try_from(array.offset).map_err(|_| broken("a negative offset"))?;
        if self.kind.layout == Layout::Null {
            return Ok(vec![None; length]);
        }
        let validity = self.validity(from + length)?;
        let is_null = |at: usize| validity.is_some_and(|bits| bits[at / 8] >> (at % 8) & 1 == 0);
        (from..from + length)
            .map(|at| if is_null(at) { Ok(None) } else { self.row(at).map(Some) })
            .collect()
    }

    /// About how many bytes its rows have.
    pub(crate) fn bytes(&self) -> PyResult<usize> {
        let array = &self.array.0;
        let (Ok(length), Ok(from)) = (usize::try_from(array.length), usize::try_from(array.offset))
        else {
            return Err(broken("a negative length"));
        };
        match self.kind.layout {
            Layout::Null => Ok(0),
            Layout::Fingerprints => Ok(8 * length),
            Layout::Small => {
                Ok(self.offset::<i32>(from + length)?.saturating_sub(self.offset::<i32>(from)?))
            }
            Layout::Large => {
                Ok(self.offset::<i64>(from + length)?.saturating_sub(self.offset::<i64>(from)?))
            }
            Layout::View => (from..from + length).map(|at| self.viewed(at).map(<[u8]>::len)).sum(),
        }
    }

    fn row(&self, at: usize) -> PyResult<BatchDocument<'_>> {
        let bytes = match self.kind.layout {
            Layout::Null => &[],
            Layout::Fingerprints => return self.fingerprint(at),
            Layout::Small => self.between::<i32>(at)?,
            Layout::Large => self.between::<i64>(at)?,
            Layout::View => self.viewed(at)?,
        };
        if !self.kind.is_text {
            return Ok(BatchDocument::Bytes(bytes));
        }
        let text = str::from_utf8(bytes).map_err(|_| broken("a text is not UTF-8"))?;
        Ok(BatchDocument::Text(text))
    }

    fn fingerprint(&self, at: usize) -> PyResult<BatchDocument<'_>> {
        let values = self.buffer(1)?.cast::<u64>();
        if values.is_null() {
            return Err(broken("a buffer is missing"));
        }
        // SAFETY: there is a value for each row.
        Ok(BatchDocument::Fingerprint(unsafe { values.add(at).read_unaligned() }))
    }

    /// The bitmap of this many rows, 1 for those that are not null; `None` if none is.
    fn validity(&self, rows: usize) -> PyResult<Option<&[u8]>> {
        let buffer = self.buffer(0)?.cast::<u8>();
        if buffer.is_null() || self.array.0.null_count == 0 {
            return Ok(None);
        }
        // SAFETY: the bitmap has a bit for each row from the beginning of the buffer.
        Ok(Some(unsafe { slice::from_raw_parts(buffer, rows.div_ceil(8)) }))
    }

    fn buffer(&self, number: usize) -> PyResult<*const u8> {
        let array = &self.array.0;
        if array.buffers.is_null() || !usize::try_from(array.n_buffers).is_ok_and(|n| number < n) {
            return Err(broken("a buffer is missing"));
        }
        // SAFETY: `buffers` has `n_buffers` pointers.
        Ok(unsafe { array.buffers.add(number).read() }.cast())
    }

    /// The bytes of a row between two offsets.
    fn between<T: Copy + TryInto<usize>>(&self, at: usize) -> PyResult<&[u8]> {
        let (from, to) = (self.offset::<T>(at)?, self.offset::<T>(at + 1)?);
        let length = to.checked_sub(from).ok_or_else(|| broken("offsets that descend"))?;
        Self::bytes_at(self.buffer(2)?, from, length)
    }

    fn offset<T: Copy + TryInto<usize>>(&self, at: usize) -> PyResult<usize> {
        let offsets = self.buffer(1)?.cast::<T>();
        if offsets.is_null() {
            return Ok(0);
        }
        // SAFETY: there is one offset more than rows.
        let offset = unsafe { offsets.add(at).read_unaligned() };
        offset.try_into().map_err(|_| broken("a negative offset"))
    }

    /// The bytes of a row of views: in the view itself, or in one of the buffers after them.
    fn viewed(&self, at: usize) -> PyResult<&[u8]> {
        const IN_THE_VIEW_MAX: usize = 12;

        // SAFETY: there is a view of 16 bytes for each row.
        let view: &[u8; 16] = unsafe { &*self.buffer(1)?.cast::<[u8; 16]>().add(at) };
        let (words, _) = view.as_chunks::<4>();
        let word = |number: usize| usize::try_from(i32::from_le_bytes(words[number]));
        let length = word(0).map_err(|_| broken("a negative length"))?;
        if length <= IN_THE_VIEW_MAX {
            return Ok(&view[4..4 + length]);
        }
        let (Ok(number), Ok(from)) = (word(2), word(3)) else {
            return Err(broken("a negative offset"));
        };
        // Validity and views come before the buffers, their sizes after.
        let last = usize::try_from(self.array.0.n_buffers).map_or(0, |n| n.saturating_sub(1));
        if number + 2 >= last {
            return Err(broken("a buffer is missing"));
        }
        // SAFETY: the last buffer has the size of each buffer of bytes.
        let size = unsafe { self.buffer(last)?.cast::<i64>().add(number).read_unaligned() };
        if usize::try_from(size).map_or(true, |size| from + length > size) {
            return Err(broken("a view ends beyond its buffer"));
        }
        Self::bytes_at(self.buffer(number + 2)?, from, length)
    }

    fn bytes_at<'a>(buffer: *const u8, from: usize, length: usize) -> PyResult<&'a [u8]> {
        if length == 0 {
            return Ok(&[]);
        }
        if buffer.is_null() {
            return Err(broken("a buffer is missing"));
        }
        // SAFETY: the offsets, which were checked, end in the buffer; it lives as long as the
        // array.
        Ok(unsafe { slice::from_raw_parts(buffer.add(from), length) })
    }
}

fn broken(what: &str) -> PyErr {
    PyValueError::new_err(format!("documents: a broken Arrow column: {what}"))
}
