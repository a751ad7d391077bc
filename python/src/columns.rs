//! The documents of a batch: a list, an array, a column of Arrow, pandas or polars.

use std::num::NonZero;

use nearprint_text::{Analysis, NoFingerprint, Wanted};
use numpy::{PyReadonlyArray2, PyUntypedArrayMethods as _};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyMapping, PyString};

use crate::arrow::{Chunk, Chunks};
use crate::documents::{
    Accepts, BatchDocument, OwnedDocument, Reading, RowErrors, is_of_no_dimension, refuse_masked,
};
use crate::errors;
use crate::work;

/// The arrays of a stream are analysed together until they have so many bytes of text: enough for
/// all cores, few enough for any memory.
const TOGETHER_BYTES: usize = 16 << 20;

/// Documents that are analysed together at most, so that sketches of more are not in memory.
const TOGETHER_ROWS: usize = 1 << 14;

/// The documents of a batch; some are null.
pub(crate) enum DocumentColumn<'py> {
    Documents(Vec<Option<OwnedDocument>>),
    Vectors(PyReadonlyArray2<'py, f32>),
    Arrow(Chunks),
}

impl<'py> DocumentColumn<'py> {
    /// Reads the argument `documents`.
    pub(crate) fn of(
        given: &Bound<'py, PyAny>,
        (accepts, errors): (Accepts, RowErrors),
    ) -> PyResult<Self> {
        let is_single = is_of_no_dimension(given)
            || given.is_instance_of::<PyString>()
            || given.is_instance_of::<PyBytes>()
            || given.cast::<PyMapping>().is_ok();
        if is_single {
            let detail = "documents takes many documents; give [document] for a single one";
            return Err(PyTypeError::new_err(detail));
        }
        if let Some(chunks) = Chunks::of(given, accepts.column())? {
            return Ok(Self::Arrow(chunks));
        }
        if given.hasattr("__array__")? && given.hasattr("ndim")? {
            let dimensions: usize = given.getattr("ndim")?.extract()?;
            if dimensions == 2 {
                return vectors_of(given).map(Self::Vectors);
            }
        }
        // Of an array, one call makes a list; of pandas, one with its missing values.
        let items = match given.call_method0("tolist") {
            Ok(list) => list.try_iter(),
            Err(_) => given.try_iter(),
        };
        let items = items.map_err(|_| errors::wrong_type(&"documents", "many documents", given))?;
        let document = |(at, item): (usize, PyResult<Bound<'py, PyAny>>)| {
            let item = item?;
            if is_missing(&item)? {
                return Ok(None);
            }
            let argument = format_args!("documents[{at}]");
            OwnedDocument::of_row(&item, &argument, (accepts, errors))
        };
        let documents: PyResult<_> = items.enumerate().map(document).collect();
        documents.map(Self::Documents)
    }

    /// Analyses all documents, and passes on what `keep` makes of their analyses by some thousands,
    /// in their order; `None` for those without a fingerprint.
    pub(crate) fn analyse<K: Send>(
        self,
        py: Python<'py>,
        (reading, errors): (&Reading, RowErrors),
        (wanted, threads): (Wanted, NonZero<usize>),
        keep: impl Fn(Analysis) -> K + Sync,
        mut take: impl FnMut(Vec<Option<K>>) -> PyResult<()>,
    ) -> PyResult<()> {
        let mut first = 0;
        let mut part = |rows: &[Option<BatchDocument<'_>>]| -> PyResult<()> {
            for row in rows.iter().flatten() {
                reading.check(py, *row)?;
            }
            let bytes = rows.iter().flatten().map(|row| row.bytes()).sum();
            let analyse = |row: &Option<BatchDocument<'_>>| {
                row.map(|row| reading.analyse(row, wanted).map(&keep).map_err(Box::new))
            };
            let analyses = work::map(py, (rows, bytes), threads, analyse)?;
            let rows_of = (first..).zip(analyses);
            let fingerprinted = rows_of.map(|(at, row)| fingerprinted(py, row, at, errors));
            take(fingerprinted.collect::<PyResult<_>>()?)?;
            first += rows.len();
            Ok(())
        };
        match self {
            Self::Documents(documents) => documents.chunks(TOGETHER_ROWS).try_for_each(|some| {
                let rows = some.iter().map(|document| document.as_ref().map(OwnedDocument::row));
                part(&rows.collect::<Vec<_>>())
            }),
            Self::Vectors(vectors) => {
                let (components, width) = (vectors.as_slice()?, vectors.shape()[1]);
                let row = |at| Some(BatchDocument::Vector(&components[at * width..][..width]));
                let mut rows = (0..vectors.shape()[0]).map(row);
                loop {
                    let some: Vec<_> = rows.by_ref().take(TOGETHER_ROWS).collect();
                    if some.is_empty() {
                        return Ok(());
                    }
                    part(&some)?;
                }
            }
            Self::Arrow(chunks) => in_parts(chunks, &mut part),
        }
    }
}

/// Reads an array of two dimensions; its rows are vectors.
fn vectors_of<'py>(given: &Bound<'py, PyAny>) -> PyResult<PyReadonlyArray2<'py, f32>> {
    let numpy = given.py().import("numpy")?;
    refuse_masked(given, &"documents")?;
    let takes = "vectors of numbers as an array of two dimensions";
    let single = numpy.call_method1("ascontiguousarray", (given, "float32"));
    single.map_err(|_| errors::wrong_type(&"documents", takes, given))?.extract()
}

/// Passes on the rows of arrays: several short arrays together, and of a long one some at a time.
fn in_parts(
    mut chunks: Chunks,
    part: &mut impl FnMut(&[Option<BatchDocument<'_>>]) -> PyResult<()>,
) -> PyResult<()> {
    let mut together: Vec<Chunk> = Vec::new();
    let mut bytes = 0;
    loop {
        let next = chunks.next()?;
        let is_end = next.is_none();
        if let Some(chunk) = next {
            bytes += chunk.bytes()?;
            together.push(chunk);
        }
        if is_end || bytes >= TOGETHER_BYTES {
            let mut rows = Vec::new();
            for chunk in &together {
                rows.extend(chunk.rows()?.into_iter().map(|row| row.map(BatchDocument::from)));
            }
            rows.chunks(TOGETHER_ROWS).try_for_each(&mut *part)?;
            drop(rows);
            together.clear();
            bytes = 0;
        }
        if is_end {
            return Ok(());
        }
    }
}

/// The analysis of a row; `None` if it is null, has nothing that the recipe counts, or is wrong and
/// that is not an error.
fn fingerprinted<K>(
    py: Python<'_>,
    analysis: Option<Result<K, Box<NoFingerprint>>>,
    at: usize,
    row_errors: RowErrors,
) -> PyResult<Option<K>> {
    match analysis.transpose() {
        Ok(analysis) => Ok(analysis),
        Err(none) if errors::is_empty(&none) => Ok(None),
        // No document has a fingerprint without the model, which the call lacks.
        Err(none)
            if row_errors != RowErrors::Raise
                && !matches!(*none, NoFingerprint::NoModel { .. }) =>
        {
            Ok(None)
        }
        Err(none) => Err(errors::no_fingerprint(py, &none, &format_args!("documents[{at}]"))),
    }
}

/// `None`, and what pandas and numpy have in its place.
fn is_missing(item: &Bound<'_, PyAny>) -> PyResult<bool> {
    if item.is_none() {
        return Ok(true);
    }
    if item.is_instance_of::<PyString>() {
        return Ok(false);
    }
    if item.is_instance_of::<PyFloat>() {
        return Ok(item.extract::<f64>()?.is_nan());
    }
    let name = item.get_type().name()?;
    Ok(name == "NAType" || name == "NaTType")
}
