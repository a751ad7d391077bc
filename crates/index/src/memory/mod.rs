//! The memory of large arrays: huge pages that can be freed in parts.

pub mod array;
pub(crate) mod column;
pub(crate) mod pages;
