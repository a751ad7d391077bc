//! The threads of a node: its writer, which drives the core of the node, and the thread that reads
//! the replicated log for it.

pub(crate) mod log_thread;
pub(crate) mod node;
pub(crate) mod touched;
pub(crate) mod writer;
