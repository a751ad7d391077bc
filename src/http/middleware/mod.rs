//! What happens around every handler: checks of the head, tokens, request ids, the access log,
//! metrics.

pub(crate) mod access;
pub(crate) mod freshness;
pub(crate) mod guard;
pub(crate) mod head;
pub(crate) mod observe;
