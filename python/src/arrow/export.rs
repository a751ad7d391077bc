//! A column of `uint64` for other libraries.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::structures::{ArrowArray, ArrowSchema, Owned, Structure as _};

/// The format of `uint64`.
const UINT64: &CStr = c"L";

/// The schema says that there may be nulls.
const NULLABLE: i64 = 2;

/// What an exported array keeps alive: its values, its bitmap, and the pointers to both.
struct Kept {
    _values: Arc<[u64]>,
    _validity: Vec<u8>,
    buffers: [*const c_void; 2],
}

/// The two capsules of `__arrow_c_array__`: schema and array. `validity` has a bit for each value,
/// 0 for a null, or is empty if there is none.
pub(crate) fn export<'py>(
    py: Python<'py>,
    values: &Arc<[u64]>,
    validity: Vec<u8>,
    null_count: usize,
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let schema = ArrowSchema {
        format: UINT64.as_ptr(),
        name: c"".as_ptr(),
        flags: NULLABLE,
        release: Some(release_schema),
        ..ArrowSchema::EMPTY
    };
    let bitmap = if validity.is_empty() { ptr::null() } else { validity.as_ptr().cast() };
    let buffers = [bitmap, values.as_ptr().cast()];
    let kept = Box::new(Kept { _values: Arc::clone(values), _validity: validity, buffers });
    let kept = Box::into_raw(kept);
    let array = ArrowArray {
        length: values.len().cast_signed() as i64,
        null_count: null_count.cast_signed() as i64,
        n_buffers: 2,
        // SAFETY: `kept` was just made and is not moved before it is freed.
        buffers: unsafe { &raw mut (*kept).buffers }.cast(),
        release: Some(release_array),
        private_data: kept.cast(),
        ..ArrowArray::EMPTY
    };
    Ok((
        PyCapsule::new_with_value(py, Owned(schema), c"arrow_schema")?,
        PyCapsule::new_with_value(py, Owned(array), c"arrow_array")?,
    ))
}

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: the caller passes the schema that this function is of. All it points to is constant.
    unsafe { (*schema).release = None };
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: the caller passes the array that this function is of, not released before;
    // `private_data` is the box that `export` made.
    unsafe {
        drop(Box::from_raw((*array).private_data.cast::<Kept>()));
        (*array).release = None;
    }
}
