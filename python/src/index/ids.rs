//! The ids of documents, as arguments and as columns.

use nearprint_machine::document::DocumentId;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};

use crate::arrow::{Chunks, ColumnOf, ColumnValue};
use crate::documents::text_of;
use crate::errors::{self, Named};

/// An id; numbers are their digits.
pub(super) fn id_of(given: &Bound<'_, PyAny>, argument: Named<'_>) -> PyResult<DocumentId> {
    if let Ok(text) = given.cast::<PyString>() {
        return checked(given.py(), text_of(text, argument)?.to_string(), argument);
    }
    let refused = || errors::wrong_type(argument, "a str or an int", given);
    let is_other = given.is_instance_of::<PyBool>() || given.is_instance_of::<PyFloat>();
    if is_other || !given.hasattr("__index__")? {
        return Err(refused());
    }
    // The numbers of numpy are not those of Python, but integers all the same.
    let number = given.call_method0("__index__").map_err(|_| refused())?;
    let number = number.cast_into::<PyInt>().map_err(|_| refused())?;
    checked(given.py(), number.str()?.to_string(), argument)
}

/// The ids of a batch: a column of Arrow, pandas or polars, or another iterable.
pub(super) fn ids_of(given: &Bound<'_, PyAny>) -> PyResult<Vec<DocumentId>> {
    let py = given.py();
    let Some(mut chunks) = Chunks::of(given, ColumnOf::Ids)? else {
        let id =
            |(at, id): (usize, PyResult<Bound<'_, PyAny>>)| id_of(&id?, &format_args!("ids[{at}]"));
        return given.try_iter()?.enumerate().map(id).collect();
    };
    let mut ids = Vec::new();
    while let Some(chunk) = chunks.next()? {
        for row in chunk.rows()? {
            let at = ids.len();
            let argument = format_args!("ids[{at}]");
            let id = match row {
                Some(ColumnValue::Text(text)) => text.to_owned(),
                Some(ColumnValue::Integer(number)) => number.to_string(),
                Some(ColumnValue::Bytes(_) | ColumnValue::Vector(_)) => {
                    unreachable!("columns of texts and integers are accepted")
                }
                None => {
                    let detail = "it is null, and each document needs an id of its own";
                    return Err(errors::invalid(py, &argument, detail));
                }
            };
            ids.push(checked(py, id, &argument)?);
        }
    }
    Ok(ids)
}

fn checked(py: Python<'_>, id: String, argument: Named<'_>) -> PyResult<DocumentId> {
    DocumentId::new(id).map_err(|bad| {
        let max = DocumentId::BYTES_MAX;
        let detail = format!("an id has 1 to {max} bytes of UTF-8, not {}", bad.bytes);
        errors::invalid(py, argument, &detail)
    })
}
