//! The `nearprint` command: the command line, one call, the exit code.

fn main() -> std::process::ExitCode {
    nearprint::cli::main()
}
