//! The exceptions of `nearprint.errors`, raised from Rust.

use std::any::Any;
use std::fmt::Display;

use nearprint_text::charset::UnknownCharset;
use nearprint_text::{BadFeatures, BadVector, NoFingerprint};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// The name of an argument, made when it is needed: `documents[7]`.
pub(crate) type Named<'a> = &'a dyn Display;

/// An exception of this class in `nearprint.errors`.
pub(crate) fn error(py: Python<'_>, class: &str, argument: Named<'_>, detail: &str) -> PyErr {
    let make = || -> PyResult<Bound<'_, PyAny>> {
        let facts = PyDict::new(py);
        facts.set_item("field", argument.to_string())?;
        let detail = format!("{argument}: {detail}");
        py.import("nearprint.errors")?.getattr(class)?.call((detail,), Some(&facts))
    };
    make().map_or_else(|failed| failed, PyErr::from_value)
}

/// Whether a document has nothing that its recipe counts, and is not wrong otherwise.
pub(crate) const fn is_empty(none: &NoFingerprint) -> bool {
    matches!(
        none,
        NoFingerprint::Empty(_)
            | NoFingerprint::Features(BadFeatures::Empty | BadFeatures::AllZero)
            | NoFingerprint::Vector(BadVector::AllZero)
    )
}

/// The exception of a document without a fingerprint.
pub(crate) fn no_fingerprint(py: Python<'_>, none: &NoFingerprint, argument: Named<'_>) -> PyErr {
    let class = match none {
        NoFingerprint::Features(BadFeatures::NotFinite { .. })
        | NoFingerprint::Vector(BadVector::NotFinite { .. }) => "InvalidValue",
        NoFingerprint::Vector(BadVector::Dimensions { .. }) => "DimensionMismatch",
        NoFingerprint::NoModel { .. } => {
            let detail = format!("{none}; give recipe=nearprint.SpectralModel(...)");
            return invalid(py, &"recipe", &detail);
        }
        NoFingerprint::Empty(_) | NoFingerprint::Features(_) | NoFingerprint::Vector(_) => {
            "EmptyDocument"
        }
        NoFingerprint::OnlyFeatures
        | NoFingerprint::NoVectors { .. }
        | NoFingerprint::OnlyVectors { .. } => "RecipeMismatch",
    };
    error(py, class, argument, &none.to_string())
}

/// Whether an exception is about a value, unlike that of Ctrl-C, which ends the work.
pub(crate) fn is_of_a_value(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyTypeError>(py) || error.is_instance_of::<PyValueError>(py)
}

/// The exception of a charset that nobody knows.
pub(crate) fn unknown_charset(py: Python<'_>, unknown: &UnknownCharset) -> PyErr {
    let detail = format!("{unknown}; it takes the labels of the WHATWG standard, such as latin1");
    error(py, "UnsupportedCharset", &"charset", &detail)
}

/// The exception of a value that its argument does not take.
pub(crate) fn invalid(py: Python<'_>, argument: Named<'_>, detail: &str) -> PyErr {
    error(py, "InvalidValue", argument, detail)
}

/// The exception of an argument of another type.
pub(crate) fn wrong_type(argument: Named<'_>, takes: &str, got: &Bound<'_, PyAny>) -> PyErr {
    let name = got.get_type().name();
    let name = name.as_ref().map_or("object".into(), |name| name.to_string_lossy());
    PyTypeError::new_err(format!("{argument} takes {takes}, not {name}"))
}

/// The exception for a text with half a surrogate pair.
pub(crate) fn lone_surrogate(text: &Bound<'_, PyString>, argument: Named<'_>) -> PyErr {
    let text: &Bound<'_, PyAny> = text.as_any();
    let is_surrogate = |code: u32| (0xd800..0xe000).contains(&code);
    let codes = text.try_iter().and_then(|mut characters| {
        characters
            .position(|character| {
                let code = character.and_then(|character| {
                    text.py().import("builtins")?.call_method1("ord", (character,))?.extract()
                });
                code.is_ok_and(is_surrogate)
            })
            .map_or_else(|| Err(PyValueError::new_err("it is not Unicode")), Ok)
    });
    let at = codes.map_or(String::new(), |at| format!(" at index {at}"));
    PyValueError::new_err(format!(
        "{argument}: a lone surrogate{at}, which is not a character; \
         text.encode('utf-8', 'replace') has '?' in its place"
    ))
}

/// The exception of a panic: a bug of nearprint.
pub(crate) fn panicked(py: Python<'_>, panic: &(dyn Any + Send)) -> PyErr {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let detail = format!(
        "a bug of nearprint, please report it; nothing was returned ({})",
        message.unwrap_or("no message")
    );
    error(py, "Internal", &"nearprint", &detail)
}
