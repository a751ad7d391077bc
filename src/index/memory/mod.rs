//! The memory of large arrays: huge pages that are given back part by part.

pub mod array;
pub mod pages;
