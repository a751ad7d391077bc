//! The memory of large arrays: huge pages that can be freed in parts.

pub mod array;
pub(crate) mod pages;
