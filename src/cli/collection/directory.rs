//! The routes of a service on a data directory, in this process and without a socket.

use std::convert::Infallible;
use std::io::{self, Read};
use std::iter;
use std::path::Path;

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use axum::http::header::{ACCEPT, CONTENT_TYPE, HOST};
use axum::http::{Method, Request};
use bytes::Bytes;
use futures_util::stream;
use http_body_util::BodyExt as _;
use nearprint_engine::Engine;
use tokio::runtime::{self, Runtime};
use tower::ServiceExt as _;

use super::Incoming;
use crate::access::{Access, TokenSource};
use crate::cli::configuration;
use crate::cli::error_report::ErrorReport;
use crate::config::Sources;
use crate::http;

/// The smallest frame of a batch but the last. The service analyses each frame by itself, so that
/// several keep all cores busy.
const FRAME_BYTES_MIN: usize = 4 << 10;

/// An open data directory.
pub(crate) struct Directory {
    engine: Engine,
    router: Router,
    runtime: Runtime,
}

impl Directory {
    /// Opens (or creates) the directory.
    ///
    /// # Errors
    /// It is no data directory, or it is in use: a service that runs on it holds its lock.
    pub(crate) fn open(data: &Path, config: Option<&Path>) -> Result<Self> {
        let mut sources = Sources::of_process(config.map(Path::to_path_buf));
        sources.data = Some(data.to_path_buf());
        let (_, mut settings) = configuration::load(&sources)?;
        // The readers of files limit a document already, and there is one batch at a time.
        settings.http.line_bytes_max = usize::MAX;
        settings.http.bodies_held_bytes_max = usize::MAX;
        let engine = Engine::open(settings.engine).map_err(|error| {
            let what = format!("cannot open the data directory {}", data.display());
            let next = "if a service runs on it, name the service instead: --server URL";
            ErrorReport::new(what, next).because(error)
        })?;
        let access = Access::open(TokenSource::default())?;
        let service = http::Service::new(engine.clone(), settings.http, access.into());
        let runtime = runtime::Builder::new_multi_thread().enable_time().build()?;
        Ok(Self { engine, router: http::router(service), runtime })
    }

    /// Sends a request.
    pub(super) fn send(
        &self,
        method: &Method,
        path: &str,
        media_type: &str,
        body: Option<Bytes>,
    ) -> Result<Incoming<'_>> {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header(HOST, "localhost").header(ACCEPT, media_type);
        let request = match body {
            Some(body) => request
                .header(CONTENT_TYPE, media_type)
                .body(Body::from_stream(stream::iter(frames(body))))?,
            None => request.body(Body::empty())?,
        };
        let Ok(reply) = self.runtime.block_on(self.router.clone().oneshot(request));
        Ok(reply.map(|body| {
            Box::new(ReplyBody { runtime: &self.runtime, body, frame: Bytes::new() })
                as Box<dyn Read + '_>
        }))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.engine.close();
    }
}

/// The frames of a body, cut at the ends of lines.
fn frames(mut body: Bytes) -> impl Iterator<Item = Result<Bytes, Infallible>> {
    iter::from_fn(move || {
        let behind = body.get(FRAME_BYTES_MIN..).unwrap_or_default();
        let end = memchr::memchr(b'\n', behind).map(|at| FRAME_BYTES_MIN + at + 1);
        let frame = body.split_to(end.unwrap_or(body.len()));
        (!frame.is_empty()).then_some(Ok(frame))
    })
}

/// The body of a reply that is read as it comes.
struct ReplyBody<'a> {
    runtime: &'a Runtime,
    body: Body,
    frame: Bytes,
}

impl Read for ReplyBody<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.frame.is_empty() {
            let Some(frame) = self.runtime.block_on(self.body.frame()) else { return Ok(0) };
            self.frame = frame.map_err(io::Error::other)?.into_data().unwrap_or_default();
        }
        let count = buffer.len().min(self.frame.len());
        buffer[..count].copy_from_slice(&self.frame.split_to(count));
        Ok(count)
    }
}
