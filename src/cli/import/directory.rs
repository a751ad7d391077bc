//! The batch routes of a service on a data directory, in this process and without a socket.

use std::convert::Infallible;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Result, bail};
use axum::Router;
use axum::body::Body;
use axum::http::header::{ACCEPT, CONTENT_TYPE, HOST};
use axum::http::{Request, StatusCode};
use bytes::Bytes;
use futures_util::stream;
use http_body_util::BodyExt as _;
use nearprint_engine::Engine;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::runtime::{self, Runtime};
use tower::ServiceExt as _;

use crate::access::{Access, TokenSource};
use crate::cli::client::ProblemReply;
use crate::cli::configuration;
use crate::cli::error_report::ErrorReport;
use crate::config::Sources;
use crate::http;

/// The smallest frame of a batch but the last. The service analyses each frame by itself, so that
/// several keep all cores busy.
const FRAME_BYTES_MIN: usize = 4 << 10;

/// An open data directory.
pub(crate) struct ImportDirectory {
    engine: Engine,
    router: Router,
    runtime: Runtime,
}

impl ImportDirectory {
    /// Opens (or creates) the directory; a service that runs on it holds its lock.
    pub(crate) fn open(data: &Path, config: Option<&Path>) -> Result<Self> {
        let mut sources = Sources::of_process(config.map(Path::to_path_buf));
        sources.data = Some(data.to_path_buf());
        let (_, mut settings) = configuration::load(&sources)?;
        // The readers of files limit a document already, and there is one batch at a time.
        settings.http.line_bytes_max = usize::MAX;
        settings.http.bodies_held_bytes_max = usize::MAX;
        let engine = Engine::open(settings.engine).map_err(|error| {
            let what = format!("cannot open the data directory {}", data.display());
            let next = "if a service runs on it, import through the service: --server URL";
            ErrorReport::new(what, next).because(error)
        })?;
        let access = Access::open(TokenSource::default())?;
        let service = http::Service::new(engine.clone(), settings.http, access.into());
        let runtime = runtime::Builder::new_multi_thread().enable_time().build()?;
        Ok(Self { engine, router: http::router(service), runtime })
    }

    /// Posts lines of JSON and returns the lines of the reply.
    pub(crate) fn post_ndjson(&self, path: &str, lines: &[&str]) -> Result<Vec<u8>> {
        let mut frames: Vec<String> = Vec::new();
        for line in lines {
            match frames.last_mut().filter(|frame| frame.len() < FRAME_BYTES_MIN) {
                Some(frame) => frame.extend([line, "\n"]),
                None => frames.push(format!("{line}\n")),
            }
        }
        let frames = frames.into_iter().map(Ok::<_, Infallible>);
        let request = Request::post(path)
            .header(HOST, "localhost")
            .header(CONTENT_TYPE, "application/x-ndjson")
            .body(Body::from_stream(stream::iter(frames)))?;
        self.runtime.block_on(async {
            let Ok(response) = self.router.clone().oneshot(request).await;
            let status = response.status();
            let (mut body, mut reply) = (response.into_body(), Vec::new());
            while let Some(frame) = body.frame().await {
                reply.extend_from_slice(&frame?.into_data().unwrap_or_default());
            }
            if status != StatusCode::OK {
                let problem: ProblemReply = serde_json::from_slice(&reply)?;
                bail!("the data directory takes no documents: {problem}");
            }
            Ok(reply)
        })
    }

    /// Sends a request and reads the JSON of its reply.
    pub(crate) fn send_json<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "localhost")
            .header(CONTENT_TYPE, "application/json")
            .body(body.map_or_else(Body::empty, |body| Body::from(body.to_string())))?;
        self.runtime.block_on(async {
            let Ok(response) = self.router.clone().oneshot(request).await;
            let status = response.status();
            let reply = response.into_body().collect().await?.to_bytes();
            if !status.is_success() {
                let problem: ProblemReply = serde_json::from_slice(&reply)?;
                bail!("{problem}");
            }
            Ok(serde_json::from_slice(&reply)?)
        })
    }

    /// Gets lines of JSON as they come.
    pub(crate) fn get_ndjson(&self, path: &str) -> Result<ReplyLines<'_>> {
        let request = Request::get(path)
            .header(HOST, "localhost")
            .header(ACCEPT, "application/x-ndjson")
            .body(Body::empty())?;
        self.runtime.block_on(async {
            let Ok(response) = self.router.clone().oneshot(request).await;
            let status = response.status();
            let body = response.into_body();
            if status.is_success() {
                return Ok(ReplyLines { runtime: &self.runtime, body, frame: Bytes::new() });
            }
            let problem: ProblemReply = serde_json::from_slice(&body.collect().await?.to_bytes())?;
            bail!("{problem}");
        })
    }

    pub(crate) fn close(&self) {
        self.engine.close();
    }
}

/// The body of a reply that is read as it comes.
pub(crate) struct ReplyLines<'a> {
    runtime: &'a Runtime,
    body: Body,
    frame: Bytes,
}

impl Read for ReplyLines<'_> {
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
