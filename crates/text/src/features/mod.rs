//! From characters to features: normal form, runs of words and CJK characters, windows.

pub(crate) mod letters;
pub(crate) mod normalise;
pub(crate) mod runs;
pub(crate) mod stream;
pub(crate) mod walk;
