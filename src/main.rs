//! The `nearprint` command: the command line, one call, the exit code.

/// It gives back to the system what is free.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    nearprint::allocator::give_back_when_idle();
    nearprint::cli::main()
}
