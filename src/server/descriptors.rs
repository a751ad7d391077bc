//! File descriptors: a process without any left cannot write its journal, so connections may not
//! take them all.

use crate::process;

/// Descriptors reserved for files that are yet to be opened; half of those that are left if there
/// are fewer than twice as many.
const FILES_RESERVED: u64 = 1_024;

/// `wanted`, or the number of connections that the limit of open files has room for, if that is
/// less.
pub(super) fn connections_max(wanted: usize) -> usize {
    let (open, limit) = process::open_files();
    limit.map_or(wanted, |limit| {
        let room = room(limit.saturating_sub(open.unwrap_or(limit)));
        usize::try_from(room).map_or(wanted, |room| wanted.min(room))
    })
}

/// How many of the descriptors that are left connections may take.
fn room(left: u64) -> u64 {
    (left - FILES_RESERVED.min(left / 2)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_files() {
        assert_eq!((room(256), room(1_024), room(20_000)), (128, 512, 18_976));
        assert_eq!((room(0), room(1)), (1, 1));
    }
}
