//! File descriptors: a process without any left cannot write its journal, so connections may not
//! take them all.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors reserved for files; half of all if there are fewer than twice as many.
const FILES_RESERVED: u64 = 1_024;

/// Raises the limit of this process as far as possible. Returns `wanted`, or the number of
/// connections that the limit has room for, if that is less.
pub(super) fn connections_max(wanted: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: maximum, maximum };
    let limit = if setrlimit(Resource::Nofile, raised).is_ok() { maximum } else { current };
    // `None` means no limit at all.
    limit.map_or(wanted, |limit| {
        usize::try_from(room(limit)).map_or(wanted, |room| wanted.min(room))
    })
}

/// How many of `limit` descriptors connections may take.
fn room(limit: u64) -> u64 {
    (limit - FILES_RESERVED.min(limit / 2)).max(1)
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
