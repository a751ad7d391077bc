//! Data directories: recovery, repair and reindexing; those of followers and of nodes; and commands
//! that work without a service.

pub mod follower;
pub(crate) mod member;
pub(crate) mod model;
pub mod node;
pub mod offline;
pub(crate) mod recovery;
pub(crate) mod reindex;
pub(crate) mod repair;
pub mod seeding;
