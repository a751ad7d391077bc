//! `/`: a page to try the service by hand. It is three static files; the policy in its header lets
//! the browser load nothing else, and connect to this service only.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

/// The `Content-Security-Policy` of the three files.
pub(crate) const CONTENT_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A new version of the program has a new page, so the browser must not cache this one.
pub(crate) const CACHING: &str = "no-cache";

/// The web page.
#[utoipa::path(get, path = "/", tag = "page",
    responses((status = 200, description = "The page", body = String, content_type = "text/html")))]
pub(crate) async fn get_page() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], include_str!("page/page.html"))
}

/// The style of the web page.
#[utoipa::path(get, path = "/page.css", tag = "page",
    responses((status = 200, description = "The style sheet", body = String,
        content_type = "text/css")))]
pub(crate) async fn get_style() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("page/page.css"))
}

/// The script of the web page.
#[utoipa::path(get, path = "/page.js", tag = "page",
    responses((status = 200, description = "The script", body = String,
        content_type = "text/javascript")))]
pub(crate) async fn get_script() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], include_str!("page/page.js"))
}
