//! The measured service: in this process, or one that runs already.

use std::fs;
use std::sync::{Mutex, mpsc};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};
use nearprint::cli::error_report::ErrorReport;
use nearprint::metrics;
use nearprint::server::{self, Settings};
use nearprint_engine::Engine;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::connection::{self, Connection};
use crate::scratch;

pub(super) struct Target {
    address: String,
    here: Option<Here>,
}

/// A service in this process.
struct Here {
    engine: Engine,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Result<()>>,
}

impl Target {
    pub(super) fn running(url: &str) -> Result<Self> {
        let address = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/').to_owned();
        let target = Self { address, here: None };
        target.connect()?;
        Ok(target)
    }

    /// One of its own, on a free port.
    pub(super) fn in_this_process(settings: Settings) -> Result<Self> {
        log_to_nowhere(&settings)?;
        metrics::install();
        let engine =
            server::open_engine(settings.engine.clone()).context("the engine does not start")?;
        let (stop, stopped) = oneshot::channel();
        let (bound, address) = mpsc::channel();
        let serving = engine.clone();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
                bound.send(listener.local_addr()?)?;
                // Dropping the sender stops the server as well.
                let stopped = async { drop(stopped.await) };
                server::run(listener, serving, settings.server, settings.http, stopped).await?;
                Ok(())
            })
        });
        let Ok(address) = address.recv() else {
            let ended = thread.join().expect("a server that does not start does not panic");
            return Err(ended.err().unwrap_or_else(|| anyhow!("the server ended")));
        };
        Ok(Self { address: address.to_string(), here: Some(Here { engine, stop, thread }) })
    }

    /// Its engine, if it is in this process.
    pub(super) fn engine(&self) -> Option<&Engine> {
        self.here.as_ref().map(|here| &here.engine)
    }

    pub(super) fn connect(&self) -> Result<Connection> {
        Ok(Connection::open(&self.address).map_err(|error| {
            let what = format!("no answer from a nearprint service at {}", self.address);
            let next = "start one with `nearprint serve`, or leave out --url";
            ErrorReport::new(what, next).because(error)
        })?)
    }

    /// Waits until its segments are merged.
    pub(super) fn settle(&self) -> Result<()> {
        scratch::settle(|| Ok(self.stats()?["index"].to_string()))
    }

    /// The memory of its index.
    pub(super) fn index_bytes(&self) -> Result<u64> {
        let stats = self.stats()?;
        stats["memory"]["total_bytes"].as_u64().context("statistics without memory")
    }

    fn stats(&self) -> Result<Value> {
        let mut client = self.connect()?;
        let reply = client.send(connection::get("/v1/stats")).context("no statistics")?;
        Ok(serde_json::from_slice(&reply)?)
    }

    /// Stops it, if it is in this process.
    pub(super) fn stop(self) -> Result<()> {
        let Some(Here { engine, stop, thread }) = self.here else { return Ok(()) };
        drop((engine, stop));
        thread.join().expect("the server does not panic")
    }
}

/// Logs a line for each request to /dev/null, because the line is part of the cost of a request.
fn log_to_nowhere(settings: &Settings) -> Result<()> {
    let nowhere = fs::OpenOptions::new().write(true).open("/dev/null")?;
    let lines = tracing_subscriber::fmt().with_max_level(settings.log.level).with_target(false);
    // With several sizes it is installed already.
    drop(lines.with_ansi(false).with_writer(Mutex::new(nowhere)).try_init());
    Ok(())
}
