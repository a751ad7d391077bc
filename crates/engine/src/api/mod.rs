//! What callers of the engine pass in and get back: its settings, the options and replies of each
//! operation, its errors, and what it reports of its work.

pub(crate) mod error;
pub(crate) mod observer;
pub(crate) mod options;
pub(crate) mod replies;
