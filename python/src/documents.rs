//! Documents as Python has them, and how they are read.

use std::borrow::Cow;

use nearprint_fingerprint::Fingerprint;
use nearprint_text::charset::{self, UnknownCharset};
use nearprint_text::{Analysis, Extract, Method, NoFingerprint, Recipe, Source, Wanted, analyse};
use numpy::{PyArrayMethods as _, PyReadonlyArray1, PyUntypedArray, PyUntypedArrayMethods as _};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple,
};

use crate::arrow::{ColumnOf, ColumnValue};
use crate::errors::{self, Named};
use crate::values::SpectralModel;
use crate::work;

/// A document, owned; the buffers of `str` and `bytes` stay those of Python.
pub(crate) enum OwnedDocument {
    Text(PyBackedStr),
    Bytes(PyBackedBytes),
    Features(Vec<(String, f64)>),
    Vector(Vec<f32>),
    Fingerprint(u64),
}

/// A document of a batch, borrowed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BatchDocument<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
    Features(&'a [(String, f64)]),
    Vector(&'a [f32]),
    Fingerprint(u64),
}

/// What becomes of a row of a batch that is no document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowErrors {
    /// The batch fails.
    Raise,
    /// It is null.
    Null,
    /// A text with U+FFFD where it has half of a surrogate pair is a document; all else is null.
    Replace,
}

/// Whether a fingerprint may stand for its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accepts {
    Documents,
    FingerprintsToo,
}

impl Accepts {
    /// What a column is read as.
    pub(crate) const fn column(self) -> ColumnOf {
        match self {
            Self::Documents => ColumnOf::Documents,
            Self::FingerprintsToo => ColumnOf::DocumentsOrFingerprints,
        }
    }

    /// What is accepted, in words.
    const fn words(self) -> &'static str {
        match self {
            Self::Documents => {
                "a str, bytes, a dict of weighted features, or a vector (a list of numbers, a numpy \
                 array)"
            }
            Self::FingerprintsToo => {
                "a str, bytes, a dict of weighted features, a vector (a list of numbers, a numpy \
                 array), or a fingerprint (an int)"
            }
        }
    }
}

impl OwnedDocument {
    /// Reads an argument. An array of no dimension is what it holds.
    pub(crate) fn of(
        given: &Bound<'_, PyAny>,
        argument: Named<'_>,
        accepts: Accepts,
    ) -> PyResult<Self> {
        if is_of_no_dimension(given) {
            return Self::of_value(&given.call_method0("item")?, argument, accepts);
        }
        Self::of_value(given, argument, accepts)
    }

    /// Reads a row of a batch; `None` for one that is no document, if that is not an error.
    pub(crate) fn of_row(
        given: &Bound<'_, PyAny>,
        argument: Named<'_>,
        (accepts, errors): (Accepts, RowErrors),
    ) -> PyResult<Option<Self>> {
        let py = given.py();
        match Self::of(given, argument, accepts) {
            Ok(document) => Ok(Some(document)),
            Err(error) if errors == RowErrors::Raise || !errors::is_of_a_value(py, &error) => {
                Err(error)
            }
            Err(_) if errors == RowErrors::Replace && given.is_instance_of::<PyString>() => {
                // Both halves of a pair become a character, as when JSON is read.
                let halves = given.call_method1("encode", ("utf-16", "surrogatepass"))?;
                let text = halves.call_method1("decode", ("utf-16", "replace"))?;
                Self::of(&text, argument, accepts).map(Some)
            }
            Err(_) => Ok(None),
        }
    }

    fn of_value(given: &Bound<'_, PyAny>, argument: Named<'_>, accepts: Accepts) -> PyResult<Self> {
        if let Ok(text) = given.cast::<PyString>() {
            return text_of(text, argument).map(Self::Text);
        }
        if given.is_instance_of::<PyBytes>() || given.is_instance_of::<PyByteArray>() {
            return Ok(Self::Bytes(given.extract()?));
        }
        if let Ok(features) = given.cast::<PyMapping>() {
            return features_of(features, argument).map(Self::Features);
        }
        if let Some(bits) = bits_of(given, argument)?
            && accepts == Accepts::FingerprintsToo
        {
            return Ok(Self::Fingerprint(bits));
        }
        if given.is_instance_of::<PyList>()
            || given.is_instance_of::<PyTuple>()
            || given.hasattr("__array__")?
        {
            return vector_of(given, argument).map(Self::Vector);
        }
        Err(errors::wrong_type(argument, accepts.words(), given))
    }

    pub(crate) fn row(&self) -> BatchDocument<'_> {
        match self {
            Self::Text(text) => BatchDocument::Text(text),
            Self::Bytes(bytes) => BatchDocument::Bytes(bytes),
            Self::Features(features) => BatchDocument::Features(features),
            Self::Vector(vector) => BatchDocument::Vector(vector),
            Self::Fingerprint(bits) => BatchDocument::Fingerprint(*bits),
        }
    }
}

impl RowErrors {
    /// Reads the argument `errors`.
    pub(crate) fn of(py: Python<'_>, name: &str) -> PyResult<Self> {
        match name {
            "raise" => Ok(Self::Raise),
            "null" => Ok(Self::Null),
            "replace" => Ok(Self::Replace),
            other => {
                let detail = format!("it is raise, null or replace, not {other:?}");
                Err(errors::invalid(py, &"errors", &detail))
            }
        }
    }
}

impl<'a> From<ColumnValue<'a>> for BatchDocument<'a> {
    fn from(value: ColumnValue<'a>) -> Self {
        match value {
            ColumnValue::Text(text) => Self::Text(text),
            ColumnValue::Bytes(bytes) => Self::Bytes(bytes),
            ColumnValue::Vector(numbers) => Self::Vector(numbers),
            ColumnValue::Integer(number) => {
                let bits = unsigned(number).expect("columns of 64-bit integers are accepted");
                Self::Fingerprint(bits)
            }
        }
    }
}

impl BatchDocument<'_> {
    /// About how many bytes of text take as long to analyse.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Features(features) => 16 * features.len(),
            Self::Vector(vector) => 16 * vector.len(),
            Self::Fingerprint(_) => 8,
        }
    }
}

/// The UTF-8 of a `str`.
pub(crate) fn text_of(text: &Bound<'_, PyString>, argument: Named<'_>) -> PyResult<PyBackedStr> {
    PyBackedStr::try_from(text.clone()).map_err(|_| errors::lone_surrogate(text, argument))
}

fn features_of(
    features: &Bound<'_, PyMapping>,
    argument: Named<'_>,
) -> PyResult<Vec<(String, f64)>> {
    let takes = "features as {token: weight}, of str and numbers";
    let refused = |item: &Bound<'_, PyAny>| errors::wrong_type(argument, takes, item);
    let mut pairs = Vec::with_capacity(features.len()?);
    for item in features.items()?.iter() {
        let (token, weight) = item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        let token = token.cast::<PyString>().map_err(|_| refused(&token))?;
        let token = text_of(token, argument)?.to_string();
        pairs.push((token, weight.extract().map_err(|_| refused(&weight))?));
    }
    Ok(pairs)
}

fn vector_of(vector: &Bound<'_, PyAny>, argument: Named<'_>) -> PyResult<Vec<f32>> {
    let py = vector.py();
    let numpy = py.import("numpy")?;
    let takes = "a vector of numbers";
    let refused = || errors::wrong_type(argument, takes, vector);
    if !vector.is_instance_of::<PyList>() {
        refuse_masked(vector, argument)?;
    }
    let array = numpy.call_method1("asarray", (vector,)).map_err(|_| refused())?;
    let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    let dimensions: usize = array.getattr("ndim")?.extract()?;
    if !matches!(kind.as_str(), "f" | "i" | "u") || dimensions != 1 {
        return Err(refused());
    }
    let single = numpy.call_method1("ascontiguousarray", (array, "float32"));
    let single: PyReadonlyArray1<'_, f32> = single?.extract()?;
    Ok(single.to_vec()?)
}

/// Refuses an array of numpy with masked numbers: as vectors, it would have what is under the mask.
pub(crate) fn refuse_masked(array: &Bound<'_, PyAny>, argument: Named<'_>) -> PyResult<()> {
    let masked = array.py().import("numpy")?.getattr("ma")?;
    if masked.call_method1("is_masked", (array,))?.is_truthy()? {
        let detail = "numbers of this array are masked, and a vector needs all of its numbers; in \
                      many documents, None stands for one that is missing";
        return Err(errors::invalid(array.py(), argument, detail));
    }
    Ok(())
}

/// How documents are read, from the keywords of a function.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) method: Method,
    html: bool,
    charset: Option<String>,
}

/// The keywords of a function that reads documents.
#[derive(Debug)]
pub(crate) struct Keywords<'a, 'py> {
    /// `None` is the default, `np2`.
    pub(crate) recipe: Option<Bound<'py, PyAny>>,
    pub(crate) html: bool,
    pub(crate) charset: Option<String>,
    pub(crate) extract: &'a str,
}

impl Reading {
    /// Checks the keywords.
    pub(crate) fn of(py: Python<'_>, keywords: Keywords<'_, '_>) -> PyResult<Self> {
        let Keywords { recipe, html, charset, extract } = keywords;
        let (recipe, model) =
            recipe.map_or(Ok((Recipe::default(), None)), |given| recipe_of(&given))?;
        let extract = Extract::named(extract).ok_or_else(|| {
            let names = Extract::ALL.map(Extract::name).join(", ");
            errors::invalid(py, &"extract", &format!("it is one of {names}, not {extract:?}"))
        })?;
        check_charset(py, charset.as_deref())?;
        Ok(Self { method: Method { recipe, extract, model }, html, charset })
    }

    /// Reads texts as they are, by a method.
    pub(crate) const fn by(method: Method) -> Self {
        Self { method, html: false, charset: None }
    }

    /// The same with other keywords for pages.
    pub(crate) fn with(
        &self,
        py: Python<'_>,
        html: bool,
        charset: Option<String>,
    ) -> PyResult<Self> {
        check_charset(py, charset.as_deref())?;
        Ok(Self { method: self.method, html, charset })
    }

    /// Refuses a charset of what is decoded already.
    pub(crate) fn check(&self, py: Python<'_>, row: BatchDocument<'_>) -> PyResult<()> {
        if self.charset.is_some()
            && !matches!(row, BatchDocument::Bytes(_) | BatchDocument::Fingerprint(_))
        {
            return Err(errors::invalid(py, &"charset", "only bytes have one; leave it out"));
        }
        Ok(())
    }

    /// The document in the form that recipes take; `None` for a fingerprint.
    pub(crate) fn source<'a>(&self, row: BatchDocument<'a>) -> Option<Source<'a>> {
        let of_text = |text| if self.html { Source::Html(text) } else { Source::Text(text) };
        Some(match row {
            BatchDocument::Text(text) => of_text(Cow::Borrowed(text)),
            BatchDocument::Bytes(bytes) => {
                of_text(self.decoded(bytes).expect("the charset was checked"))
            }
            BatchDocument::Features(features) => Source::features(features),
            BatchDocument::Vector(vector) => Source::Vector(Cow::Borrowed(vector)),
            BatchDocument::Fingerprint(_) => return None,
        })
    }

    fn decoded<'a>(&self, bytes: &'a [u8]) -> Result<Cow<'a, str>, UnknownCharset> {
        charset::decode(bytes, self.charset.as_deref(), self.html)
    }

    /// Analyses a document.
    pub(crate) fn analyse(
        &self,
        row: BatchDocument<'_>,
        wanted: Wanted,
    ) -> Result<Analysis, NoFingerprint> {
        if let BatchDocument::Fingerprint(bits) = row {
            return Ok(Analysis::bare(Fingerprint::new(bits)));
        }
        analyse(&self.source(row).expect("it is not a fingerprint"), self.method, wanted)
    }

    /// Analyses an argument.
    pub(crate) fn analysis(
        &self,
        given: &Bound<'_, PyAny>,
        argument: Named<'_>,
        accepts: Accepts,
        wanted: Wanted,
    ) -> PyResult<Analysis> {
        let document = OwnedDocument::of(given, argument, accepts)?;
        self.analysis_of(given.py(), &document, argument, wanted)
    }

    /// Analyses an argument that was read.
    pub(crate) fn analysis_of(
        &self,
        py: Python<'_>,
        document: &OwnedDocument,
        argument: Named<'_>,
        wanted: Wanted,
    ) -> PyResult<Analysis> {
        let row = document.row();
        self.check(py, row)?;
        work::detached(py, row.bytes(), || self.analyse(row, wanted))?
            .map_err(|none| errors::no_fingerprint(py, &none, argument))
    }
}

fn check_charset(py: Python<'_>, label: Option<&str>) -> PyResult<()> {
    let Some(label) = label else { return Ok(()) };
    let known = charset::decode(&[], Some(label), false);
    known.map(drop).map_err(|unknown| errors::unknown_charset(py, &unknown))
}

/// A recipe by its id, or by its model.
fn recipe_of(
    given: &Bound<'_, PyAny>,
) -> PyResult<(Recipe, Option<&'static nearprint_text::SpectralModel>)> {
    if let Ok(model) = given.cast::<SpectralModel>() {
        let model = model.get().model;
        return Ok((Recipe::Spectral { dimensions: model.dimensions() }, Some(model)));
    }
    let id = given.cast::<PyString>().map_err(|_| {
        errors::wrong_type(&"recipe", "the id of a recipe or a SpectralModel", given)
    })?;
    let id = text_of(id, &"recipe")?;
    let unknown = |all| {
        errors::invalid(
            given.py(),
            &"recipe",
            &format!("no recipe is called {:?}; there are {all}", &*id),
        )
    };
    Ok((id.parse().map_err(|all: nearprint_text::UnknownRecipe| unknown(all.to_string()))?, None))
}

/// Whether it is an array of numpy that holds one value.
pub(crate) fn is_of_no_dimension(given: &Bound<'_, PyAny>) -> bool {
    // The cast loads numpy, which texts alone do not need.
    let may_be_one =
        !given.is_instance_of::<PyString>() && given.hasattr("__array__").unwrap_or(false);
    may_be_one && given.cast::<PyUntypedArray>().is_ok_and(|array| array.ndim() == 0)
}

/// The 64 bits of a fingerprint, which may have been read as a signed integer.
fn unsigned(number: i128) -> Option<u64> {
    u64::try_from(number).ok().or_else(|| i64::try_from(number).ok().map(i64::cast_unsigned))
}

/// A fingerprint: a number of 64 bits. `None` if it is not an integer.
pub(crate) fn bits_of(given: &Bound<'_, PyAny>, argument: Named<'_>) -> PyResult<Option<u64>> {
    let is_number = given.is_instance_of::<PyInt>() || given.hasattr("__index__")?;
    if !is_number || given.is_instance_of::<PyBool>() || given.is_instance_of::<PyFloat>() {
        return Ok(None);
    }
    // An array of one integer is an index, too.
    if given.hasattr("ndim")? && given.getattr("ndim")?.extract::<usize>()? > 0 {
        return Ok(None);
    }
    let refused = || {
        let detail = "a fingerprint is an integer from 0 to 2**64 - 1, or the same 64 bits as a \
                      signed one, from -2**63";
        errors::invalid(given.py(), argument, detail)
    };
    let bits = given.extract().ok().or_else(|| unsigned(given.extract::<i64>().ok()?.into()));
    bits.map(Some).ok_or_else(refused)
}
