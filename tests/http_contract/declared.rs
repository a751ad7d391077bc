//! Every reply that a test gets is one that the description of the API declares.

use std::sync::OnceLock;

use serde_json::Value;

use crate::support::Reply;

/// Fails unless the description declares the status of this reply to a request with this line, and
/// if it is an error also its code and when to try again.
pub(crate) fn assert_declared(line: &str, reply: &Reply) {
    static DESCRIPTION: OnceLock<Value> = OnceLock::new();
    let description =
        DESCRIPTION.get_or_init(|| serde_json::to_value(nearprint::http::openapi()).unwrap());
    let Some(operation) = operation(description, line) else { return };
    let declared = &operation["responses"][reply.status.to_string()];
    assert!(declared.is_object(), "{line} gives {}: {}", reply.status, reply.text());
    let may_say_when = declared["headers"]["Retry-After"].is_object();
    assert!(may_say_when || reply.header("retry-after").is_none(), "{line} gives Retry-After");
    if reply.header("content-type") == Some("application/problem+json") {
        let code = reply.problem().1;
        let codes = declared["description"].as_str().unwrap();
        assert!(codes.contains(&format!("`{code}`")), "{line} gives {code}, not {codes}");
    }
}

/// The operation of a request, if there is one.
fn operation<'d>(description: &'d Value, line: &str) -> Option<&'d Value> {
    let (method, target) = line.split_once(' ')?;
    let path = target.split('?').next()?;
    let fits = |template: &str| {
        let (mut parts, mut names) = (path.split('/'), template.split('/'));
        let agree = parts
            .by_ref()
            .zip(names.by_ref())
            .all(|(part, name)| part == name || (name.starts_with('{') && !part.is_empty()));
        agree && path.split('/').count() == template.split('/').count()
    };
    let (_, item) = description["paths"].as_object()?.iter().find(|(path, _)| fits(path))?;
    let method = if method == "HEAD" { "get".to_owned() } else { method.to_lowercase() };
    item.get(method)
}
