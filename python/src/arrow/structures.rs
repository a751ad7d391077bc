//! The three structures of the interface, and what reads them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;
use std::{ptr, slice};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// The type of an array.
#[derive(Debug)]
#[repr(C)]
pub(super) struct ArrowSchema {
    pub(super) format: *const c_char,
    pub(super) name: *const c_char,
    pub(super) metadata: *const c_char,
    pub(super) flags: i64,
    pub(super) n_children: i64,
    pub(super) children: *mut *mut Self,
    pub(super) dictionary: *mut Self,
    pub(super) release: Option<unsafe extern "C" fn(*mut Self)>,
    pub(super) private_data: *mut c_void,
}

/// The buffers of an array.
#[derive(Debug)]
#[repr(C)]
pub(super) struct ArrowArray {
    pub(super) length: i64,
    pub(super) null_count: i64,
    pub(super) offset: i64,
    pub(super) n_buffers: i64,
    pub(super) n_children: i64,
    pub(super) buffers: *mut *const c_void,
    pub(super) children: *mut *mut Self,
    pub(super) dictionary: *mut Self,
    pub(super) release: Option<unsafe extern "C" fn(*mut Self)>,
    pub(super) private_data: *mut c_void,
}

/// Arrays one after the other.
#[derive(Debug)]
#[repr(C)]
pub(super) struct ArrowArrayStream {
    pub(super) get_schema: Option<unsafe extern "C" fn(*mut Self, *mut ArrowSchema) -> c_int>,
    pub(super) get_next: Option<unsafe extern "C" fn(*mut Self, *mut ArrowArray) -> c_int>,
    pub(super) get_last_error: Option<unsafe extern "C" fn(*mut Self) -> *const c_char>,
    pub(super) release: Option<unsafe extern "C" fn(*mut Self)>,
    pub(super) private_data: *mut c_void,
}

/// A structure that its producer frees, by a function that it brings.
pub(super) trait Structure: Sized {
    /// One that is released, for a producer to fill.
    const EMPTY: Self;

    /// The function that frees it; `None` once it is released or moved.
    fn release(&mut self) -> &mut Option<unsafe extern "C" fn(*mut Self)>;
}

impl Structure for ArrowSchema {
    const EMPTY: Self = Self {
        format: ptr::null(),
        name: ptr::null(),
        metadata: ptr::null(),
        flags: 0,
        n_children: 0,
        children: ptr::null_mut(),
        dictionary: ptr::null_mut(),
        release: None,
        private_data: ptr::null_mut(),
    };

    fn release(&mut self) -> &mut Option<unsafe extern "C" fn(*mut Self)> {
        &mut self.release
    }
}

impl Structure for ArrowArray {
    const EMPTY: Self = Self {
        length: 0,
        null_count: 0,
        offset: 0,
        n_buffers: 0,
        n_children: 0,
        buffers: ptr::null_mut(),
        children: ptr::null_mut(),
        dictionary: ptr::null_mut(),
        release: None,
        private_data: ptr::null_mut(),
    };

    fn release(&mut self) -> &mut Option<unsafe extern "C" fn(*mut Self)> {
        &mut self.release
    }
}

impl Structure for ArrowArrayStream {
    const EMPTY: Self = Self {
        get_schema: None,
        get_next: None,
        get_last_error: None,
        release: None,
        private_data: ptr::null_mut(),
    };

    fn release(&mut self) -> &mut Option<unsafe extern "C" fn(*mut Self)> {
        &mut self.release
    }
}

/// A structure that is freed when it is dropped, unless a consumer has moved it out.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Owned<T: Structure>(pub(super) T);

// SAFETY: the interface lets any thread read and release a structure; its data are immutable.
unsafe impl<T: Structure> Send for Owned<T> {}
// SAFETY: as above; a shared reference does not release it.
unsafe impl<T: Structure> Sync for Owned<T> {}

impl<T: Structure> Drop for Owned<T> {
    fn drop(&mut self) {
        if let Some(release) = *self.0.release() {
            // SAFETY: its producer asks for this call, once.
            unsafe { release(&raw mut self.0) };
        }
    }
}

impl<T: Structure> Owned<T> {
    /// Takes it out of a capsule, which keeps a released one.
    pub(super) fn take(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<Self> {
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

impl ArrowSchema {
    /// The type, as the interface writes it.
    pub(super) fn format(&self) -> &[u8] {
        // SAFETY: a schema has a format, a C string that lives as long as it.
        unsafe { CStr::from_ptr(self.format) }.to_bytes()
    }

    /// The type of the values that the rows are indices of.
    pub(super) fn dictionary(&self) -> Option<&Self> {
        // SAFETY: it is null, or a schema that lives as long as this one.
        unsafe { self.dictionary.as_ref() }
    }

    /// Its child, if it has one and no other.
    pub(super) fn only_child(&self) -> Option<&Self> {
        let has_one = self.n_children == 1 && !self.children.is_null();
        // SAFETY: `children` has `n_children` schemas, which live as long as this one.
        has_one.then(|| unsafe { &**self.children })
    }
}

impl ArrowArray {
    /// The values that the rows are indices of.
    pub(super) fn dictionary(&self) -> Option<&Self> {
        // SAFETY: it is null, or an array that lives as long as this one.
        unsafe { self.dictionary.as_ref() }
    }

    /// Its child, if it has one and no other.
    pub(super) fn only_child(&self) -> Option<&Self> {
        let has_one = self.n_children == 1 && !self.children.is_null();
        // SAFETY: `children` has `n_children` arrays, which live as long as this one.
        has_one.then(|| unsafe { &**self.children })
    }

    /// Bytes of a buffer; `None` if there is no such buffer. It is trusted to have as many as the
    /// length, the offset and the offsets of this array demand, and no more may be asked for.
    pub(super) fn bytes(&self, buffer: usize, range: Range<usize>) -> Option<&[u8]> {
        let has = usize::try_from(self.n_buffers).is_ok_and(|buffers| buffer < buffers);
        if !has || self.buffers.is_null() {
            return None;
        }
        // SAFETY: `buffers` has `n_buffers` pointers.
        let begin = unsafe { self.buffers.add(buffer).read() }.cast::<u8>();
        if begin.is_null() {
            return None;
        }
        // SAFETY: the buffer has these bytes, as said above, and lives as long as the array.
        Some(unsafe { slice::from_raw_parts(begin.add(range.start), range.len()) })
    }
}

impl Owned<ArrowArrayStream> {
    /// The type of its arrays, or why there is none.
    pub(super) fn schema(&mut self) -> Result<Owned<ArrowSchema>, String> {
        let mut schema = Owned(ArrowSchema::EMPTY);
        let get = self.0.get_schema.ok_or("it has no schema")?;
        // SAFETY: the stream is not released, and fills a released schema.
        let code = unsafe { get(&raw mut self.0, &raw mut schema.0) };
        self.check(code).map(|()| schema)
    }

    /// The next array, `None` after the last, or why there is none.
    pub(super) fn next_array(&mut self) -> Result<Option<Owned<ArrowArray>>, String> {
        let mut array = Owned(ArrowArray::EMPTY);
        let get = self.0.get_next.ok_or("it has no arrays")?;
        // SAFETY: the stream is not released, and fills a released array.
        let code = unsafe { get(&raw mut self.0, &raw mut array.0) };
        self.check(code)?;
        // A released array is the end.
        Ok(array.0.release.is_some().then_some(array))
    }

    fn check(&mut self, code: c_int) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the stream is not released; the message lives until its next call.
        let message = self.0.get_last_error.map(|get| unsafe { get(&raw mut self.0) });
        let message = message.filter(|message| !message.is_null()).map(|message| {
            // SAFETY: it is a C string.
            unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
        });
        Err(message.unwrap_or_else(|| format!("error {code}")))
    }
}
