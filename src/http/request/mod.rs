//! From the bytes of a request to a document with its options.
//!
//! [`body`] reads the bytes within the limits, and [`coding`] decompresses them; [`json`] and
//! [`parameters`] read them into the fields of [`nearprint_wire::offer`]: [`types`] says which of
//! them each request for documents takes, and [`selection`] those for what is stored; [`schema`]
//! describes them. [`prepare`] makes a document of an offer, and [`lifetime`] decides when it
//! expires. [`reach`] knows the namespaces that a request may reach.

pub(crate) mod body;
pub(crate) mod coding;
pub(crate) mod json;
pub(crate) mod lifetime;
pub(crate) mod parameters;
pub(crate) mod prepare;
pub(crate) mod reach;
pub(crate) mod schema;
pub(crate) mod selection;
pub(crate) mod types;
