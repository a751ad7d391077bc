//! What the allocator is told when a process begins, so that memory which is free goes back to the
//! system.
//!
//! `.cargo/config.toml` says how jemalloc is built; programs name it as their global allocator.

/// As in `.cargo/config.toml`: from here on, memory goes back to the system when it is freed.
const LARGE_BYTES: usize = 2 << 20;

/// Starts the thread of the allocator that gives back what has been free for a tenth of a second, also
/// from threads that allocate nothing any more.
pub fn give_back_when_idle() {
    // What is large is left to that thread as well, unless something large was made before it began.
    drop(std::hint::black_box(Vec::<u8>::with_capacity(LARGE_BYTES)));
    // Without it memory is given back later.
    let _begun = tikv_jemalloc_ctl::background_thread::write(true);
}
