//! The functions of the package: documents to fingerprints, sketches and explanations.

use nearprint_text::charset::decode_or_guess;
use nearprint_text::{Analysis, Explained, Wanted};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyDict;

use crate::columns::DocumentColumn;
use crate::documents::{Accepts, Keywords, OwnedDocument, Reading, RowErrors};
use crate::errors::{self, Named};
use crate::explanations::{Comparison, Explanation};
use crate::fingerprints::FingerprintArray;
use crate::values::Sketch;
use crate::work;

/// The fingerprint alone.
const BARE: Wanted = Wanted { sketch: false, features: false };

/// Make the fingerprint of a document: an integer of 64 bits.
///
/// Near-duplicates have fingerprints that differ in few bits.
///
/// >>> import nearprint
/// >>> f"{nearprint.fingerprint('black tea'):016x}"
/// '850620614c1ea505'
///
/// A document is a ``str``, ``bytes``, a ``dict`` of weighted features, or a vector. ``bytes`` are
/// decoded by ``charset``, or as browsers guess it. With ``html=True`` the document is a page, and
/// ``extract`` says which of its text counts: ``content``, ``visible`` or ``main``.
///
/// >>> page = b"<nav>Home</nav><p>Caf\xe9 &amp; tea</p>"
/// >>> text = "Caf\xe9 & tea"
/// >>> nearprint.fingerprint(page, html=True, charset="latin1") == nearprint.fingerprint(text)
/// True
///
/// ``recipe`` is the definition of the fingerprint; those of different recipes cannot be compared.
///
/// >>> nearprint.fingerprint([0.5, -1.25], recipe="hyperplanes-2")
/// 16727909831572994219
///
/// :raises EmptyDocument: The document has nothing that the recipe counts.
/// :raises ValueError: An argument has a wrong value.
#[pyfunction]
#[pyo3(
    signature = (document, *, recipe=None, html=false, charset=None, extract="content"),
    text_signature = "(document, *, recipe='np2', html=False, charset=None, extract='content')"
)]
pub(crate) fn fingerprint(
    document: &Bound<'_, PyAny>,
    recipe: Option<Bound<'_, PyAny>>,
    html: bool,
    charset: Option<String>,
    extract: &str,
) -> PyResult<u64> {
    let reading = Reading::of(document.py(), Keywords { recipe, html, charset, extract })?;
    Ok(reading.analysis(document, &"document", Accepts::Documents, BARE)?.fingerprint.bits())
}

/// Make the fingerprints of many documents, on all cores.
///
/// >>> import nearprint
/// >>> fingerprints = nearprint.fingerprint_many(["black tea", "...", None])
/// >>> fingerprints.tolist()
/// [9585384459165672709, None, None]
/// >>> fingerprints.null_count
/// 2
///
/// ``documents`` is a list or another iterable, a numpy array, or a column of Arrow, pandas or
/// polars, also a dictionary or a categorical one. Vectors are a numpy array of two dimensions, or
/// a column of lists of numbers. What has no fingerprint is null in the result: nulls, and
/// documents without anything that the recipe counts. Everything else that is wrong with a document
/// is an exception that names it, as from :func:`fingerprint`, or null with ``errors="null"``;
/// ``errors="replace"`` does the same, but reads a text with U+FFFD in the place of lone
/// surrogates.
///
/// >>> nearprint.fingerprint_many(["black tea", 7], errors="null").tolist()
/// [9585384459165672709, None]
///
/// A column is read where it lies in memory, so one whose library gives wrong lengths or addresses
/// can crash the interpreter, as with every reader of Arrow's C interface.
///
/// The interpreter is free meanwhile. ``threads`` is the number of threads at most, by default one
/// a core; none of them outlives the call.
#[pyfunction]
#[pyo3(
    signature = (documents, *, recipe=None, html=false, charset=None, extract="content", errors="raise", threads=None),
    text_signature = "(documents, *, recipe='np2', html=False, charset=None, extract='content', errors='raise', threads=None)"
)]
pub(crate) fn fingerprint_many(
    documents: &Bound<'_, PyAny>,
    recipe: Option<Bound<'_, PyAny>>,
    html: bool,
    charset: Option<String>,
    extract: &str,
    errors: &str,
    threads: Option<usize>,
) -> PyResult<FingerprintArray> {
    let py = documents.py();
    let errors = RowErrors::of(py, errors)?;
    let reading = Reading::of(py, Keywords { recipe, html, charset, extract })?;
    let threads = work::threads(py, threads)?;
    let mut fingerprints = Vec::new();
    let bits = |analysis: Analysis| analysis.fingerprint.bits();
    DocumentColumn::of(documents, (Accepts::Documents, errors))?.analyse(
        py,
        (&reading, errors),
        (BARE, threads),
        bits,
        |some| {
            fingerprints.extend(some);
            Ok(())
        },
    )?;
    Ok(FingerprintArray::new(fingerprints))
}

/// Make the sketch of a text or a page, which estimates how much it agrees with another.
///
/// >>> import nearprint
/// >>> len(bytes(nearprint.sketch("black tea")))
/// 156
///
/// The keywords are those of :func:`fingerprint`. The sketch is the same for every recipe.
///
/// :raises EmptyDocument: The text has no letter and no number.
#[pyfunction]
#[pyo3(signature = (document, *, html=false, charset=None, extract="content"))]
pub(crate) fn sketch(
    document: &Bound<'_, PyAny>,
    html: bool,
    charset: Option<String>,
    extract: &str,
) -> PyResult<Sketch> {
    let keywords = Keywords { recipe: None, html, charset, extract };
    sketch_of(document, &"document", &Reading::of(document.py(), keywords)?)
}

/// Estimate how much two texts agree, from 0 to 1: about their edit ratio.
///
/// >>> import nearprint
/// >>> a = "The lamp on the second floor flickers when the lift starts, nobody knows why."
/// >>> b = "The lamp on the second floor flickers when the lift starts, nobody knows where."
/// >>> nearprint.similarity(a, b) > 0.8, nearprint.similarity(a, "black tea")
/// (True, 0.0)
///
/// Each may be a text, a page, or the :class:`Sketch` of one; the keywords are those of
/// :func:`fingerprint`.
#[pyfunction]
#[pyo3(signature = (a, b, *, html=false, charset=None, extract="content"))]
pub(crate) fn similarity(
    a: &Bound<'_, PyAny>,
    b: &Bound<'_, PyAny>,
    html: bool,
    charset: Option<String>,
    extract: &str,
) -> PyResult<f64> {
    let reading = Reading::of(a.py(), Keywords { recipe: None, html, charset, extract })?;
    let (a, b) = (sketch_of(a, &"a", &reading)?, sketch_of(b, &"b", &reading)?);
    Ok(a.0.resemblance(&b.0).similarity())
}

/// Count the bits in which two fingerprints differ, 0 to 64.
///
/// >>> import nearprint
/// >>> nearprint.distance(0b0010_1110, 0b0000_1111)
/// 2
/// >>> nearprint.distance("black tea", "black tee")
/// 11
///
/// Each may be a fingerprint or a document; the keywords are those of :func:`fingerprint`.
#[pyfunction]
#[pyo3(
    signature = (a, b, *, recipe=None, html=false, charset=None, extract="content"),
    text_signature = "(a, b, *, recipe='np2', html=False, charset=None, extract='content')"
)]
pub(crate) fn distance(
    a: &Bound<'_, PyAny>,
    b: &Bound<'_, PyAny>,
    recipe: Option<Bound<'_, PyAny>>,
    html: bool,
    charset: Option<String>,
    extract: &str,
) -> PyResult<u8> {
    let reading = Reading::of(a.py(), Keywords { recipe, html, charset, extract })?;
    let analysis = |given: &Bound<'_, PyAny>, argument: Named<'_>| {
        reading.analysis(given, argument, Accepts::FingerprintsToo, BARE)
    };
    let (a, b) = (analysis(a, &"a")?, analysis(b, &"b")?);
    Ok(a.fingerprint.distance(b.fingerprint).get())
}

/// Explain why a document has its fingerprint, or why two documents differ.
///
/// >>> import nearprint
/// >>> why = nearprint.explain("tea, tea, tea")
/// >>> why["heaviest"][0]
/// {'feature': 'ea t', 'weight': 2.0, 'hash': '3977b9e1959b0ebe'}
/// >>> [bit["bit"] for bit in why["near_zero"]][:3]
/// [0, 2, 3]
///
/// The result has the fields of the service's explanation: the heaviest features, the 64 sums (a
/// bit is 1 where its sum is above 0), the 8 bits that an edit flips first, and the number of
/// tokens. With ``other``, it has the explanations ``a`` and ``b``, and for each bit that differs
/// the features that decide it.
///
/// >>> why = nearprint.explain("black tea", "black tee")
/// >>> why["differing_bits"][0]["features"][0]
/// {'feature': ' tee', 'weight_a': 0.0, 'weight_b': 1.0}
#[pyfunction]
#[pyo3(
    signature = (document, other=None, *, recipe=None, html=false, charset=None, extract="content"),
    text_signature = "(document, other=None, *, recipe='np2', html=False, charset=None, extract='content')"
)]
pub(crate) fn explain<'py>(
    document: &Bound<'py, PyAny>,
    other: Option<&Bound<'py, PyAny>>,
    recipe: Option<Bound<'py, PyAny>>,
    html: bool,
    charset: Option<String>,
    extract: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let py = document.py();
    let reading = Reading::of(py, Keywords { recipe, html, charset, extract })?;
    let a = explained(document, &"document", &reading)?;
    let Some(other) = other else { return Explanation::of(&a).into_pyobject(py) };
    let b = explained(other, &"other", &reading)?;
    Comparison::of(&a, &b).into_pyobject(py)
}

/// Decode a page or a text as the service does; a charset that nobody knows counts as none.
#[pyfunction]
#[pyo3(name = "_decode", signature = (body, charset, *, html))]
pub(crate) fn decode(
    py: Python<'_>,
    body: PyBackedBytes,
    charset: Option<String>,
    html: bool,
) -> PyResult<String> {
    work::detached(py, body.len(), || decode_or_guess(&body, charset.as_deref(), html).into_owned())
}

/// Panic, for the test that a panic becomes an exception.
#[pyfunction]
#[pyo3(name = "_panic")]
pub(crate) fn panic(py: Python<'_>) -> PyResult<()> {
    work::detached(py, usize::MAX, || panic!("asked for by a test"))
}

fn sketch_of(given: &Bound<'_, PyAny>, argument: Named<'_>, reading: &Reading) -> PyResult<Sketch> {
    if let Ok(sketch) = given.cast::<Sketch>() {
        return Ok(sketch.get().clone());
    }
    let analysis = reading.analysis(given, argument, Accepts::Documents, Wanted::STORED)?;
    let no_sketch = || errors::wrong_type(argument, "a text, a page or a Sketch", given);
    analysis.sketch.map(Sketch).ok_or_else(no_sketch)
}

fn explained(
    given: &Bound<'_, PyAny>,
    argument: Named<'_>,
    reading: &Reading,
) -> PyResult<Explained> {
    let py = given.py();
    let document = OwnedDocument::of(given, argument, Accepts::Documents)?;
    let row = document.row();
    reading.check(py, row)?;
    let source = reading.source(row).expect("no fingerprint is accepted");
    let work = || Explained::of(&source, reading.method);
    let explained = work::detached(py, row.bytes(), work)?;
    explained.map_err(|none| errors::no_fingerprint(py, &none, argument))
}
