//! What other programs read from the service, checked by the validators of those programs.
//!
//! `tools/test` fetches the validators and names them in variables; without the variables a test
//! skips itself and says so. The checks that need no other program are unit tests of
//! `src/metrics.rs` and `src/http/description/mod.rs`.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::support::{Server, text};

/// The program that a variable names, with its arguments.
#[expect(clippy::print_stdout, reason = "why a test did nothing")]
fn validator(variable: &str, arguments: &[&str]) -> Option<Command> {
    let Some(program) = std::env::var_os(variable) else {
        println!("skipped: {variable} is not set; next: run the tests with tools/test");
        return None;
    };
    let mut command = Command::new(program);
    command.args(arguments);
    Some(command)
}

fn assert_accepts(mut validator: Command, input: &str) {
    let mut child = validator
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn promtool_accepts_the_metrics() {
    let Some(promtool) = validator("NEARPRINT_TEST_PROMTOOL", &["check", "metrics"]) else {
        return;
    };
    let server = Server::start();
    server.post("/v1/check-and-insert", &json!({"id": "a", "text": text(1, 30)})).json();
    assert_accepts(promtool, &server.get("/metrics").text());
}

#[test]
fn the_openapi_validator_accepts_the_description_with_tokens_and_without() {
    let variable = "NEARPRINT_TEST_OPENAPI_VALIDATOR";
    let Some(open) = validator(variable, &["-"]) else { return };
    let server = Server::start();
    assert_accepts(open, &server.get("/openapi.json").text());
    let with_tokens = nearprint::http::openapi().to_json().unwrap();
    assert_accepts(validator(variable, &["-"]).unwrap(), &with_tokens);
}
