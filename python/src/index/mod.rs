//! The index in memory, as Python sees it.

mod arguments;
pub(crate) mod dedup;
mod file;
mod groups;
mod ids;
mod replies;
mod state;

use std::convert::identity;
use std::ffi::CStr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use nearprint_fingerprint::{Distance, Fingerprint};
use nearprint_machine::document::DocumentId;
use nearprint_machine::query::{Criteria, SearchKind};
use nearprint_text::{Analysis, Wanted};
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyIterator, PyList, PyType};

use self::arguments::{Asked, DISTANCE_DEFAULT, checked_share, distance_of, search_of};
use self::ids::{id_of, ids_of};
pub(crate) use self::replies::{Checked, Hit};
use self::state::{IndexState, Snapshot};
use crate::columns::DocumentColumn;
use crate::documents::{Accepts, Keywords, OwnedDocument, Reading, RowErrors};
use crate::errors;
use crate::fork;
use crate::values::Sketch;
use crate::work;

/// Said once in each process.
const COPY_WARNING: &CStr = c"this process was forked and stores documents in its own copy of the \
    index: other processes do not see them, so that each keeps near-duplicates of what others \
    have; use one process (num_proc=1, workers=1), or a service and nearprint.Client, which all \
    processes share";

/// An index of documents in memory: which stored ones are near-duplicates of a given one?
///
/// It decides as the service does. A document takes about 450 bytes and its id. The index is in
/// memory; :meth:`save` writes it to a file, and :meth:`load` reads it again. It can be copied and
/// pickled.
///
/// >>> import nearprint
/// >>> index = nearprint.Index()
/// >>> index.insert("a.example/1", "The ferry to the island leaves at seven in the morning and "
/// ...     "returns at noon, but in winter it often stays in the harbour until the afternoon.")
/// 'inserted'
/// >>> changed = ("The ferry to the island leaves at seven in the morning and "
/// ...     "returns at noon, but in winter it often stays in the port until the afternoon.")
/// >>> [hit] = index.query(changed)
/// >>> hit.id, round(hit.similarity, 1)
/// ('a.example/1', 0.9)
/// >>> index.check_and_insert("b.example/2", changed).outcome
/// 'duplicate'
///
/// :param recipe: The definition of the fingerprints of all its documents.
/// :param distance_max: The largest distance that a look-up may use, 0 to 12. It decides the tables
///     of the index: larger ones take more memory and time.
/// :param min_similarity: The similarity from which two texts count as near-duplicates, 0 to 1; 0
///     compares no sketches.
/// :param min_numbers: The share of their numbers that two texts must have in common, 0 to 1, where
///     both have some; 0 demands none.
/// :param search: ``likely`` searches for near-duplicates of texts beyond the distance, too;
///     ``exact`` does not.
/// :param extract: Which text of a page counts: ``content``, ``visible`` or ``main``.
///
/// A document is what :func:`fingerprint` takes, or a fingerprint as an ``int``. An id is a
/// ``str``, or an ``int``, which is the same as its digits. Threads may share an index.
#[pyclass(frozen, module = "nearprint")]
#[derive(Debug)]
pub(crate) struct Index {
    reading: Reading,
    recipe: String,
    distance_max: Distance,
    min_similarity: f64,
    min_numbers: f64,
    search: SearchKind,
    state: RwLock<IndexState>,
    /// The [`fork::generation`] that made it, or that was warned.
    generation: AtomicU64,
}

#[pymethods]
impl Index {
    #[new]
    #[pyo3(
        signature = (*, recipe=None, distance_max=DISTANCE_DEFAULT, min_similarity=0.83, min_numbers=0.0, search="likely", extract="content"),
        text_signature = "(*, recipe='np2', distance_max=3, min_similarity=0.83, min_numbers=0.0, search='likely', extract='content')"
    )]
    fn new(
        py: Python<'_>,
        recipe: Option<Bound<'_, PyAny>>,
        distance_max: u8,
        min_similarity: f64,
        min_numbers: f64,
        search: &str,
        extract: &str,
    ) -> PyResult<Self> {
        let reading = Reading::of(py, Keywords { recipe, html: false, charset: None, extract })?;
        let distance_max = distance_of(py, "distance_max", distance_max)?;
        Ok(Self {
            recipe: reading.method.recipe.to_string(),
            reading,
            distance_max,
            min_similarity: checked_share(py, "min_similarity", min_similarity)?,
            min_numbers: checked_share(py, "min_numbers", min_numbers)?,
            search: search_of(py, search)?,
            state: RwLock::new(IndexState::new(distance_max)),
            generation: AtomicU64::new(fork::generation()),
        })
    }

    /// Store a document, whether or not it has near-duplicates.
    ///
    /// :param sketch: The :class:`Sketch` of a document that comes as a fingerprint.
    /// :param recipe: The recipe of a fingerprint, which is refused unless it is the index's.
    /// :returns: ``inserted``; ``replaced`` if the id had another fingerprint; ``already_present``.
    #[pyo3(signature = (id, document, *, html=false, charset=None, sketch=None, recipe=None))]
    fn insert(
        &self,
        id: &Bound<'_, PyAny>,
        document: &Bound<'_, PyAny>,
        html: bool,
        charset: Option<String>,
        sketch: Option<&Sketch>,
        recipe: Option<&str>,
    ) -> PyResult<&'static str> {
        let py = id.py();
        let id = id_of(id, &"id")?;
        let reading = self.reading.with(py, html, charset)?;
        let analysis = self.analysis(document, &reading, (sketch, recipe))?;
        self.write(py, |state| state.insert(id, &analysis).name())
    }

    /// Store a document unless it is a near-duplicate of another one, in one step.
    ///
    /// >>> import nearprint
    /// >>> index = nearprint.Index()
    /// >>> index.check_and_insert("a", 0b1011)
    /// Checked(outcome='inserted', hit=None)
    /// >>> checked = index.check_and_insert("b", 0b1111)
    /// >>> checked.outcome, checked.hit
    /// ('duplicate', Hit(id='a', fingerprint=11, distance=1, similarity=None, numbers=None))
    ///
    /// The keywords are those of :meth:`insert` and :meth:`query`.
    #[pyo3(signature = (id, document, *, distance=None, min_similarity=None, min_numbers=None, search=None, html=false, charset=None, sketch=None, recipe=None))]
    fn check_and_insert(
        &self,
        id: &Bound<'_, PyAny>,
        document: &Bound<'_, PyAny>,
        distance: Option<u8>,
        min_similarity: Option<f64>,
        min_numbers: Option<f64>,
        search: Option<&str>,
        html: bool,
        charset: Option<String>,
        sketch: Option<&Sketch>,
        recipe: Option<&str>,
    ) -> PyResult<Checked> {
        let py = id.py();
        let criteria =
            self.criteria(py, Asked { distance, min_similarity, min_numbers, search })?;
        let id = id_of(id, &"id")?;
        let reading = self.reading.with(py, html, charset)?;
        let analysis = self.analysis(document, &reading, (sketch, recipe))?;
        self.write(py, |state| state.check(id, &analysis, criteria).into())
    }

    /// Find the near-duplicates of a document: those that count, by distance and then by age.
    ///
    /// :param distance: The largest number of bits in which fingerprints may differ; 3, or less if
    ///     ``distance_max`` is less.
    /// :param limit: The number of hits at most.
    /// :param id: Leave out the document with this id.
    #[pyo3(signature = (document, *, distance=None, min_similarity=None, min_numbers=None, search=None, limit=10, id=None, html=false, charset=None, sketch=None, recipe=None))]
    fn query(
        &self,
        document: &Bound<'_, PyAny>,
        distance: Option<u8>,
        min_similarity: Option<f64>,
        min_numbers: Option<f64>,
        search: Option<&str>,
        limit: usize,
        id: Option<&Bound<'_, PyAny>>,
        html: bool,
        charset: Option<String>,
        sketch: Option<&Sketch>,
        recipe: Option<&str>,
    ) -> PyResult<Vec<Hit>> {
        let py = document.py();
        let criteria =
            self.criteria(py, Asked { distance, min_similarity, min_numbers, search })?;
        let without = id.map(|id| id_of(id, &"id")).transpose()?;
        let reading = self.reading.with(py, html, charset)?;
        let analysis = self.analysis(document, &reading, (sketch, recipe))?;
        self.read(py, |state| hits(state, (without, &analysis), criteria, limit))
    }

    /// Remove a document; return whether there was one.
    fn delete(&self, id: &Bound<'_, PyAny>) -> PyResult<bool> {
        let name = id_of(id, &"id")?;
        self.write(id.py(), |state| state.delete(name))
    }

    /// The fingerprint of the document with an id; ``None`` if there is none.
    fn get(&self, id: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        let name = id_of(id, &"id")?;
        self.read(id.py(), |state| state.get(name).map(Fingerprint::bits))
    }

    /// Store many documents; see :meth:`insert` and, for what ``documents`` may be,
    /// :func:`fingerprint_many`.
    ///
    /// :returns: An outcome for each; ``None`` for those without a fingerprint, which are not
    /// stored.
    #[pyo3(signature = (ids, documents, *, html=false, charset=None, errors="raise", threads=None))]
    fn insert_many(
        &self,
        ids: &Bound<'_, PyAny>,
        documents: &Bound<'_, PyAny>,
        html: bool,
        charset: Option<String>,
        errors: &str,
        threads: Option<usize>,
    ) -> PyResult<Vec<Option<&'static str>>> {
        let reading = self.reading.with(ids.py(), html, charset)?;
        self.write_each((ids, documents), (&reading, errors), threads, |state, id, analysis| {
            state.insert(id, analysis).name()
        })
    }

    /// Store many documents unless they are near-duplicates of others, one after the other; see
    /// :meth:`check_and_insert`.
    ///
    /// >>> import nearprint
    /// >>> index = nearprint.Index()
    /// >>> [checked.outcome for checked in index.check_and_insert_many("ab", ["tea", "tea"])]
    /// ['inserted', 'duplicate']
    ///
    /// :returns: A :class:`Checked` for each; ``None`` for those without a fingerprint.
    #[pyo3(signature = (ids, documents, *, distance=None, min_similarity=None, min_numbers=None, search=None, html=false, charset=None, errors="raise", threads=None))]
    fn check_and_insert_many(
        &self,
        ids: &Bound<'_, PyAny>,
        documents: &Bound<'_, PyAny>,
        distance: Option<u8>,
        min_similarity: Option<f64>,
        min_numbers: Option<f64>,
        search: Option<&str>,
        html: bool,
        charset: Option<String>,
        errors: &str,
        threads: Option<usize>,
    ) -> PyResult<Vec<Option<Checked>>> {
        let criteria =
            self.criteria(ids.py(), Asked { distance, min_similarity, min_numbers, search })?;
        let reading = self.reading.with(ids.py(), html, charset)?;
        self.write_each((ids, documents), (&reading, errors), threads, |state, id, analysis| {
            state.check(id, analysis, criteria).into()
        })
    }

    /// Find the near-duplicates of many documents, on all cores; see :meth:`query`.
    ///
    /// :returns: A list of hits for each; ``None`` for those without a fingerprint.
    #[pyo3(signature = (documents, *, distance=None, min_similarity=None, min_numbers=None, search=None, limit=10, html=false, charset=None, errors="raise", threads=None))]
    fn query_many(
        &self,
        documents: &Bound<'_, PyAny>,
        distance: Option<u8>,
        min_similarity: Option<f64>,
        min_numbers: Option<f64>,
        search: Option<&str>,
        limit: usize,
        html: bool,
        charset: Option<String>,
        errors: &str,
        threads: Option<usize>,
    ) -> PyResult<Vec<Option<Vec<Hit>>>> {
        let py = documents.py();
        let criteria =
            self.criteria(py, Asked { distance, min_similarity, min_numbers, search })?;
        let reading = self.reading.with(py, html, charset)?;
        let errors = RowErrors::of(py, errors)?;
        let threads = work::threads(py, threads)?;
        let mut all = Vec::new();
        DocumentColumn::of(documents, (Accepts::FingerprintsToo, errors))?.analyse(
            py,
            (&reading, errors),
            (Wanted::STORED, threads),
            identity,
            |analyses| {
                // As much work as the analysis of a few hundred bytes. It waits for locks, so it is
                // always detached from the interpreter.
                let bytes = (analyses.len() << 8).max(work::DETACHED_BYTES_MIN);
                let search = |analysis: &Option<Analysis>| {
                    let _no_fork = fork::hold_off();
                    let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
                    analysis.as_ref().map(|it| hits(&state, (None, it), criteria, limit))
                };
                all.extend(work::map(py, (&analyses, bytes), threads, search)?);
                Ok(())
            },
        )?;
        Ok(all)
    }

    /// The recipe of its fingerprints.
    #[getter]
    fn recipe(&self) -> &str {
        &self.recipe
    }

    /// The largest distance that a look-up may use.
    #[getter]
    fn distance_max(&self) -> u8 {
        self.distance_max.get()
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.read(py, IndexState::len)
    }

    fn __contains__(&self, id: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.get(id)?.is_some())
    }

    /// The ids of its documents, in the order in which they were stored.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let all = self.read(py, IndexState::all)?;
        PyList::new(py, all.iter().map(|(_, stored)| &*stored.id))?.try_iter()
    }

    /// The ids of its documents with their fingerprints, in the order in which they were stored.
    ///
    /// >>> import nearprint
    /// >>> index = nearprint.Index()
    /// >>> index.insert_many(["b", "a"], [0b1011, 0b1])
    /// ['inserted', 'inserted']
    /// >>> list(index), index.items()
    /// (['b', 'a'], [('b', 11), ('a', 1)])
    fn items(&self, py: Python<'_>) -> PyResult<Vec<(String, u64)>> {
        let all = self.read(py, IndexState::all)?.into_iter();
        Ok(all.map(|(_, stored)| (stored.id.to_string(), stored.fingerprint.bits())).collect())
    }

    /// The groups of at least two documents that chains of near-duplicates connect, as lists of
    /// ids: the largest group first, its oldest document first.
    ///
    /// >>> import nearprint
    /// >>> index = nearprint.Index()
    /// >>> index.insert_many("abcd", [0b1011, 2**63, 0b1111, 0b11_1111])
    /// ['inserted', 'inserted', 'inserted', 'inserted']
    /// >>> index.groups(), index.groups(distance=1)
    /// ([['a', 'c', 'd']], [['a', 'c']])
    ///
    /// The keywords are those of :meth:`query`. It goes on while others change the index, with the
    /// documents of its beginning, and Ctrl-C ends it.
    #[pyo3(signature = (*, distance=None, min_similarity=None, min_numbers=None, search=None, threads=None))]
    fn groups(
        &self,
        py: Python<'_>,
        distance: Option<u8>,
        min_similarity: Option<f64>,
        min_numbers: Option<f64>,
        search: Option<&str>,
        threads: Option<usize>,
    ) -> PyResult<Vec<Vec<String>>> {
        let criteria =
            self.criteria(py, Asked { distance, min_similarity, min_numbers, search })?;
        let threads = work::threads(py, threads)?;
        groups::of_documents(py, &self.snapshot(py)?, criteria, threads)
    }

    /// Insert the documents of another index, in the order in which they were stored there. Those
    /// with an id that this index has replace its own.
    ///
    /// >>> import nearprint
    /// >>> index, other = nearprint.Index(), nearprint.Index()
    /// >>> index.insert_many(["a", "b"], [1, 2]), other.insert_many(["b", "c"], [3, 4])
    /// (['inserted', 'inserted'], ['inserted', 'inserted'])
    /// >>> index.merge(other)
    /// >>> index.items()
    /// [('a', 1), ('b', 3), ('c', 4)]
    ///
    /// :raises RecipeMismatch: The other has fingerprints of another recipe.
    #[pyo3(signature = (other, /))]
    fn merge(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        let methods = [self, other].map(|index| index.reading.method);
        let [own, others] = methods.map(|method| (method.recipe, method.model));
        if own != others {
            let detail = format!(
                "this index compares fingerprints of {}, and the other those of {} or of another \
                 model",
                self.recipe, other.recipe
            );
            return Err(errors::error(py, "RecipeMismatch", &"other", &detail));
        }
        let all = other.read(py, IndexState::all)?;
        self.write(py, |state| {
            for (_, stored) in all {
                let id = DocumentId::new(&*stored.id).expect("it was checked when it was stored");
                state.insert_stored(id, &stored);
            }
        })
    }

    /// Write the index to a file, with its options.
    ///
    /// >>> import nearprint, pathlib, tempfile
    /// >>> index = nearprint.Index()
    /// >>> index.insert("a", "black tea")
    /// 'inserted'
    /// >>> path = pathlib.Path(tempfile.mkdtemp(), "documents.index")
    /// >>> index.save(path)
    /// >>> nearprint.Index.load(path).query("black tea")[0].id
    /// 'a'
    ///
    /// The file has what the index held when the call began; others may change it meanwhile. A file
    /// that is there already is replaced when the new one is whole and on the disk: after a crash
    /// there is one or the other.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.save_to(py, &path)
    }

    /// Read an index that :meth:`save` has written.
    ///
    /// :raises InvalidValue: The file is no index, is damaged, or is of another version.
    #[classmethod]
    fn load(class: &Bound<'_, PyType>, path: PathBuf) -> PyResult<Self> {
        Self::load_from(class.py(), &path)
    }

    /// The index as bytes: those that :meth:`save` writes, and a pickle has.
    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.to_bytes(py)?))
    }

    /// Read an index from its bytes.
    ///
    /// >>> import nearprint
    /// >>> index = nearprint.Index(distance_max=5)
    /// >>> nearprint.Index.from_bytes(bytes(index)).distance_max
    /// 5
    #[classmethod]
    #[pyo3(signature = (data, /))]
    fn from_bytes(class: &Bound<'_, PyType>, data: PyBackedBytes) -> PyResult<Self> {
        Self::of_bytes(class.py(), &data)
    }

    /// How a copy is made, as pickles are.
    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let bytes = slf.get().__bytes__(slf.py())?;
        Ok((slf.get_type().getattr("from_bytes")?, (bytes,)))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<nearprint.Index of {} documents, {}>", self.__len__(py)?, self.recipe))
    }
}

impl Index {
    /// Reads detached from the interpreter: a thread that waits for the lock must not keep the
    /// interpreter from the one that has it.
    fn read<T: Send>(
        &self,
        py: Python<'_>,
        read: impl FnOnce(&IndexState) -> T + Send,
    ) -> PyResult<T> {
        work::detached(py, usize::MAX, || {
            let _no_fork = fork::hold_off();
            read(&self.state.read().unwrap_or_else(PoisonError::into_inner))
        })
    }

    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        self.read(py, IndexState::snapshot)
    }

    fn write<T: Send>(
        &self,
        py: Python<'_>,
        write: impl FnOnce(&mut IndexState) -> T + Send,
    ) -> PyResult<T> {
        let generation = fork::generation();
        if self.generation.swap(generation, Ordering::Relaxed) != generation {
            PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), COPY_WARNING, 1)?;
        }
        work::detached(py, usize::MAX, || {
            let _no_fork = fork::hold_off();
            write(&mut self.state.write().unwrap_or_else(PoisonError::into_inner))
        })
    }

    /// Writes documents in their order, or none of them if one is refused.
    fn write_each<T: Send>(
        &self,
        (ids, documents): (&Bound<'_, PyAny>, &Bound<'_, PyAny>),
        (reading, errors): (&Reading, &str),
        threads: Option<usize>,
        write: impl Fn(&mut IndexState, DocumentId, &Analysis) -> T + Sync + Send,
    ) -> PyResult<Vec<Option<T>>> {
        let py = ids.py();
        let threads = work::threads(py, threads)?;
        let errors = RowErrors::of(py, errors)?;
        let ids = ids_of(ids)?;
        let mut all = Vec::with_capacity(ids.len());
        DocumentColumn::of(documents, (Accepts::FingerprintsToo, errors))?.analyse(
            py,
            (reading, errors),
            (Wanted::STORED, threads),
            identity,
            |analyses| {
                all.extend(analyses);
                Ok(())
            },
        )?;
        if ids.len() != all.len() {
            let detail = format!("{} ids for {} documents", ids.len(), all.len());
            return Err(errors::invalid(py, &"ids", &detail));
        }
        self.write(py, |state| {
            let rows = ids.into_iter().zip(&all);
            rows.map(|(id, row)| row.as_ref().map(|row| write(state, id, row))).collect()
        })
    }

    /// The analysis of an argument `document`, which may be a fingerprint.
    fn analysis(
        &self,
        given: &Bound<'_, PyAny>,
        reading: &Reading,
        (sketch, recipe): (Option<&Sketch>, Option<&str>),
    ) -> PyResult<Analysis> {
        let py = given.py();
        if let Some(other) = recipe.filter(|other| *other != self.recipe) {
            let detail =
                format!("this index compares fingerprints of {}, not {other}", self.recipe);
            return Err(errors::error(py, "RecipeMismatch", &"recipe", &detail));
        }
        let document = OwnedDocument::of(given, &"document", Accepts::FingerprintsToo)?;
        let mut analysis = reading.analysis_of(py, &document, &"document", Wanted::STORED)?;
        if let Some(sketch) = sketch {
            if !matches!(document, OwnedDocument::Fingerprint(_)) {
                return Err(errors::invalid(py, &"sketch", "only a fingerprint comes with one"));
            }
            analysis.sketch = Some(sketch.0.clone());
        }
        Ok(analysis)
    }
}

fn hits(
    state: &IndexState,
    document: (Option<DocumentId>, &Analysis),
    criteria: Criteria,
    limit: usize,
) -> Vec<Hit> {
    state.query(document, criteria, limit).into_iter().map(Hit::from).collect()
}
