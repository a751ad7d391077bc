//! Makes jemalloc return free memory to the system, also from a process that is idle.
//!
//! `.cargo/config.toml` configures how jemalloc is built; programs name it as their global
//! allocator.

/// Allocations from this size on are returned as soon as they are freed (`.cargo/config.toml`).
const LARGE_BYTES: usize = 2 << 20;

/// Starts the allocator's thread, which returns what has been free for a tenth of a second, also of
/// threads that no longer allocate.
pub fn give_back_when_idle() {
    // A large allocation before the thread starts; otherwise large memory is left to that thread,
    // too.
    drop(std::hint::black_box(Vec::<u8>::with_capacity(LARGE_BYTES)));
    // Without the thread, memory is returned later.
    let _started = tikv_jemalloc_ctl::background_thread::write(true);
}
