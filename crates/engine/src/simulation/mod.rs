//! Promise: after any crash the state is that of a prefix of the accepted changes, which contains
//! every change that was promised, and verdicts are the model's. Method: seeded lives of the whole
//! core (commands in groups, snapshots, merges, recovery) on a simulated disk, each ended by a
//! power cut or a kill at a random operation; every file damaged in every way; and mutants, which
//! the same tests must catch. `threads` runs the real threads over the simulated disk.
//! `docs/reliability.md` has the results.

mod cluster;
mod corruption;
mod crashes;
mod draw;
mod golden;
mod recovery;
mod reindex;
mod removals;
mod repair;
mod rig;
mod snapshots;
mod sweep;
mod threads;

pub(crate) use rig::variable;
