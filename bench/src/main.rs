//! The `nearprint-bench` command.

use std::process::ExitCode;

/// The allocator of the product, or its memory would not compare.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    nearprint::allocator::give_back_when_idle();
    nearprint_bench::main()
}
