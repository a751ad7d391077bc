//! TLS in a real process, with certificates made here.

use std::io::Read as _;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::server::{Server, write};
use crate::support::wait::{now, until};

/// A certificate of its own for `localhost`, in two files; its PEM.
fn certificate(directory: &Path) -> String {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    write(&directory.join("certificate.pem"), &made.cert.pem());
    write(&directory.join("key.pem"), &made.signing_key.serialize_pem());
    made.cert.pem()
}

fn start(more: &[(&str, &str)]) -> (Server, String) {
    let directory = tempfile::tempdir().unwrap();
    let pem = certificate(directory.path());
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (certificate, key) = (path("certificate.pem"), path("key.pem"));
    let files = [
        ("SERVER__TLS_CERTIFICATE_FILE", certificate.as_str()),
        ("SERVER__TLS_KEY_FILE", key.as_str()),
    ];
    let server = Server::with_files(directory, &[&files, more].concat());
    (server, pem)
}

/// Asks for the health of the server by its name, trusting this certificate alone.
fn is_trusted(server: &Server, pem: &str) -> bool {
    let file = server.directory().join("trusted.pem");
    write(&file, pem);
    let port = server.address.rsplit(':').next().unwrap();
    let mut health = Command::new(env!("CARGO_BIN_EXE_nearprint"));
    health.args(["health", "--url", &format!("https://localhost:{port}")]);
    health.arg("--ca-file").arg(&file).output().unwrap().status.success()
}

#[test]
fn requests_travel_in_tls_and_not_in_the_clear() {
    let (server, pem) = start(&[]);
    assert!(is_trusted(&server, &pem));
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    assert!(!is_trusted(&server, &other.cert.pem()), "another certificate is not this one");
    let clear = ureq::get(format!("http://{}/healthz", server.address)).call();
    assert!(clear.is_err(), "{clear:?}");
}

#[test]
fn health_finds_the_service_of_the_same_configuration() {
    let (server, _) = start(&[]);
    let path = |name: &str| server.directory().join(name);
    let mut health = Command::new(env!("CARGO_BIN_EXE_nearprint"));
    health.args(["health", "--ready"]).env("NEARPRINT_SERVER__LISTEN", &server.address);
    health.env("NEARPRINT_SERVER__TLS_CERTIFICATE_FILE", path("certificate.pem"));
    health.env("NEARPRINT_SERVER__TLS_KEY_FILE", path("key.pem"));
    let output = health.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_certificate_is_read_again_on_hangup_and_stays_when_it_cannot_be() {
    let (server, old) = start(&[]);
    let directory = server.directory();
    // A key that does not belong to the certificate, as between two steps of a renewal.
    let key = directory.join("key.pem");
    let good_key = std::fs::read_to_string(&key).unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    for bad in [other.signing_key.serialize_pem(), "nonsense".to_owned()] {
        write(&key, &bad);
        let before = server.log().matches("the certificate stays as it was").count();
        server.signal("HUP");
        let said = || server.log().matches("the certificate stays as it was").count();
        until("the refusal", || said() > before);
        assert!(is_trusted(&server, &old));
    }
    write(&key, &good_key);
    let new = certificate(directory);
    server.signal("HUP");
    server.wait_for_log("certificate read again");
    assert!(is_trusted(&server, &new) && !is_trusted(&server, &old));
    assert!(!server.log().contains("PRIVATE KEY"));
}

#[test]
fn a_silent_handshake_is_closed_and_does_not_hold_up_a_stop() {
    let (server, pem) = start(&[("SERVER__HEADER_TIMEOUT_MS", "500")]);
    let mut silent = TcpStream::connect(&server.address).unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(silent.read(&mut [0; 1]).unwrap_or(0), 0, "closed");
    assert!(is_trusted(&server, &pem));

    let (slow, _) = start(&[("SERVER__HEADER_TIMEOUT_MS", "60000")]);
    let _silent = TcpStream::connect(&slow.address).unwrap();
    let begun = now();
    for server in [&server, &slow] {
        server.signal("TERM");
        assert!(server.wait().success(), "{}", server.log());
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn a_certificate_that_cannot_be_used_does_not_start() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("nothing.pem").display().to_string();
    let files = [("SERVER__TLS_CERTIFICATE_FILE", &*file), ("SERVER__TLS_KEY_FILE", &*file)];
    let mut command = super::server::command(directory.path(), &files);
    let output = command.stderr(std::process::Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("nothing.pem"), "{said}");
    assert!(said.contains("next: name a certificate"), "{said}");
}
