//! A follower: a second copy of a primary, which answers look-ups.
//!
//! ```text
//!   primary   Changes       its journal after a sequence, as messages; waits at the end
//!   follower  Engine::follow  verifies their order, enacts them as recovery does, journals them
//! ```
//!
//! The copy begins with an export of the primary ([`follower::seed`]), so both have the same
//! identity and the same secrets. From there on the follower asks for what it lacks, by sequence:
//! its own journal is its position. It cannot ask for records that the primary has packed, because
//! packs leave removals out; then it begins again with an export.
//!
//! A primary whose history is another one is noticed: it must have the record that the follower has
//! last, and once a second it names the number of its documents.

mod changes;
mod reader;

pub use changes::{Changes, ChangesEnd, FollowerPosition};
pub use reader::FollowEnd;

pub use crate::directories::follower;
