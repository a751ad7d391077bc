//! How often stored documents were named as the originals of duplicates, and the lists of them.

pub(crate) mod query;
pub(crate) mod touches;
