//! Replies: those of JSON, those that are streamed ([`streamed`]), and their metrics ([`counts`]).
//! What they say is made by [`nearprint_service::answers`].

pub(crate) mod counts;
pub(crate) mod streamed;

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;

/// A reply of this JSON.
pub(crate) fn json(bytes: Bytes) -> Response {
    let mut response = Response::new(Body::from(bytes));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
