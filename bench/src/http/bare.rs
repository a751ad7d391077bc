//! A bare axum server with the shapes of two routes of the service, `GET /healthz` and the JSON
//! query: the most that the service could reach with its HTTP library. It reads and discards any
//! other body.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use axum::{Json, Router};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::target::Target;

/// The server, on a free port of the loopback interface; stops on drop.
pub(super) struct Bare {
    target: Target,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Bare {
    pub(super) fn start() -> Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (bound, address) = mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await?;
                bound.send(listener.local_addr()?)?;
                tokio::select! {
                    served = serve(listener) => served,
                    // Dropping the sender stops the server as well.
                    _ = stopped => Ok(()),
                }
            })
        });
        let address = address.recv().context("the bare server does not start")?;
        let target = Target::running(&address.to_string())?;
        Ok(Self { target, stop: Some(stop), thread: Some(thread) })
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Serves until the process ends.
pub(super) fn serve_at(address: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async { serve(TcpListener::bind(address).await?).await })
}

async fn serve(listener: TcpListener) -> Result<()> {
    let router = Router::new()
        .route("/healthz", get(async || Json(Health { status: "alive" })))
        .route("/v1/query", post(query))
        .fallback(async |_: Bytes| ());
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    axum::serve(listener, router).await?;
    Ok(())
}

#[derive(Serialize)]
struct Health {
    status: &'static str,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    fingerprint: String,
}

/// The reply of the service to a query without hits.
#[derive(Serialize)]
struct Reply {
    fingerprint: String,
    short: bool,
    duplicate: bool,
    hits: [(); 0],
    hit_count: u64,
    truncated: bool,
}

async fn query(Json(Query { fingerprint }): Json<Query>) -> Json<Reply> {
    Json(Reply {
        fingerprint,
        short: false,
        duplicate: false,
        hits: [],
        hit_count: 0,
        truncated: false,
    })
}
