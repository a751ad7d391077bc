//! The three structures of the interface.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

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
