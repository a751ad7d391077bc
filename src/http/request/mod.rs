//! From the bytes of a request to a document with its options.
//!
//! [`types`] declares every request, with the fields of [`values`]. [`body`] reads the bytes within
//! the limits, [`json`] and [`parameters`] read them into those types, and [`report`] says what is
//! wrong. [`prepare`] makes a document of a request. [`reach`] knows the namespaces that a request
//! may reach. [`escapes`] takes the escapes out of long strings.

pub(crate) mod body;
pub(crate) mod escapes;
pub(crate) mod json;
pub(crate) mod parameters;
pub(crate) mod prepare;
pub(crate) mod reach;
pub(crate) mod report;
pub(crate) mod types;
pub(crate) mod values;
