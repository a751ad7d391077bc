//! The routes of a service on a data directory, in this process and without a socket.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use axum::Router;
use axum::body::Body;
use axum::http::header::{ACCEPT, CONTENT_TYPE, HOST};
use axum::http::{Method, Request};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use nearprint_engine::{Engine, OpenError};
use nearprint_files::Entry;
use tokio::runtime::{self, Runtime};
use tower::ServiceExt as _;

use super::{Incoming, ProblemReply};
use crate::access::{Access, TokenSource};
use crate::cli::configuration;
use crate::cli::error_report::ErrorReport;
use crate::cli::reply::Reply;
use crate::config::Sources;
use crate::http;
use crate::http::batch::Operation;
use crate::http::batch::direct::DirectBatch;

/// An open data directory.
pub(crate) struct OpenedDirectory {
    service: Arc<http::Service>,
    router: Router,
    runtime: Runtime,
}

impl OpenedDirectory {
    /// Opens (or creates) the directory.
    ///
    /// # Errors
    /// It is no data directory, or it is in use: a service that runs on it holds its lock.
    pub(crate) fn open(data: &Path, config: Option<&Path>) -> Result<Self> {
        let mut sources = Sources::of_process(config.map(Path::to_path_buf));
        sources.data = Some(data.to_path_buf());
        let (_, settings) = configuration::load(&sources)?;
        let engine = Engine::open_to_read_at_least(settings.engine).map_err(|error| {
            let what = format!("cannot open the data directory {}", data.display());
            let next = if matches!(error, OpenError::ClockBehind { .. }) {
                configuration::CLOCK_BEHIND_NEXT
            } else {
                "if a service runs on it, name the service instead: --server URL"
            };
            ErrorReport::new(what, next).because(error)
        })?;
        let access = Access::open(TokenSource::default())?;
        let service = http::Service::new(engine, settings.http, access.into());
        let runtime = runtime::Builder::new_multi_thread().enable_time().build()?;
        Ok(Self { router: http::router(Arc::clone(&service)), service, runtime })
    }

    /// Does with documents what the batch route of this path does.
    pub(super) fn batch(&self, path: &str, entries: &[&Entry]) -> Result<Vec<Reply>> {
        let (route, query) = path.split_once('?').map_or((path, None), |(r, q)| (r, Some(q)));
        let operation = match route {
            "/v1/query/batch" => Operation::Query,
            "/v1/check-and-insert/batch" => Operation::CheckAndInsert,
            _ => Operation::Insert,
        };
        let batch =
            DirectBatch::new(Arc::clone(&self.service), operation, query).map_err(|problem| {
                let problem = ProblemReply::from(&problem);
                anyhow!("the data directory takes no documents: {problem}")
            })?;
        let outcomes = batch.run(entries, self.runtime.handle());
        Ok(outcomes.into_iter().map(Reply::from).collect())
    }

    pub(super) fn send(
        &self,
        method: &Method,
        path: &str,
        media_type: &str,
        body: Option<&Bytes>,
    ) -> Result<Incoming<'_>> {
        let request = Request::builder().method(method).uri(path).header(HOST, "localhost");
        let request = match body {
            Some(body) => {
                request.header(CONTENT_TYPE, media_type).body(Body::from(body.clone()))?
            }
            None => request.header(ACCEPT, media_type).body(Body::empty())?,
        };
        let Ok(reply) = self.runtime.block_on(self.router.clone().oneshot(request));
        Ok(reply.map(|body| {
            Box::new(ReplyBody { runtime: &self.runtime, body, frame: Bytes::new() })
                as Box<dyn Read + '_>
        }))
    }
}

impl Drop for OpenedDirectory {
    fn drop(&mut self) {
        self.service.engine.close();
    }
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
