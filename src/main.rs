//! The `nearprint` command: the command line, one call, the exit code.

/// It gives back to the system what is free.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// As in `.cargo/config.toml`: from here on, memory goes back to the system when it is freed.
const LARGE_BYTES: usize = 2 << 20;

fn main() -> std::process::ExitCode {
    give_back_when_idle();
    nearprint::cli::main()
}

/// Has a thread of the allocator give back what has been free for a tenth of a second, also of threads that
/// allocate nothing any more. What is large would be left to it as well, if nothing large had been
/// made before it began.
fn give_back_when_idle() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(LARGE_BYTES)));
    // Without it memory is given back later.
    let _begun = tikv_jemalloc_ctl::background_thread::write(true);
}
