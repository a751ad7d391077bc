//! Replies: their JSON ([`wire`], [`explained`], [`hex`]), the budget of their bytes ([`replies`]),
//! and their metrics ([`counts`]).

pub(crate) mod counts;
pub(crate) mod explained;
pub(crate) mod hex;
pub(crate) mod replies;
pub(crate) mod wire;
