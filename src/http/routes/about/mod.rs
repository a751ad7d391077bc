//! What a service tells of itself and of its caller, for consoles: one file a route.

pub(crate) mod history;
pub(crate) mod me;
pub(crate) mod nodes;
