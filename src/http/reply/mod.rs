//! Replies: their JSON ([`wire`], [`explained`]) and the budget for their bytes ([`replies`]).

pub(crate) mod explained;
pub(crate) mod replies;
pub(crate) mod wire;
