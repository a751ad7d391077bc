//! Signing in, and TLS.

use std::fs;
use std::time::Duration;

use nearprint::replicas::nats::{NatsError, NatsLog, NatsOptions, NewStream, SignIn};
use nearprint_engine::log::{Log as _, LogError};

use super::{append_all, number};
use crate::servers::{Servers, eventually};

const NEW: NewStream = NewStream { replicas: 1, bytes_max: 1 << 20 };

fn create(servers: &Servers, options: &NatsOptions) -> Result<NatsLog, NatsError> {
    NatsLog::create(options, NEW, servers.runtime.handle())
}

fn is_kept_out(refused: &Result<NatsLog, NatsError>) -> bool {
    matches!(refused, Err(NatsError::Unreachable(_)))
}

#[test]
fn who_does_not_sign_in_is_kept_out() {
    let token = |token: &str| SignIn::Token(token.to_owned());
    let folder = tempfile::tempdir().unwrap();
    let password = |password: &str| {
        let file = folder.path().join(password);
        fs::write(&file, password).unwrap();
        SignIn::Password { user: "node".to_owned(), file }
    };
    let settings = ["token: open", "user: node, password: open"];
    let right = [token("open"), password("open")];
    let wrong = [token("closed"), password("closed")];
    for ((settings, right), wrong) in settings.into_iter().zip(right).zip(wrong) {
        let settings = format!("authorization {{ {settings} }}");
        let Some(servers) = Servers::start_with(1, &settings, "always") else { return };
        for sign_in in [SignIn::Nothing, wrong] {
            let refused = create(&servers, &NatsOptions { sign_in, ..servers.options() });
            assert!(is_kept_out(&refused), "{refused:?}");
        }
        let log = create(&servers, &NatsOptions { sign_in: right, ..servers.options() }).unwrap();
        append_all(&log, 1..=3);
        let missing = SignIn::Credentials(servers.store(0).join("absent.creds"));
        let refused = create(&servers, &NatsOptions { sign_in: missing, ..servers.options() });
        let Err(NatsError::Options { what, .. }) = refused else { panic!("{refused:?}") };
        assert!(what.contains("absent.creds"), "{what}");
    }
}

#[test]
fn servers_are_trusted_by_the_configured_certificates() {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("a.pem"), folder.path().join("a.key"));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let settings = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\" }}",
        certificate.display(),
        key.display()
    );
    let Some(servers) = Servers::start_with(1, &settings, "always") else { return };
    let refused = create(&servers, &servers.options());
    assert!(is_kept_out(&refused), "{refused:?}");
    let log = create(&servers, &NatsOptions { roots: Some(certificate), ..servers.options() });
    let log = log.unwrap();
    append_all(&log, 1..=3);
    assert_eq!(log.bounds().unwrap().last, 3);
}

#[test]
fn a_password_that_was_changed_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    fs::write(&file, "old-one").unwrap();
    let settings = "authorization { user: node, password: old-one }";
    let Some(mut servers) = Servers::start_with(1, settings, "always") else { return };
    let sign_in = SignIn::Password { user: "node".to_owned(), file: file.clone() };
    let log = create(&servers, &NatsOptions { sign_in, ..servers.options() }).unwrap();
    append_all(&log, 1..=3);
    let mut reader = log.read(4);
    servers.change_config(0, |config| config.replace("old-one", "new-one"));
    servers.kill(0);
    servers.begin(0);
    eventually(|| match reader.next(Duration::from_millis(100)) {
        Err(LogError::Unreachable(why)) if why.contains("authorization violation") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    fs::write(&file, "new-one").unwrap();
    append_all(&log, 4..=4);
    let read = eventually(|| {
        reader.next(Duration::from_millis(100))?.ok_or(LogError::Discarded(String::new()))
    });
    assert_eq!(number(&read), 4);
}
