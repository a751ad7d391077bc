//! Promise: after any crash the state is that of a prefix of the accepted changes that contains
//! every one that was promised, and verdicts are those of the model. Method: seeded lives of the
//! whole core (commands in groups, snapshots, merges, recovery) on a simulated disk, each ended by a
//! power cut or a kill at a random operation; every file damaged in every way; and mutants, each of
//! which the same harness must catch, or it proves nothing. `threads` runs the real threads over the
//! simulated disk. What was found: `docs/reliability.md`.

mod corruption;
mod crashes;
mod golden;
mod recovery;
mod repair;
mod rig;
mod snapshots;
mod threads;
