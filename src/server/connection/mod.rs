//! One connection: its permit, what it is doing, its timeouts, and the bodies that it brings.

pub(crate) mod permits;
pub(crate) mod phase;
pub(crate) mod request_body;
pub(crate) mod timeouts;
