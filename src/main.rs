//! The `nearprint` command: the command line, one call, the exit code.

/// Returns free memory to the system; glibc keeps it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    nearprint::allocator::give_back_when_idle();
    nearprint::cli::main()
}
