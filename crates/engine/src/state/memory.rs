//! The memory of the index by part.

use nearprint_index::view::View;

use crate::api::replies::MemoryStats;

/// Memory of the whole index by part.
pub(crate) fn memory_stats(view: &View) -> MemoryStats {
    let others = view.secondary_tables_bytes();
    let mut memory = MemoryStats {
        deltas: view.delta_bytes(),
        tables: others,
        namespaces: view.namespaces().bytes() as u64,
        ..MemoryStats::default()
    };
    let mut segments = 0;
    for bytes in view.segments().iter().map(|segment| segment.bytes()) {
        segments += bytes.total();
        memory.tables += bytes.tables;
        memory.documents += bytes.postings;
        memory.ids += bytes.ids;
        memory.labels += bytes.labels;
        memory.removals += bytes.removals;
    }
    // The result of a merge is in memory together with its inputs. Segments and secondary tables
    // are never merged at the same time; the newest segments may be, but they are small.
    memory.merging = segments.max(others);
    memory
}
