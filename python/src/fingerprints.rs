//! The result of a batch: a column of fingerprints, some of them null.

use std::sync::Arc;

use numpy::PyArray1;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyIterator, PyList, PySlice, PyType};

use crate::arrow;
use crate::documents::bits_of;
use crate::errors;

/// A column of fingerprints: ``uint64``, and null where a document has none.
///
/// numpy, Arrow, pandas and polars take it as it is, and none of them can mistake a null for the
/// fingerprint 0: ``numpy.asarray`` of an array with nulls has the dtype ``object`` and ``None`` in
/// their places, ``pyarrow.array`` and ``polars.Series`` have nulls.
///
/// >>> import nearprint, numpy
/// >>> fingerprints = nearprint.fingerprint_many(["black tea", "..."])
/// >>> fingerprints
/// FingerprintArray([9585384459165672709, None])
/// >>> fingerprints[0], fingerprints[1], len(fingerprints)
/// (9585384459165672709, None, 2)
/// >>> numpy.asarray(nearprint.fingerprint_many(["black tea"]))
/// array([9585384459165672709], dtype=uint64)
/// >>> fingerprints.to_masked().mask
/// array([False,  True])
/// >>> fingerprints.tolist(signed=True)
/// [-8861359614543878907, None]
#[pyclass(frozen, sequence, module = "nearprint")]
#[derive(Debug)]
pub(crate) struct FingerprintArray {
    /// 0 in the place of a null.
    values: Arc<[u64]>,
    /// Empty without nulls.
    is_null: Vec<bool>,
    null_count: usize,
}

impl FingerprintArray {
    pub(crate) fn new(fingerprints: Vec<Option<u64>>) -> Self {
        let null_count = fingerprints.iter().filter(|bits| bits.is_none()).count();
        let is_null = if null_count == 0 {
            Vec::new()
        } else {
            fingerprints.iter().map(Option::is_none).collect()
        };
        let values = fingerprints.into_iter().map(Option::unwrap_or_default).collect();
        Self { values, is_null, null_count }
    }

    fn get(&self, at: usize) -> Option<u64> {
        let is_null = self.is_null.get(at).is_some_and(|&is_null| is_null);
        self.values.get(at).copied().filter(|_| !is_null)
    }

    fn iter(&self) -> impl Iterator<Item = Option<u64>> {
        (0..self.values.len()).map(|at| self.get(at))
    }

    fn masked(&self) -> Vec<bool> {
        (0..self.values.len()).map(|at| self.get(at).is_none()).collect()
    }
}

#[pymethods]
impl FingerprintArray {
    /// From an iterable of integers, which may be signed, and ``None``.
    #[new]
    #[pyo3(signature = (fingerprints, /))]
    fn of(fingerprints: &Bound<'_, PyAny>) -> PyResult<Self> {
        let bits = |item: PyResult<Bound<'_, PyAny>>| {
            let item = item?;
            if item.is_none() {
                return Ok(None);
            }
            let bits = bits_of(&item, &"fingerprints")?;
            let refused = || errors::wrong_type(&"fingerprints", "integers and None", &item);
            bits.map(Some).ok_or_else(refused)
        };
        let fingerprints: PyResult<Vec<_>> = fingerprints.try_iter()?.map(bits).collect();
        fingerprints.map(Self::new)
    }

    /// The number of nulls.
    #[getter]
    fn null_count(&self) -> usize {
        self.null_count
    }

    /// A numpy array of ``uint64``.
    ///
    /// :param null: The number that stands for a null; without one, nulls are an error.
    #[pyo3(signature = (null=None))]
    fn to_numpy<'py>(
        &self,
        py: Python<'py>,
        null: Option<u64>,
    ) -> PyResult<Bound<'py, PyArray1<u64>>> {
        if self.null_count == 0 {
            return Ok(PyArray1::from_slice(py, &self.values));
        }
        let null = null.ok_or_else(|| {
            PyValueError::new_err(format!(
                "{} of {} documents have no fingerprint, and uint64 has no null: use \
                 to_masked(), or to_numpy(null=...) with a number in their place",
                self.null_count,
                self.values.len()
            ))
        })?;
        let values: Vec<u64> = self.iter().map(|bits| bits.unwrap_or(null)).collect();
        Ok(PyArray1::from_vec(py, values))
    }

    /// A ``numpy.ma.MaskedArray`` of ``uint64``, with the nulls masked.
    fn to_masked<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let values = PyArray1::from_slice(py, &self.values);
        let mask = PyArray1::from_vec(py, self.masked());
        py.import("numpy.ma")?.call_method1("MaskedArray", (values, mask))
    }

    /// A list of ``int`` and ``None``.
    ///
    /// :param signed: Whether the 64 bits are read as signed integers, as libraries do that have no
    ///     unsigned ones. Everything here takes such a number for the fingerprint that it is.
    #[pyo3(signature = (*, signed=false))]
    fn tolist<'py>(&self, py: Python<'py>, signed: bool) -> PyResult<Bound<'py, PyList>> {
        if signed {
            let signed = self.iter().map(|bits| bits.map(u64::cast_signed));
            return PyList::new(py, signed.collect::<Vec<_>>());
        }
        PyList::new(py, self.iter().collect::<Vec<_>>())
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) {
            return Err(PyValueError::new_err("a numpy array of fingerprints is a copy"));
        }
        let numpy = py.import("numpy")?;
        let uint64 = numpy.getattr("uint64")?;
        let given = match dtype {
            Some(dtype) => Some(numpy.call_method1("dtype", (dtype,))?),
            None => None,
        };
        let is_of_object = match &given {
            Some(dtype) => dtype.getattr("kind")?.extract::<String>()? == "O",
            None => self.null_count > 0,
        };
        if is_of_object {
            let kind = PyDict::new(py);
            kind.set_item("dtype", "object")?;
            return numpy.call_method("array", (self.tolist(py, false)?,), Some(&kind));
        }
        self.to_numpy(py, None)?.call_method1("astype", (given.unwrap_or(uint64),))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // A consumer casts by itself what it does not take as it is.
        let _ = requested_schema;
        let mut validity = vec![0_u8; self.is_null.len().div_ceil(8)];
        for (at, is_null) in self.is_null.iter().enumerate() {
            validity[at / 8] |= u8::from(!is_null) << (at % 8);
        }
        arrow::export(py, &self.values, validity, self.null_count)
    }

    fn __len__(&self) -> usize {
        self.values.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.tolist(py, false)?.try_iter()
    }

    fn __getitem__<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = index.py();
        if let Ok(slice) = index.cast::<PySlice>() {
            let range = slice.indices(self.values.len().cast_signed())?;
            let positions =
                (0..range.slicelength).map(|i| range.start + range.step * i.cast_signed());
            let some = positions.map(|at| self.get(at.cast_unsigned())).collect();
            return Ok(Bound::new(py, Self::new(some))?.into_any());
        }
        let at: isize = index.extract()?;
        let at = if at < 0 { at + self.values.len().cast_signed() } else { at };
        let at = usize::try_from(at).ok().filter(|&at| at < self.values.len());
        let at = at.ok_or_else(|| PyIndexError::new_err("no such fingerprint"))?;
        Ok(self.get(at).into_pyobject(py)?)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let other = other.cast::<Self>();
        other.is_ok_and(|other| self.iter().eq(other.get().iter()))
    }

    fn __repr__(&self) -> String {
        const SHOWN_MAX: usize = 8;

        let shown = |bits: Option<u64>| bits.map_or("None".to_owned(), |bits| bits.to_string());
        let mut items: Vec<String> = self.iter().take(SHOWN_MAX).map(shown).collect();
        if self.values.len() > SHOWN_MAX {
            items.push(format!("... {} in all", self.values.len()));
        }
        format!("FingerprintArray([{}])", items.join(", "))
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyType>, (Bound<'py, PyList>,))> {
        Ok((slf.get_type(), (slf.get().tolist(slf.py(), false)?,)))
    }
}
