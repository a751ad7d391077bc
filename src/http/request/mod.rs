//! From the bytes of a request to a document with its options.
//!
//! [`body`] reads the bytes within the limits, and [`coding`] decompresses them; [`json`] and
//! [`parameters`] read them into the fields of [`nearprint_wire::offer`]: [`types`] says which of
//! them each request for documents takes, and [`selection`] those for what is stored; [`schema`]
//! describes them. [`prepare`] makes an offer of a document of them. [`caller`] knows who sends a
//! request.

pub(crate) mod body;
pub(crate) mod caller;
pub(crate) mod coding;
pub(crate) mod json;
pub(crate) mod parameters;
pub(crate) mod prepare;
pub(crate) mod schema;
pub(crate) mod selection;
pub(crate) mod types;
