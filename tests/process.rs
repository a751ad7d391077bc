//! The process test.
