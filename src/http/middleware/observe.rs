//! What happens around every request: the checks of its head, its request id, the limit on requests
//! in flight, its line in the access log, its metrics, and the containment of a panic.
//!
//! The access log has one line for each request, or for some of them ([`AccessLog`]): method,
//! matched route, status, duration, request id and the name of the token; for an error also its
//! code, and for a 5xx its cause, which is never sent to a client. It contains no path, document id
//! or text.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::{Body, HttpBody as _};
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, EXPECT, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use nearprint_engine::Client;
use nearprint_service::shares::RequestPlace;
use nearprint_wire::answer::Hex;
use tokio::time::Instant;

use crate::http::forward::ForwardLimits;
use crate::http::middleware::access;
use crate::http::middleware::access::RouteRules;
use crate::http::middleware::freshness::{self, Freshness};
use crate::http::middleware::guard::Guarded;
use crate::http::middleware::head;
use crate::http::options::AccessLog;
use crate::http::problem::{Code, Failure, Problem};
use crate::http::request::body::lingering;
use crate::http::request::caller::client_of;
use crate::http::request::coding;
use crate::http::role::{Decider, Role};
use crate::http::routes::jobs;
use crate::http::service::HttpService;
use crate::metrics;

const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The maximum length of a request id that is taken from the client.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// What all requests share.
#[derive(Debug)]
pub(crate) struct RequestObserver {
    http: Arc<HttpService>,
    rules: &'static RouteRules,
    routes: HashMap<&'static str, metrics::Route>,
    unrouted: metrics::Route,
    /// Requests without an error, if only some of them have a line in the log.
    unlogged: AtomicU64,
    request_numbers: AtomicU64,
    request_keys: RandomState,
    reply_headers: HeaderMap,
}

impl RequestObserver {
    /// The middleware around the routes with these rules.
    pub(crate) fn new(http: Arc<HttpService>, rules: &'static RouteRules) -> Arc<Self> {
        Arc::new(Self {
            http,
            rules,
            routes: rules
                .methods()
                .map(|(path, methods)| (path, metrics::Route::new(path, methods)))
                .collect(),
            unrouted: metrics::Route::new("none", []),
            unlogged: AtomicU64::new(0),
            request_numbers: AtomicU64::new(0),
            request_keys: RandomState::new(),
            reply_headers: reply_headers(),
        })
    }
}

/// The middleware around every route.
pub(crate) async fn observe(
    State(observer): State<Arc<RequestObserver>>,
    mut request: Request,
    next: Next,
) -> Response {
    let mut observed = Observed::new(&observer, &request);
    let http = &observer.http;
    let admitted = head::check(http, observed.route, &request)
        .and_then(|()| access::check(http, observer.rules, observed.route, &mut request))
        .and_then(|()| observed.take_place(&mut request));
    observed.token = token_of(&request);
    let (head, body) = request.into_parts();
    let expects_continue = head.headers.contains_key(EXPECT);
    let (body, rest) = lingering(body, observed.place.clone());
    let request = Request::from_parts(head, body);
    let mut response = match admitted {
        Ok(()) => {
            let answer = answer(&observer, observed.route, request, next);
            let answer = AssertUnwindSafe(answer).catch_unwind().await;
            let answer = answer.unwrap_or_else(|_| Err(Problem::internal("a handler panicked")));
            answer.unwrap_or_else(Problem::into_response)
        }
        Err(problem) => {
            drop(request);
            problem.into_response()
        }
    };
    // Nobody waits a second time for a body that was too slow, as that of a batch may have been.
    let timed_out = response.status() == StatusCode::REQUEST_TIMEOUT;
    if timed_out
        || response.headers().contains_key(CONNECTION)
        || !rest.discard(expects_continue).await
    {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    observed.finish(response)
}

/// Answers a request that was let in: here, or by the service that decides for this one.
async fn answer(
    observer: &RequestObserver,
    route: Option<&str>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let RequestObserver { http, rules, .. } = observer;
    let asked = if request.uri().query().is_some() && rules.reads(request.method(), route) {
        Freshness::of(&request)?
    } else {
        Freshness::default()
    };
    if !matches!(http.role, Role::Alone) {
        let writes = rules.writes(request.method(), route)
            && !jobs::is_of_search(http, route, request.uri());
        if writes || asked.is_fresh() {
            match http.decider() {
                Decider::Here => {}
                Decider::There(forwarder, to) => {
                    freshness::tell_change(http, request.headers_mut());
                    let limits = ForwardLimits {
                        // The reply to a batch takes as long as the batch.
                        reply: http.write_timeout().filter(|_| !is_of_many(route)),
                        moved: Box::pin(http.is_led_by_another(to.clone())),
                    };
                    let mut response = forwarder.forward(request, &to, writes, limits).await?;
                    freshness::catch_up(http, &mut response).await;
                    return Ok(response);
                }
                Decider::Nobody(problem) => return Err(problem),
            }
        }
    }
    asked.wait(http, &mut request).await?;
    let client = client_of(request.extensions());
    let (mut head, body) = request.into_parts();
    let tells_change =
        freshness::comes_from_copy(http, &head.headers) && rules.writes(&head.method, route);
    let body = coding::decoded(&http.bodies, &client, &mut head.headers, body);
    let mut response = next.run(Request::from_parts(head, body)).await;
    if tells_change {
        freshness::tell_change(http, response.headers_mut());
    }
    Ok(response)
}

/// The name of the token of a request.
fn token_of(request: &Request) -> Option<Arc<str>> {
    match request.extensions().get() {
        Some(Client::Token(name)) => Some(Arc::clone(name)),
        Some(Client::Address(_)) | None => None,
    }
}

/// Whether the requests of a route write many documents each.
fn is_of_many(route: Option<&str>) -> bool {
    route.is_some_and(|route| route.ends_with("/batch"))
}

/// Whether a path is a health probe or the metrics, which are answered however busy the service is.
pub(crate) fn is_probe(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz" | "/readyz/reads" | "/readyz/writes" | "/metrics")
}

/// One request, from its head to the end of its reply; the log line is written on drop.
struct Observed {
    observer: Arc<RequestObserver>,
    started: Instant,
    method: Method,
    route: Option<&'static str>,
    request_id: HeaderValue,
    token: Option<Arc<str>>,
    status: StatusCode,
    failure: Option<Failure>,
    place: Option<Arc<RequestPlace>>,
}

impl Observed {
    fn new(observer: &Arc<RequestObserver>, request: &Request) -> Self {
        let matched = request.extensions().get::<MatchedPath>();
        let route = matched.and_then(|path| observer.routes.get_key_value(path.as_str()));
        Self {
            observer: Arc::clone(observer),
            started: Instant::now(),
            method: request.method().clone(),
            route: route.map(|(name, _)| *name),
            request_id: request_id(observer, request),
            token: None,
            // The status in the log if the client leaves before the reply.
            status: StatusCode::REQUEST_TIMEOUT,
            failure: None,
            place: None,
        }
    }

    /// Takes the place of a request that was let in.
    fn take_place(&mut self, request: &mut Request) -> Result<(), Problem> {
        if self.route.is_some_and(is_probe) {
            return Ok(());
        }
        let client = client_of(request.extensions());
        let place = RequestPlace::take(&self.observer.http.in_flight, &client)?;
        self.place = Some(Arc::clone(&place));
        request.extensions_mut().insert(place);
        Ok(())
    }

    /// Completes the reply; a streamed one is over when its last byte is sent.
    fn finish(mut self, mut response: Response) -> Response {
        self.status = response.status();
        self.failure = response.extensions_mut().remove::<Failure>();
        let mut headers = self.observer.reply_headers.clone();
        headers.insert(REQUEST_ID, self.request_id.clone());
        headers.extend(std::mem::take(response.headers_mut()));
        *response.headers_mut() = headers;
        if response.body().size_hint().exact().is_some() {
            return response;
        }
        response.map(|body| Body::new(Guarded::new(body, self)))
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        drop(self.place.take());
        let took = self.started.elapsed();
        let metrics = self.route.and_then(|route| self.observer.routes.get(route));
        let metrics = metrics.unwrap_or(&self.observer.unrouted);
        metrics.answered(self.method.as_str(), self.status.as_u16(), took);
        self.log(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }
}

impl Observed {
    /// Whether the log has a line of it.
    fn is_logged(&self) -> bool {
        let is_error = self.status.is_client_error() || self.status.is_server_error();
        is_error
            || match self.observer.http.options.access_log {
                AccessLog::All => true,
                AccessLog::Errors => false,
                AccessLog::OneIn(number) => self
                    .observer
                    .unlogged
                    .fetch_add(1, Ordering::Relaxed)
                    .is_multiple_of(number.get()),
            }
    }

    fn log(&self, duration_us: u64) {
        if !self.is_logged() {
            return;
        }
        let token = self.token.as_deref();
        let method = self.method.as_str();
        let route = self.route.unwrap_or("none");
        let status = self.status.as_u16();
        let request_id = self.request_id.to_str().unwrap_or_default();
        let code = self.failure.as_ref().map(|failure| failure.code);
        let cause = self.failure.as_ref().and_then(|failure| failure.cause.as_deref());
        // The level of an event is fixed where it is written.
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    method,
                    route,
                    status,
                    duration_us,
                    request_id,
                    token,
                    code,
                    cause,
                    "request"
                )
            };
        }
        // The client sees that its request was shed. A warning for each would add to the load.
        // Nor is one due for each probe: the engine logs why it is not ready, once.
        let is_told = code.is_some_and(is_shed) || PROBES.contains(&route);
        if cause.is_some() {
            line!(error);
        } else if self.failure.is_some() && self.status.is_server_error() && !is_told {
            line!(warn);
        } else {
            line!(info);
        }
    }
}

/// The headers of every reply for browsers and caches. A header that the reply has itself wins.
fn reply_headers() -> HeaderMap {
    [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (CROSS_ORIGIN_RESOURCE_POLICY, "same-origin"),
        // Only the console is anything that a browser should run, and it has a policy of its own.
        (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (CACHE_CONTROL, "no-store"),
    ]
    .map(|(name, value)| (name, HeaderValue::from_static(value)))
    .into_iter()
    .collect()
}

/// Probes ask every few seconds.
const PROBES: [&str; 2] = ["/readyz", "/readyz/writes"];

fn is_shed(code: &str) -> bool {
    code == Code::Overloaded.row().1
}

/// The request id that the client sent, if it is short and printable, else a new one.
fn request_id(observer: &RequestObserver, request: &Request) -> HeaderValue {
    let sane = |value: &&HeaderValue| {
        let bytes = value.as_bytes();
        (1..=REQUEST_ID_BYTES_MAX).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
    };
    if let Some(given) = request.headers().get(REQUEST_ID).filter(sane) {
        return given.clone();
    }
    let number = observer.request_numbers.fetch_add(1, Ordering::Relaxed);
    // A keyed hash, so that two ids do not tell how many requests there were between them.
    let id = observer.request_keys.hash_one(number);
    HeaderValue::from_bytes(&Hex(id).digits()).expect("hex digits are visible ASCII")
}
