//! Slow clients, too many requests, and what durability costs.
//!
//! The test is small and checks what is true at any speed. `make siege` runs the same at full size
//! against a release build, prints its figures, and ends with an error if a check fails.

#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::batches::{self, Crowd};
use super::client::{Connection, check_and_insert, mixed, post};
use super::server::Server;
use super::unread;
use crate::support::wait::now;

/// How a client is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Silent,
    SlowHead,
    SlowBody,
    NeverReads,
}

const SHAPES: [Shape; 4] = [Shape::Silent, Shape::SlowHead, Shape::SlowBody, Shape::NeverReads];

struct Size {
    slow: usize,
    good: usize,
    /// How long the normal clients run alone.
    calm: Duration,
}

/// The results of slow clients.
struct Besieged {
    /// By shape: the longest time that one stayed open.
    closed_after: Vec<(Shape, Duration)>,
    calm: Latencies,
    meanwhile: Latencies,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_clients_are_closed_in_time_while_others_are_served() {
    let server =
        Server::with(&[("SERVER__HEADER_TIMEOUT_MS", "1000"), ("SERVER__BODY_TIMEOUT_MS", "2000")]);
    let size = Size { slow: 25, good: 10, calm: Duration::from_millis(500) };
    let seen = besiege(&server, &size).await;
    for (shape, longest) in seen.closed_after {
        // A busy machine may be late; this finds a server that does not close at all.
        assert!(longest < Duration::from_secs(15), "{shape:?}: {longest:?}");
    }
    assert!(!seen.meanwhile.0.is_empty(), "the good ones were answered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes at full size: make siege"]
async fn siege() {
    let mut table = Table::default();
    slow_clients(&mut table).await;
    batches(&mut table).await;
    overload(&mut table).await;
    durability(&mut table).await;
    println!("{}", table.text);
    assert!(table.passed, "a check failed");
}

async fn slow_clients(table: &mut Table) {
    let server = Server::with(&[("LOG__LEVEL", "warn")]);
    let size = Size { slow: 200, good: 50, calm: Duration::from_secs(10) };
    let mut seen = besiege(&server, &size).await;
    for (shape, longest) in &seen.closed_after {
        let max = if matches!(shape, Shape::Silent | Shape::SlowHead) { 10.5 } else { 31.0 };
        let seconds = longest.as_secs_f64();
        table.row(
            &format!("200 x {shape:?}: the last is closed after, s"),
            seconds,
            seconds <= max,
        );
    }
    let (calm, besieged) = (seen.calm.p99_ms(), seen.meanwhile.p99_ms());
    table.row("p99 of 50 good clients before, ms", calm, true);
    table.row("p99 of 50 good clients meanwhile, ms", besieged, besieged <= 2.0 * calm);
}

/// Batches of clients of all sorts at one time, whose replies are checked.
async fn batches(table: &mut Table) {
    let server = batches::start(&[]);
    let good = Good::start(&server, 50);
    let time = Duration::from_secs(30);
    let crowd =
        Crowd { fast: 8, slow: 60, unread: 5, unread_lines: unread::LINES, leavers: 8, time };
    let seen = batches::besiege(&server, &crowd).await;
    let p99 = good.stop().await.p99_ms();
    let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
    let [before, meanwhile] = seen.rates;
    table.row("batches: documents a second, 8 fast clients", before, true);
    // All share one core, and the replies of the others are a hundred times as long.
    table.row("the same among 153 slow, unread and leaving ones", meanwhile, meanwhile > 0.0);
    table.row("p99 of 50 good clients in both, ms", p99, true);
    table.row("replies to documents checked", seen.checked as f64, seen.checked > 0);
    table.row("of these wrong, missing or out of order", seen.wrong as f64, seen.wrong == 0);
    let closed = seen.closed_after.as_secs_f64();
    table.row("5 x 5 that never read: the last is closed after, s", closed, closed <= 150.0);
    table.row("bodies waiting at most, MiB (64)", mib(seen.bodies_bytes), seen.is_bounded());
    table.row("replies waiting at most, MiB (32)", mib(seen.replies_bytes), seen.is_bounded());
    table.row(
        "memory grown apart from the index, MiB (224 and the index)",
        mib(seen.grown_bytes),
        seen.is_bounded(),
    );
    table.row("the index at its largest, MiB", mib(seen.index_bytes), true);
    let given_back = seen.given_back_after.as_secs_f64();
    table.row("all given back after the last has left, s", given_back, given_back <= 5.0);
}

/// Slow clients of all shapes at one time, among normal ones.
async fn besiege(server: &Server, size: &Size) -> Besieged {
    let calm = {
        let good = Good::start(server, size.good);
        sleep(size.calm).await;
        good.stop().await
    };
    let good = Good::start(server, size.good);
    let mut slow = JoinSet::new();
    for shape in SHAPES {
        for _ in 0..size.slow {
            let address = server.address.clone();
            slow.spawn(async move { (shape, closed_after(&address, shape).await) });
        }
    }
    let mut longest = SHAPES.map(|shape| (shape, Duration::ZERO));
    while let Some(closed) = slow.join_next().await {
        let (shape, took) = closed.unwrap();
        let of_shape = longest.iter_mut().find(|(found, _)| *found == shape).unwrap();
        of_shape.1 = of_shape.1.max(took);
    }
    Besieged { closed_after: longest.into(), calm, meanwhile: good.stop().await }
}

/// How long a slow client stays connected.
async fn closed_after(address: &str, shape: Shape) -> Duration {
    let socket = TcpSocket::new_v4().unwrap();
    // Small buffers, because filling them takes the cores.
    socket.set_send_buffer_size(64 << 10).unwrap();
    let mut stream = socket.connect(address.parse().unwrap()).await.unwrap();
    let begun = now();
    let start: &[u8] = match shape {
        Shape::Silent | Shape::NeverReads => b"",
        Shape::SlowHead => b"GET /healthz HTTP/1.1\r\nhost: ",
        Shape::SlowBody => {
            b"POST /v1/insert HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
              content-length: 1000\r\n\r\n"
        }
    };
    stream.write_all(start).await.unwrap();
    let mut ticks = interval(Duration::from_millis(200));
    let closed = async {
        if shape == Shape::NeverReads {
            // Requests until the socket takes no more, then an error when the server closes. Many
            // at a time: writing them one by one would keep the cores busy.
            let requests = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(1_000);
            while stream.write_all(&requests).await.is_ok() {}
            return;
        }
        let (mut read, mut write) = stream.split();
        let drip = async {
            if shape == Shape::Silent {
                return std::future::pending().await;
            }
            loop {
                ticks.tick().await;
                if write.write_all(b" ").await.is_err() {
                    // Reading notices the end.
                    return std::future::pending().await;
                }
            }
        };
        let end = async {
            // The slow body gets 408 before the connection closes.
            let mut reply = [0; 1_024];
            while let Ok(1..) = read.read(&mut reply).await {}
        };
        tokio::select! { () = drip => {}, () = end => {} }
    };
    timeout(Duration::from_mins(2), closed).await.expect("it was never closed");
    begun.elapsed()
}

/// Clients that send a look-up a hundred times a second each, and read their replies.
struct Good {
    stop: Arc<AtomicBool>,
    clients: JoinSet<Vec<Duration>>,
}

impl Good {
    fn start(server: &Server, count: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = JoinSet::new();
        for client in 0..count as u64 {
            let (address, stop) = (server.address.clone(), Arc::clone(&stop));
            clients.spawn(async move {
                let mut connection = Connection::open(&address).await.unwrap();
                let mut ticks = interval(Duration::from_millis(10));
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                let mut latencies = Vec::new();
                for number in 0.. {
                    ticks.tick().await;
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let body = format!("{{\"fingerprint\":{}}}", mixed(client << 32 | number));
                    let request = post("/v1/query", "application/json", body.as_bytes());
                    let begun = now();
                    let reply = connection.ask(&request).await.unwrap();
                    assert_eq!(reply.status, 200, "a good client is served");
                    latencies.push(begun.elapsed());
                }
                latencies
            });
        }
        Self { stop, clients }
    }

    async fn stop(self) -> Latencies {
        self.stop.store(true, Ordering::Relaxed);
        Latencies(self.clients.join_all().await.concat())
    }
}

struct Latencies(Vec<Duration>);

impl Latencies {
    fn p99_ms(&mut self) -> f64 {
        self.0.sort_unstable();
        self.0[self.0.len() * 99 / 100].as_secs_f64() * 1e3
    }
}

/// Pages of this many paragraphs, about 40 KB, for `extract=main`: the most work for each byte, so
/// that the service is overloaded and not the clients.
const PARAGRAPHS: u64 = 80;

fn page(seed: u64) -> Vec<u8> {
    let mut page = "<html><body><ul><li><a href=/>Home</a></ul><article>".to_owned();
    for paragraph in 0..PARAGRAPHS {
        page.push_str("<p>");
        for word in 0..70 {
            let letters = mixed(seed << 32 | paragraph << 16 | word) & 0xff_ffff;
            write!(page, "{letters:06x}{}", if word % 10 == 9 { ", " } else { " " }).unwrap();
        }
        page.push_str("</p>");
    }
    page.push_str("</article></body></html>");
    post("/v1/query?extract=main", "text/html", page.as_bytes())
}

/// The replies of an overloaded service.
#[derive(Default)]
struct Answered {
    ok: AtomicU64,
    shed: AtomicU64,
    wrong: AtomicU64,
}

impl Answered {
    fn count(&self, reply: &std::io::Result<super::client::Reply>) {
        let counter = match reply {
            Ok(reply) if reply.status == 200 => &self.ok,
            Ok(reply) if [429, 503].contains(&reply.status) && reply.retry_after => &self.shed,
            Ok(_) | Err(_) => &self.wrong,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

#[expect(clippy::too_many_lines, reason = "one experiment, from its begin to its figures")]
async fn overload(table: &mut Table) {
    let server = Server::with(&[("LOG__LEVEL", "warn")]);
    let pages: Arc<Vec<Vec<u8>>> = Arc::new((0..64).map(page).collect());
    let peak = closed_loop(&server, &pages, 32, Duration::from_secs(10)).await;
    table.row("peak: articles of 40 KB a second, 32 clients that wait", peak, true);

    let answered = Arc::new(Answered::default());
    let idle: Arc<Mutex<Vec<Connection>>> = Arc::default();
    let open = Arc::new(AtomicU64::new(0));
    let mut unsent = 0_u64;
    let (mut sent, mut memory) = (0_u64, Vec::new());
    let begun = now();
    let mut ticks = interval(Duration::from_millis(5));
    while begun.elapsed() < Duration::from_mins(1) {
        ticks.tick().await;
        let elapsed = begun.elapsed().as_secs_f64();
        while (sent as f64) < 4.0 * peak * elapsed {
            sent += 1;
            let taken = idle.lock().await.pop();
            if taken.is_none() && open.load(Ordering::Relaxed) >= 3_500 {
                // All connections of the clients are busy, so this request is not even sent.
                unsent += 1;
                continue;
            }
            let (answered, idle, open) =
                (Arc::clone(&answered), Arc::clone(&idle), Arc::clone(&open));
            let (pages, address, number) = (Arc::clone(&pages), server.address.clone(), sent);
            open.fetch_add(u64::from(taken.is_none()), Ordering::Relaxed);
            drop(tokio::spawn(async move {
                let opened = match taken {
                    Some(connection) => Ok(connection),
                    None => Connection::open(&address).await,
                };
                let reply = match opened {
                    Ok(mut connection) => {
                        let reply = connection.ask(&pages[number as usize % pages.len()]).await;
                        if reply.as_ref().is_ok_and(|reply| !reply.closes) {
                            idle.lock().await.push(connection);
                        } else {
                            open.fetch_sub(1, Ordering::Relaxed);
                        }
                        reply
                    }
                    Err(error) => Err(error),
                };
                answered.count(&reply);
            }));
        }
        if memory.len() < begun.elapsed().as_secs() as usize {
            memory.push(server.memory_bytes());
        }
    }
    let goodput = answered.ok.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
    table.row("offered a second meanwhile (4 x)", sent as f64 / 60.0, true);
    table.row("never sent: no connection was free", unsent as f64 / 60.0, unsent == 0);
    table.row("goodput meanwhile", goodput, goodput >= 0.8 * peak);
    let shed = count(&answered.shed) / 60.0;
    table.row("shed a second, with Retry-After", shed, shed > 0.0);
    table.row("neither answered nor shed", count(&answered.wrong), count(&answered.wrong) == 0.0);
    let (early, late) = (memory[9], memory[memory.len() - 1]);
    let grown = late as f64 - early as f64;
    table.row("memory after 10 s, MiB", early as f64 / 1_048_576.0, true);
    table.row("grown after 60 s by, MiB", grown / 1_048_576.0, grown <= 64.0 * 1_048_576.0);
    let begun = now();
    let mut connection = Connection::open(&server.address).await.unwrap();
    loop {
        let one = now();
        let reply = connection.ask(&pages[0]).await;
        if reply.is_ok_and(|reply| reply.status == 200) && one.elapsed() < Duration::from_millis(20)
        {
            break;
        }
        assert!(begun.elapsed() < Duration::from_mins(1), "it does not recover");
        connection = Connection::open(&server.address).await.unwrap();
    }
    let normal = begun.elapsed().as_secs_f64();
    table.row("back to normal (a page in 20 ms) after, s", normal, normal <= 5.0);
}

/// Requests a second of `clients` that each wait for their replies.
async fn closed_loop(
    server: &Server,
    requests: &Arc<Vec<Vec<u8>>>,
    clients: usize,
    time: Duration,
) -> f64 {
    let mut running = JoinSet::new();
    let begun = now();
    for client in 0..clients {
        let (address, requests) = (server.address.clone(), Arc::clone(requests));
        running.spawn(async move {
            let mut connection = Connection::open(&address).await.unwrap();
            let mut done = 0_u64;
            for request in requests.iter().cycle().skip(client) {
                if begun.elapsed() >= time {
                    break;
                }
                assert_eq!(connection.ask(request).await.unwrap().status, 200);
                done += 1;
            }
            done
        });
    }
    let done: u64 = running.join_all().await.into_iter().sum();
    done as f64 / begun.elapsed().as_secs_f64()
}

const ROUNDS: u64 = 4;

/// What one has merged when the other is measured.
const SETTLING: Duration = Duration::from_secs(3);

/// The cost of `always` relative to `none`, measured alternately on one machine.
async fn durability(table: &mut Table) {
    let policies = ["none", "always"];
    let servers = policies
        .map(|policy| Server::with(&[("DATA__DURABILITY", policy), ("LOG__LEVEL", "warn")]));
    let (mut singles, mut packed) = ([0.0_f64; 2], [0.0_f64; 2]);
    for round in 0..ROUNDS {
        // Each comes first as often as second, when the other may still be merging.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for at in order {
            singles[at] += inserts(&servers[at], round).await / ROUNDS as f64;
        }
        for at in order {
            sleep(SETTLING).await;
            packed[at] += packed_inserts(&servers[at], round).await / ROUNDS as f64;
        }
    }
    table.row("single check-and-inserts a second, 64 clients, none", singles[0], true);
    table.row("the same, always", singles[1], singles[1] >= 0.5 * singles[0]);
    table.row("packed check-and-inserts a second, none", packed[0], true);
    table.row("the same, always", packed[1], packed[1] >= 0.9 * packed[0]);
}

async fn inserts(server: &Server, round: u64) -> f64 {
    let mut running = JoinSet::new();
    let begun = now();
    for client in 0..64_u64 {
        let address = server.address.clone();
        running.spawn(async move {
            let mut connection = Connection::open(&address).await.unwrap();
            let mut done = 0_u64;
            while begun.elapsed() < Duration::from_secs(5) {
                let fingerprint = mixed(round << 48 | client << 32 | done);
                let reply = connection.ask(&check_and_insert(fingerprint)).await.unwrap();
                assert_eq!(reply.status, 200);
                done += 1;
            }
            done
        });
    }
    let done: u64 = running.join_all().await.into_iter().sum();
    done as f64 / begun.elapsed().as_secs_f64()
}

async fn packed_inserts(server: &Server, round: u64) -> f64 {
    const EACH: u64 = 1 << 19;
    let mut connection = Connection::open(&server.address).await.unwrap();
    let (mut done, mut took) = (0_u64, Duration::ZERO);
    while took < Duration::from_secs(5) {
        let first = 1 << 60 | round << 48 | done;
        let words = (first..first + EACH).flat_map(|number| mixed(number).to_le_bytes());
        let body: Vec<u8> = words.collect();
        let request = post("/v1/check-and-insert/batch", "application/octet-stream", &body);
        let begun = now();
        assert_eq!(connection.ask(&request).await.unwrap().status, 200);
        took += begun.elapsed();
        done += EACH;
    }
    done as f64 / took.as_secs_f64()
}

/// The figures, and whether all checks passed.
struct Table {
    text: String,
    passed: bool,
}

impl Default for Table {
    fn default() -> Self {
        Self { text: String::new(), passed: true }
    }
}

impl Table {
    fn row(&mut self, what: &str, figure: f64, passed: bool) {
        let mark = if passed { "" } else { "   FAILED" };
        writeln!(self.text, "{what:56} {figure:12.1}{mark}").unwrap();
        self.passed &= passed;
    }
}
