//! How much memory this process may take.

use procfs::{Current as _, Meminfo};

/// The limit of the container, if there is one.
const CONTAINER: &str = "/sys/fs/cgroup/memory.max";

/// The bytes that programs may still take on this machine, or in this container if that is less;
/// `None` if the kernel does not say.
pub(crate) fn available() -> Option<u64> {
    let machine = Meminfo::current().ok()?.mem_available?;
    let container = std::fs::read_to_string(CONTAINER).ok();
    let container = container.and_then(|limit| limit.trim().parse().ok());
    Some(machine.min(container.unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_memory_is_available() {
        assert!(available().unwrap() > 1 << 20);
    }
}
