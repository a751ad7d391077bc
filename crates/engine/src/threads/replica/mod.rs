//! The threads of a node or a follower: its writer, which drives the core of the node, and the
//! thread that reads the replicated log or the changes of the primary for it.

pub(crate) mod appends;
pub(crate) mod beginning;
pub(crate) mod candidacy;
pub(crate) mod gathering;
pub(crate) mod log_thread;
pub(crate) mod node;
pub(crate) mod settings;
pub(crate) mod stored;
pub(crate) mod touched;
pub(crate) mod writer;
