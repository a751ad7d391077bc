//! Replies: their JSON ([`wire`], [`documents`], [`jobs`], [`explained`], [`agreement`], [`hex`]),
//! the budget of their bytes ([`crate::http::budget`]), those that are streamed ([`streamed`]), and
//! their metrics ([`counts`]).

pub(crate) mod agreement;
pub(crate) mod counts;
pub(crate) mod documents;
pub(crate) mod explained;
pub(crate) mod groups;
pub(crate) mod hex;
pub(crate) mod jobs;
pub(crate) mod previous;
pub(crate) mod streamed;
pub(crate) mod wire;
