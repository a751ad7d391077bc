//! The commands of the real binary, run as a person runs them: arguments and files in, text, files
//! and an exit code out. Those that are tried on a real service with many documents are in
//! `tests/process/commands.rs`.

mod book;
mod cli;
mod dedup;
mod export;
mod hostile;
mod import_resume;
#[path = "../support/manual.rs"]
mod manual;
mod offline;
mod older_versions;
#[expect(dead_code, reason = "other tests use more of it")]
#[path = "../support/server.rs"]
mod server;
mod service;
mod spectral;
#[path = "../support/wait.rs"]
mod wait;
