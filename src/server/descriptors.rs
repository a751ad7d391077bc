//! File descriptors: a process that has none left cannot write its journal, so connections leave
//! some over.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Of many descriptors so many are kept for files, of few the half.
const FILES_KEPT: u64 = 1_024;

/// Raises the limit of this process as far as it may go. Returns `asked`, or how many connections
/// the limit has room for, if that is fewer.
pub(super) fn connections_max(asked: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: maximum, maximum };
    let limit = if setrlimit(Resource::Nofile, raised).is_ok() { maximum } else { current };
    // No limit at all is `None`.
    limit.map_or(asked, |limit| usize::try_from(room(limit)).map_or(asked, |room| asked.min(room)))
}

/// How many of `limit` descriptors connections may have.
fn room(limit: u64) -> u64 {
    (limit - FILES_KEPT.min(limit / 2)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_files() {
        assert_eq!((room(256), room(1_024), room(20_000)), (128, 512, 18_976));
        assert_eq!(room(1), 1);
    }
}
