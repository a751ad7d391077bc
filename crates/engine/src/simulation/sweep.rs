//! Reclaims the space of records as the reclaimer does, without its thread.

use crate::background::needed::Needed;
use crate::background::reclaimer::keep_needed;
use crate::background::snapshot::snapshots::Snapshots;
use crate::storage::{StorageError, Sweep, SweepRange};
use crate::write::core::Core;

/// Sweeps what both snapshots cover; `each` receives the bytes that each pack has reclaimed.
pub(super) fn sweep(
    core: &Core,
    snapshots: &Snapshots,
    pack_bytes: u64,
    each: &mut dyn FnMut(u64),
) -> Result<(), StorageError> {
    let next = snapshots.covered_by_both().next().get();
    let mut range = SweepRange { from: 1, next, pack_bytes };
    let state = core.state();
    let needed = Needed::new(&state, core.machine().id_secret());
    while let Sweep::UpTo { next, freed } = core.reclaimer().sweep(
        range,
        &mut |record, keep| {
            keep_needed(&needed, record, keep);
        },
        &mut |_| true,
    )? {
        range.from = next;
        each(freed);
    }
    Ok(())
}
