//! From the bytes of a request to a document with its options.
//!
//! [`types`] declares every request for documents, with the fields of [`values`] and
//! [`document_fields`]; [`selection`] those for what is stored. [`body`] reads the bytes within the
//! limits, [`json`] and [`parameters`] read them into those types, and [`report`] says what is wrong.
//! [`prepare`] makes a document of a request, and [`lifetime`] decides when it expires. [`reach`]
//! knows the namespaces that a request may reach. [`escapes`] takes the escapes out of long strings.

pub(crate) mod body;
pub(crate) mod document_fields;
pub(crate) mod escapes;
pub(crate) mod json;
pub(crate) mod lifetime;
pub(crate) mod parameters;
pub(crate) mod prepare;
pub(crate) mod reach;
pub(crate) mod report;
pub(crate) mod selection;
pub(crate) mod types;
pub(crate) mod values;
