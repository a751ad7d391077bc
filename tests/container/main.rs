//! The files that build and run the service in containers.

#![expect(clippy::disallowed_methods, reason = "a test lays out its own files and variables")]

mod build;
mod files;
