//! The accept loop: connections within their number, each closed when it is too slow.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulConnection, GracefulShutdown};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

use super::Options;
use super::patience::{Patient, Phase};
use crate::http::Guarded;

/// How long the loop rests when the operating system has no descriptor left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// The running accept loop.
pub(super) struct Accepting {
    stop: oneshot::Sender<Infallible>,
    task: JoinHandle<GracefulShutdown>,
}

impl Accepting {
    pub(super) fn start(listener: TcpListener, router: Router, options: Arc<Options>) -> Self {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(accept(listener, router, options, stopped));
        Self { stop, task }
    }

    /// Accepts nothing more and waits for the connections there are; false if they took longer
    /// than `grace`.
    pub(super) async fn stop(self, grace: Duration) -> bool {
        // Dropping the sender is the signal.
        drop(self.stop);
        let Ok(connections) = self.task.await else {
            return false;
        };
        let finished = tokio::time::timeout(grace, connections.shutdown());
        finished.await.is_ok()
    }
}

async fn accept(
    listener: TcpListener,
    router: Router,
    options: Arc<Options>,
    mut stopped: oneshot::Receiver<Infallible>,
) -> GracefulShutdown {
    let connections = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(options.connections_max));
    let protocol = protocol(&options);
    loop {
        // The place first: a connection that has none waits in the backlog of the system.
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            accepted = accepted => accepted,
            _ = &mut stopped => return connections,
        };
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, or the client is gone already: neither ends the service.
            tokio::time::sleep(EXHAUSTED_PAUSE).await;
            continue;
        };
        let connection = connection(stream, &router, &protocol, &options);
        let connection = connections.watch(connection);
        drop(tokio::spawn(async move {
            // An error is the client's: it left, was too slow, or spoke no HTTP.
            drop(connection.await);
            drop(place);
        }));
    }
}

fn protocol(options: &Options) -> http1::Builder {
    let mut protocol = http1::Builder::new();
    protocol
        .timer(TokioTimer::new())
        // `Patient` is stricter; but only with this set does hyper poll idle connections.
        .header_read_timeout(options.header_timeout + options.idle_timeout);
    protocol
}

fn connection(
    stream: TcpStream,
    router: &Router,
    protocol: &http1::Builder,
    options: &Options,
) -> impl GracefulConnection<Error = hyper::Error> + use<> {
    // Replies are written whole; waiting to fill a packet only delays them.
    drop(stream.set_nodelay(true));
    let phase = Phase::new();
    let stream = Patient::new(stream, phase.clone(), options);
    let router = router.clone();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let busy = phase.busy();
        let answer = router.clone().oneshot(request.map(Body::new));
        async move { Ok::<_, Infallible>(answer.await?.map(|body| Guarded::new(body, busy))) }
    });
    protocol.serve_connection(TokioIo::new(stream), service)
}
