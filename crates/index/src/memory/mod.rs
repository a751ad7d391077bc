//! Where large arrays lie: in huge pages that can be freed in parts, or in files.

pub mod array;
pub(crate) mod column;
pub mod file;
pub(crate) mod pages;
pub mod placed;
