//! What an index answers.

use nearprint_machine::commands::Verdict;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use super::state::{IndexWrite, NearDocument};
use crate::errors;

/// What an object is made with, and what of.
type Made<A> = (Py<PyType>, A);
type HitArguments = (String, u64, u8, Option<f64>, Option<f64>);

/// A stored document that is a near-duplicate of the one that was looked up.
///
/// >>> import nearprint
/// >>> index = nearprint.Index()
/// >>> index.insert("a", 0b1011)
/// 'inserted'
/// >>> index.query(0)
/// [Hit(id='a', fingerprint=11, distance=3, similarity=None, numbers=None)]
#[pyclass(frozen, get_all, eq, module = "nearprint")]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Hit {
    /// Its id.
    id: String,
    /// Its fingerprint.
    fingerprint: u64,
    /// The number of bits in which the fingerprints differ.
    distance: u8,
    /// How much the two texts agree, 0 to 1; ``None`` if one of them is not known by its text.
    similarity: Option<f64>,
    /// Which share of their numbers they have in common, 0 to 1; ``None`` if one of them has none.
    numbers: Option<f64>,
}

#[pymethods]
impl Hit {
    #[new]
    #[pyo3(signature = (id, fingerprint, distance, similarity=None, numbers=None))]
    const fn new(
        id: String,
        fingerprint: u64,
        distance: u8,
        similarity: Option<f64>,
        numbers: Option<f64>,
    ) -> Self {
        Self { id, fingerprint, distance, similarity, numbers }
    }

    /// How a copy is made, as pickles are.
    fn __reduce__(slf: &Bound<'_, Self>) -> Made<HitArguments> {
        let Self { id, fingerprint, distance, similarity, numbers } = slf.get().clone();
        (slf.get_type().unbind(), (id, fingerprint, distance, similarity, numbers))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let shown = |part: Option<f64>| part.map_or("None".to_owned(), |part| format!("{part:.4}"));
        let (similarity, numbers) = (shown(self.similarity), shown(self.numbers));
        let Self { id, fingerprint, distance, .. } = self;
        let id = PyString::new(py, id).repr()?;
        Ok(format!(
            "Hit(id={id}, fingerprint={fingerprint}, distance={distance}, \
             similarity={similarity}, numbers={numbers})"
        ))
    }
}

impl From<NearDocument> for Hit {
    fn from(found: NearDocument) -> Self {
        let NearDocument { id, fingerprint, distance, similarity, numbers, .. } = found;
        let (fingerprint, distance) = (fingerprint.bits(), distance.get());
        Self { id: id.to_string(), fingerprint, distance, similarity, numbers }
    }
}

/// As the service names them.
const OUTCOMES: [&str; 4] = ["inserted", "replaced", "already_present", "duplicate"];

/// What :meth:`Index.check_and_insert` did.
#[pyclass(frozen, get_all, eq, module = "nearprint")]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Checked {
    /// ``inserted``, ``replaced``, ``already_present`` or ``duplicate``.
    outcome: &'static str,
    /// The document that it duplicates, or ``None``.
    hit: Option<Hit>,
}

#[pymethods]
impl Checked {
    #[new]
    #[pyo3(signature = (outcome, hit=None))]
    fn new(py: Python<'_>, outcome: &str, hit: Option<&Hit>) -> PyResult<Self> {
        let known = OUTCOMES.into_iter().find(|known| *known == outcome);
        let outcome = known.ok_or_else(|| {
            let detail = format!("it is one of {}, not {outcome:?}", OUTCOMES.join(", "));
            errors::invalid(py, &"outcome", &detail)
        })?;
        Ok(Self { outcome, hit: hit.cloned() })
    }

    /// How a copy is made, as pickles are.
    fn __reduce__(slf: &Bound<'_, Self>) -> Made<(&'static str, Option<Hit>)> {
        (slf.get_type().unbind(), (slf.get().outcome, slf.get().hit.clone()))
    }

    /// Whether it is a near-duplicate of another document, and was not stored.
    #[getter]
    fn duplicate(&self) -> bool {
        self.hit.is_some()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let hit = self.hit.as_ref().map(|hit| hit.__repr__(py)).transpose()?;
        let hit = hit.unwrap_or_else(|| "None".to_owned());
        Ok(format!("Checked(outcome='{}', hit={hit})", self.outcome))
    }
}

impl From<IndexWrite> for Checked {
    fn from(outcome: IndexWrite) -> Self {
        Self { outcome: outcome.name(), hit: outcome.duplicates.map(Hit::from) }
    }
}

impl IndexWrite {
    /// One of [`OUTCOMES`].
    pub(super) const fn name(&self) -> &'static str {
        let [inserted, replaced, already_present, duplicate] = OUTCOMES;
        match self.verdict {
            Verdict::Inserted => inserted,
            Verdict::Replaced => replaced,
            Verdict::AlreadyPresent | Verdict::Refreshed => already_present,
            Verdict::Duplicate { .. } => duplicate,
        }
    }
}
