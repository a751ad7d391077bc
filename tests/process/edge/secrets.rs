//! Tokens in a real process: required, read again on SIGHUP, and never shown.

use std::process::Command;

use nearprint::access::Token;
use ureq::Agent;

use super::server::{Server, command, write};
use crate::support::wait::until;

fn status(server: &Server, token: &str) -> u16 {
    let agent: Agent = Agent::config_builder().http_status_as_error(false).build().into();
    let request = agent.get(format!("http://{}/v1/stats", server.address));
    let reply = request.header("authorization", format!("Bearer {token}")).call().unwrap();
    reply.status().as_u16()
}

#[test]
fn an_address_that_others_reach_is_refused_without_tokens_and_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = command(directory.path(), &[("SERVER__LISTEN", "0.0.0.0:0")]);
    let output = command.stderr(std::process::Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("`server.listen` is 0.0.0.0:0"), "{said}");
    assert!(said.contains("next: make a token and its line with `nearprint token"), "{said}");
    assert!(!directory.path().join("data").exists(), "nothing was done");
}

#[test]
fn tokens_are_read_again_on_hangup_and_stay_when_they_cannot_be() {
    let (old, new) = (Token::generate().unwrap(), Token::generate().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tokens");
    write(&file, &format!("a read {}\n", old.digest()));
    let path = file.display().to_string();
    let server = Server::with_files(
        directory,
        &[("ACCESS__TOKENS_FILE", &path), ("SERVER__LISTEN", "0.0.0.0:0")],
    );
    assert_eq!((status(&server, old.reveal()), status(&server, new.reveal())), (200, 401));

    // Somebody pastes the token where its digest belongs.
    write(&file, &format!("a read {}\n", new.reveal()));
    server.signal("HUP");
    server.wait_for_log("the tokens stay as they were");
    assert_eq!((status(&server, old.reveal()), status(&server, new.reveal())), (200, 401));

    write(&file, &format!("a read {}\n", new.digest()));
    server.signal("HUP");
    until("the new token", || status(&server, new.reveal()) == 200);
    assert_eq!(status(&server, old.reveal()), 401);

    let log = server.log();
    assert!(log.contains("401"), "requests are logged: {log}");
    for token in [old, new] {
        assert!(!log.contains(token.reveal()), "{log}");
        assert!(!log.contains(&token.digest().to_string()), "{log}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "files of a test")]
fn a_pipe_in_place_of_a_file_holds_up_neither_a_start_nor_a_hangup() {
    let token = Token::generate().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (file, pipe) = (directory.path().join("tokens"), directory.path().join("pipe"));
    let line = format!("a read {}\n", token.digest());
    write(&file, &line);
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.display().to_string();
    let named: [&[(&str, &str)]; 4] = [
        &[("ACCESS__TOKENS_FILE", &pipe)],
        &[("SERVER__TLS_CERTIFICATE_FILE", &pipe), ("SERVER__TLS_KEY_FILE", &pipe)],
        &[("DATA__MODEL_FILE", &pipe), ("DATA__RECIPE", "spectral-8")],
        &[],
    ];
    for variables in named {
        let mut command = command(directory.path(), variables);
        if variables.is_empty() {
            command.args(["--config", &pipe]);
        }
        let output = command.stderr(std::process::Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{variables:?}: {said}");
        assert!(said.contains("it is a pipe, and only a regular file is read"), "{said}");
    }

    let path = file.display().to_string();
    let server = Server::with_files(directory, &[("ACCESS__TOKENS_FILE", &path)]);
    std::fs::rename(&pipe, &file).unwrap();
    server.signal("HUP");
    server.wait_for_log("it is a pipe");
    assert_eq!(status(&server, token.reveal()), 200, "the tokens stay as they were");
    std::fs::remove_file(&file).unwrap();
    let new = Token::generate().unwrap();
    write(&file, &format!("{line}b read {}\n", new.digest()));
    server.signal("HUP");
    until("the new token", || status(&server, new.reveal()) == 200);
}

#[test]
fn the_commands_send_the_token_and_say_so_where_it_is_missing() {
    let token = Token::generate().unwrap();
    let line = format!("a read {}", token.digest());
    let server = Server::with(&[("ACCESS__TOKENS", &line)]);
    let query = |token: Option<&str>| {
        let mut query = Command::new(env!("CARGO_BIN_EXE_nearprint"));
        query.args(["query", "--server", &server.address, "some words that are nowhere stored"]);
        query.env_remove("NEARPRINT_TOKEN");
        query.envs(token.map(|token| ("NEARPRINT_TOKEN", token)));
        query.output().unwrap()
    };
    let output = query(Some(token.reveal()));
    let not_found = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{not_found}");
    let refused = query(None);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("token_missing") && said.contains("NEARPRINT_TOKEN=TOKEN"), "{said}");
}
