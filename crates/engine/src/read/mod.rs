//! The read path: looks up documents in a published view, verifies the matches, shows the hits; and
//! lists documents.

pub(crate) mod fair_queue;
pub(crate) mod found;
pub(crate) mod listing;
pub(crate) mod page;
pub(crate) mod previous;
pub(crate) mod reader;
pub(crate) mod runs;
pub(crate) mod scans;
pub(crate) mod scheduler;
