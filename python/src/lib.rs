//! The native half of the Python package `nearprint`: fingerprints, sketches, and an index in
//! memory. The other half, in Python, is in `python/nearprint`.
//!
//! Work that takes longer than a microsecond or two is done detached from the interpreter, so that
//! other threads of Python run ([`work`]). Threads live as long as the call that needs them: Spark
//! and datatrove fork, and a child has none of its parent's threads.

mod arrow;
mod columns;
mod documents;
mod errors;
mod explanations;
mod fingerprints;
mod fork;
mod functions;
mod index;
mod values;
mod work;

use pyo3::pymodule;

/// Fingerprints, sketches and an index in memory; import them from ``nearprint``.
#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::fingerprints::FingerprintArray;
    #[pymodule_export]
    use crate::functions::{
        decode, distance, explain, fingerprint, fingerprint_many, panic, similarity, sketch,
    };
    #[pymodule_export]
    use crate::index::dedup::dedup;
    #[pymodule_export]
    use crate::index::{Checked, Hit, Index};
    #[pymodule_export]
    use crate::values::{Sketch, SpectralModel};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::fork::register(module)
    }
}
