//! A server that reads what it is sent and keeps nothing: what bodies cost before anybody looks at
//! them.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::target::Target;

/// It, on a free port of the loopback; ends on drop.
pub(super) struct Discarding {
    target: Target,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Discarding {
    pub(super) fn start() -> Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await?;
                tell.send(listener.local_addr()?)?;
                tokio::select! {
                    failed = accept(&listener) => failed,
                    // Whoever drops the other end wants it to stop as well.
                    _ = stopped => Ok(()),
                }
            })
        });
        let address = told.recv().context("no server that discards")?;
        let target = Target::running(&address.to_string())?;
        Ok(Self { target, stop: Some(stop), thread: Some(thread) })
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }
}

impl Drop for Discarding {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

async fn accept(listener: &TcpListener) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let discard = service_fn(|request: hyper::Request<Incoming>| async {
            request.into_body().collect().await?;
            Ok::<_, hyper::Error>(hyper::Response::new(Full::<Bytes>::default()))
        });
        // An error is a client that left.
        drop(tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), discard)));
    }
}
