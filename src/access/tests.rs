//! Tokens: what a line accepts, which requests are admitted, and that no message quotes a secret.

use std::num::NonZero;
use std::time::Duration;

use super::*;

fn token_with(scopes: &str, rest: &str) -> (Token, String) {
    let token = Token::generate().unwrap();
    let line = format!("name {scopes} {}{rest}", token.digest());
    (token, line)
}

fn access(lines: &str) -> Access {
    Access::open(TokenSource { lines: lines.to_owned(), ..TokenSource::default() }).unwrap()
}

/// The namespaces of a request that is admitted.
fn admit(
    access: &Access,
    presented: Option<&str>,
    need: Need,
) -> Result<AllowedNamespaces, Denied> {
    access.admit(presented, need).map(|admitted| admitted.namespaces)
}

fn refusal(lines: &str) -> String {
    let source = TokenSource { lines: lines.to_owned(), ..TokenSource::default() };
    Access::open(source).unwrap_err().to_string()
}

#[test]
fn each_token_has_its_own_permissions_and_no_others() {
    let scopes = ["read", "write", "admin", "read,write", "read,write,admin"];
    let named: Vec<_> = scopes.iter().map(|scopes| token_with(scopes, "")).collect();
    let lines: Vec<_> = named.iter().map(|(_, line)| line.as_str()).collect();
    let access = access(&lines.join("\n"));
    for ((token, _), scopes) in named.iter().zip(scopes) {
        for permission in Permission::ALL {
            let admitted = admit(&access, Some(token.reveal()), permission.into());
            let has = scopes.split(',').any(|name| name == permission.name());
            let expected = if has {
                Ok(AllowedNamespaces::ALL)
            } else {
                Err(Denied::NoPermission(permission))
            };
            assert_eq!(admitted, expected);
        }
        assert_eq!(admit(&access, Some(token.reveal()), Need::Token), Ok(AllowedNamespaces::ALL));
    }
}

#[test]
fn without_a_known_token_only_what_needs_nothing_is_open() {
    let (token, line) = token_with("read", "");
    let access = access(&line);
    assert_eq!(admit(&access, None, Need::Nothing), Ok(AllowedNamespaces::none()));
    for need in [Need::Token, Permission::Read.into()] {
        assert_eq!(access.admit(None, need), Err(Denied::NoToken));
        let cut = &token.reveal()[..token.reveal().len() - 1];
        // The digest itself opens nothing.
        let digest = token.digest().to_string();
        for wrong in ["", "x", cut, &digest, &token.reveal().to_uppercase()] {
            assert_eq!(access.admit(Some(wrong), need), Err(Denied::UnknownToken), "{wrong}");
        }
    }
}

#[test]
fn an_empty_source_admits_everybody() {
    let access = Access::open(TokenSource::default()).unwrap();
    assert!(!access.is_on());
    assert_eq!(admit(&access, None, Permission::Admin.into()), Ok(AllowedNamespaces::ALL));
}

#[test]
fn a_rate_is_that_of_the_line_or_of_the_source() {
    let (own, own_line) = token_with("read", " rate=3");
    let (other, other_line) = token_with("read", "");
    let access = Access::open(TokenSource {
        lines: format!("{own_line};{other_line}"),
        requests_per_second: NonZero::new(5),
        ..TokenSource::default()
    })
    .unwrap();
    for (token, rate) in [(own, 3), (other, 5)] {
        let admit = || access.admit(Some(token.reveal()), Need::Token);
        let admitted = (0..rate).filter(|_| admit().is_ok()).count();
        // The clock runs on, so more may be admitted, but never fewer.
        assert_eq!(admitted, rate);
        let denied = std::iter::repeat_with(admit).take(1_000).find_map(Result::err);
        let Some(Denied::TooMany(wait)) = denied else { panic!("{denied:?}") };
        assert!(wait <= Duration::from_secs(1), "{wait:?}");
    }
}

#[test]
fn a_token_reaches_the_namespaces_of_its_line() {
    for rest in [" namespaces=a,b/*", " rate=3 namespaces=a,b/*", " namespaces=a,b/* rate=3"] {
        let (token, line) = token_with("read", rest);
        let access = access(&line);
        let reached = admit(&access, Some(token.reveal()), Permission::Read.into()).unwrap();
        let admitted = |name| reached.admits(name);
        assert!(admitted(Some("a")) && admitted(Some("b/c")), "{rest}");
        assert!(!admitted(None) && !admitted(Some("b")), "{rest}");
        let rates = std::iter::repeat_with(|| access.admit(Some(token.reveal()), Need::Token));
        assert_eq!(rates.take(1_000).any(|admitted| admitted.is_err()), rest.contains("rate"));
    }
}

#[test]
fn comments_and_blank_lines_are_skipped() {
    let (token, line) = token_with("admin", "");
    let access = access(&format!("# a comment\n\n   \n  {line}  \n"));
    assert_eq!(
        admit(&access, Some(token.reveal()), Permission::Admin.into()),
        Ok(AllowedNamespaces::ALL)
    );
}

#[test]
fn a_bad_line_is_refused_by_its_number_and_not_quoted() {
    let (token, line) = token_with("read", "");
    let secret = token.reveal();
    for wrong in [
        format!("name read {secret}"),
        secret.to_owned(),
        format!("name reed {}", token.digest()),
        format!("{line} rate=0"),
        format!("{line} rate=x"),
        format!("{line} rate=1 more"),
        format!("{line} rate=1 rate=1"),
        format!("{line} namespaces=a namespaces=b"),
        format!("{line} namespace=a"),
        format!("{line} namespaces="),
        format!("{line} namespaces=a,%zz"),
        format!("{line} namespaces={}", vec![secret; 101].join(",")),
        format!("{line} {secret}"),
        format!("name read sha256:{}", &secret["nearprint_".len() + 2..]),
        format!("{line}0"),
        line.replace("sha256:", "sha256:+"),
    ] {
        let said = refusal(&format!("{line}\n{wrong}"));
        assert!(said.starts_with("line 2 of access.tokens names no token: "), "{said}");
        assert!(!said.contains(&secret["nearprint_".len()..][..16]), "{said}");
    }
    assert_eq!(refusal("# nobody"), "access.tokens names no token at all");
    let many = vec![line; TOKENS_MAX + 1].join("\n");
    assert_eq!(refusal(&many), "access.tokens names more than 1000 tokens");
}

#[test]
fn a_file_is_read_again_and_a_bad_one_leaves_the_old_tokens() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tokens");
    #[expect(clippy::disallowed_methods, reason = "a file of a test")]
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    let ((old, old_line), (new, new_line)) = (token_with("read", ""), token_with("read", ""));
    write(&old_line);
    let access =
        Access::open(TokenSource { file: Some(path.clone()), ..TokenSource::default() }).unwrap();
    let known = |token: &Token| access.admit(Some(token.reveal()), Need::Token).is_ok();
    write("nonsense");
    assert!(access.reload().unwrap_err().to_string().contains("line 1 of"));
    assert!(known(&old) && !known(&new));
    write(&new_line);
    assert_eq!(access.reload().unwrap(), 1);
    assert!(!known(&old) && known(&new));
}

#[test]
fn the_digest_is_sha256_and_tokens_differ() {
    // FIPS 180-2, the message "abc".
    assert_eq!(
        TokenDigest::of("abc").to_string(),
        "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
    let (one, two) = (Token::generate().unwrap(), Token::generate().unwrap());
    assert_ne!(one.reveal(), two.reveal());
    assert_eq!(one.reveal().len(), "nearprint_".len() + 64);
    assert_eq!(format!("{one:?}"), "Token");
}

#[test]
fn a_token_is_known_by_the_name_of_its_line() {
    let ((one, one_line), (other, other_line)) = (token_with("read", ""), token_with("write", ""));
    let access = access(&format!("{one_line};{}", other_line.replace("name ", "another ")));
    for (token, name) in [(one, "name"), (other, "another")] {
        let admitted = access.admit(Some(token.reveal()), Need::Token).unwrap();
        assert_eq!(admitted.token.as_deref(), Some(name));
    }
    assert_eq!(access.admit(None, Need::Nothing).unwrap().token, None);
}
