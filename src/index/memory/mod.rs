//! The memory of large arrays: huge pages that can be freed in parts.

pub(crate) mod array;
pub(crate) mod pages;
