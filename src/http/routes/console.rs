//! `/`: the web console. Its files show no data, so they need no token; the script asks for one,
//! and the policy in their header lets the browser load nothing else and ask this service only.

use axum::http::Uri;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::http::problem::{Code, Problem};

/// The `Content-Security-Policy` of the files.
pub(crate) const CONTENT_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
    connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A new version of the program has a new console, so the browser must not cache this one.
pub(crate) const CACHING: &str = "no-cache";

const PAGE: &str = include_str!("console/index.html");
const ICON: &str = include_str!("console/icon.svg");

/// Names the files below `/console/` and includes them.
macro_rules! files {
    ($($name:literal)*) => { &[$(($name, include_str!(concat!("console/", $name)))),*] };
}

const FILES: &[(&str, &str)] = files! {
    "style.css" "main.js" "api.js" "browse.js" "charts.js" "compare.js" "diff.js" "dom.js" "format.js"
    "index.js" "jobs.js" "lookup.js" "nodes.js" "originals.js" "pages.js" "request.js" "source.js"
    "verdict.js"
};

/// The page of the web console.
#[utoipa::path(get, path = "/", tag = "console",
    responses((status = 200, description = "The page", body = String, content_type = "text/html")))]
pub(crate) async fn get_page() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], PAGE)
}

/// A script or the style sheet of the web console.
#[utoipa::path(get, path = "/console/{file}", tag = "console",
    params(("file" = String, Path, description = "The name of the file", example = "main.js")),
    responses((status = 200, content(
        (String = "text/javascript"), (String = "text/css")), description = "The file")))]
pub(crate) async fn get_file(uri: Uri) -> Response {
    let name = uri.path().rsplit('/').next().unwrap_or_default();
    let Some((_, text)) = FILES.iter().find(|(known, _)| *known == name) else {
        return Problem::new(Code::NotFound, "The console has no such file.").into_response();
    };
    let kind = if name == "style.css" {
        "text/css; charset=utf-8"
    } else {
        "text/javascript; charset=utf-8"
    };
    ([(CONTENT_TYPE, kind)], *text).into_response()
}

/// The icon of the web console.
#[utoipa::path(get, path = "/favicon.ico", tag = "console",
    responses((status = 200, description = "The icon", body = String,
        content_type = "image/svg+xml")))]
pub(crate) async fn get_icon() -> impl IntoResponse {
    ([(CONTENT_TYPE, "image/svg+xml")], ICON)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_together_are_small() {
        let bytes: usize = FILES.iter().map(|(_, text)| text.len()).sum();
        assert!(bytes + PAGE.len() + ICON.len() <= 120_000, "{bytes}");
    }

    #[test]
    fn each_import_is_a_file_and_no_file_is_left_out() {
        let names: Vec<_> = FILES.iter().map(|(name, _)| *name).collect();
        for (name, text) in FILES {
            let imported =
                text.split(" from \"./").skip(1).filter_map(|rest| rest.split('"').next());
            for import in imported {
                assert!(names.contains(&import), "{name} imports {import}");
            }
            let is_used = PAGE.contains(&format!("/console/{name}"))
                || FILES.iter().any(|(_, text)| text.contains(&format!(" from \"./{name}\"")));
            assert!(is_used, "nothing loads {name}");
        }
    }
}
