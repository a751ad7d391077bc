//! The values that Python holds besides numbers: sketches, and models of a recipe.

use std::sync::{Mutex, PoisonError};

use nearprint_fingerprint::Sketch as Inner;
use nearprint_text::{BadModel, SpectralModel as Model};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};

use crate::errors;

/// The sketch of a text: 156 bytes that estimate how much two texts agree.
///
/// Made by :func:`nearprint.sketch`; ``bytes(sketch)`` is what is stored, and ``Sketch(data)``
/// reads it again.
///
/// >>> import nearprint
/// >>> one = nearprint.sketch("The ferry leaves at seven in the morning and returns at noon.")
/// >>> nearprint.Sketch(bytes(one)) == one
/// True
#[pyclass(frozen, eq, module = "nearprint")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sketch(pub(crate) Box<Inner>);

#[pymethods]
impl Sketch {
    #[new]
    #[pyo3(signature = (data, /))]
    fn new(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        let bytes = data.try_into().map_err(|_| {
            let detail = format!("a sketch has {} bytes, not {}", Inner::BYTES, data.len());
            errors::invalid(py, &"data", &detail)
        })?;
        Ok(Self(Box::new(Inner::from_bytes(bytes))))
    }

    /// How much the two texts agree, from 0 to 1: about the edit ratio.
    #[pyo3(signature = (other, /))]
    fn similarity(&self, other: &Self) -> f64 {
        self.0.resemblance(&other.0).similarity()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    fn __hash__(&self) -> u64 {
        self.0.to_bytes().as_chunks::<8>().0.iter().fold(0, |hash: u64, word| {
            (hash.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
    }

    fn __repr__(&self) -> String {
        use std::fmt::Write as _;

        let mut hex = String::new();
        for byte in self.0.to_bytes() {
            write!(hex, "{byte:02x}").expect("a string takes all");
        }
        format!("Sketch(bytes.fromhex('{hex}'))")
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, (Bound<'py, PyBytes>,)) {
        (slf.get_type(), (slf.get().__bytes__(slf.py()),))
    }
}

/// The models that the process has, each once: copies of an index share that of its recipe. It is
/// locked attached to the interpreter, so that no fork comes between.
static MODELS: Mutex<Vec<&'static Model>> = Mutex::new(Vec::new());

/// The model with these bytes.
///
/// # Errors
/// Why they are none.
pub(crate) fn model_of(_: Python<'_>, data: &[u8]) -> Result<&'static Model, BadModel> {
    let mut models = MODELS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = models.iter().find(|known| known.to_bytes() == data) {
        return Ok(known);
    }
    let model: &'static Model = Box::leak(Box::new(Model::from_bytes(data)?));
    models.push(model);
    Ok(model)
}

/// The model of a recipe ``spectral-D``, which ``nearprint train spectral`` learned from vectors.
///
/// It takes the bytes of the file, ``SpectralModel(Path("model").read_bytes())``, and stands for
/// the recipe: ``fingerprint(vector, recipe=model)``. Its memory is kept until the process ends.
#[pyclass(frozen, module = "nearprint")]
#[derive(Debug)]
pub(crate) struct SpectralModel {
    pub(crate) model: &'static Model,
}

#[pymethods]
impl SpectralModel {
    #[new]
    #[pyo3(signature = (data, /))]
    fn new(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        let model =
            model_of(py, data).map_err(|bad| errors::invalid(py, &"data", &bad.to_string()))?;
        Ok(Self { model })
    }

    /// The id of the recipe.
    #[getter]
    fn recipe(&self) -> String {
        format!("spectral-{}", self.model.dimensions())
    }

    fn __repr__(&self) -> String {
        format!("<SpectralModel of {}>", self.recipe())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, (Bound<'py, PyBytes>,)) {
        (slf.get_type(), (PyBytes::new(slf.py(), &slf.get().model.to_bytes()),))
    }
}
