//! Measures a release build as a client does: `make figures` runs it.
//!
//! Starts the server on a free port with a fresh data directory, pinned to one core where `taskset`
//! is there; then inserts ten million random fingerprints (packed, default durability, both cores),
//! restarts on one core, looks up a million of which half are planted at distance 0 to 3, checks
//! every answer, and compares single JSON queries with `GET /healthz` over keep-alive connections.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a measurement reads the clock and prints"
)]

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

const STORED: u64 = 10_000_000;
const QUERIES: u64 = 1_000_000;
const CONNECTIONS: usize = 16;
const EACH_RUN: Duration = Duration::from_secs(5);

fn main() -> Outcome<()> {
    let stored = std::env::args().nth(1).map_or(Ok(STORED), |count| count.parse())?;
    let data = tempfile::tempdir()?;
    let server = Server::start(data.path(), None)?;
    let body: Vec<u8> = (0..stored).flat_map(|i| random(i).to_le_bytes()).collect();
    let begun = Instant::now();
    server.post("/v1/insert/batch", &body)?;
    let took = begun.elapsed().as_secs_f64();
    println!("insert {stored} packed        {took:8.2} s   {:10.0} /s", stored as f64 / took);
    drop(body);
    let settled = server.settle()?;
    println!("settled memory               {:8.2} B a fingerprint", settled as f64 / stored as f64);
    println!("  stats {}", server.get("/v1/stats")?);
    server.post("/v1/snapshots", b"")?;
    server.stop()?;

    let begun = Instant::now();
    let server = Server::start(data.path(), Some(0))?;
    println!("restart                      {:8.2} s", begun.elapsed().as_secs_f64());
    let settled = server.settle()?;
    println!("memory after restart         {:8.2} B a fingerprint", settled as f64 / stored as f64);
    look_up(&server, stored)?;
    compare_with_health(&server)?;
    server.stop()
}

/// Half of the queries lie at distance 0 to 3 of a stored fingerprint, the others nowhere.
fn look_up(server: &Server, stored: u64) -> Outcome<()> {
    let mut expected = Vec::new();
    let mut body = Vec::new();
    for i in 0..QUERIES {
        let draw = random(i ^ (0xabcd << 40));
        let (query, nearest) = if i % 2 == 0 {
            let distance = (draw % 4) as u32;
            let mut flips = 0_u64;
            for n in 0.. {
                if flips.count_ones() == distance {
                    break;
                }
                flips |= 1 << (random(draw ^ n) % 64);
            }
            (random(draw % stored) ^ flips, distance as u8)
        } else {
            (draw, 255)
        };
        body.extend_from_slice(&query.to_le_bytes());
        expected.push(nearest);
    }
    for _ in 0..3 {
        let (begun, cpu) = (Instant::now(), server.cpu_seconds()?);
        let answers = server.post("/v1/query/batch", &body)?;
        let (took, cpu) = (begun.elapsed().as_secs_f64(), server.cpu_seconds()? - cpu);
        let wrong = answers.iter().zip(&expected).filter(|(got, wanted)| got != wanted).count();
        let rate = QUERIES as f64 / took;
        println!("query 1 M packed, one core   {took:8.2} s   {rate:10.0} /s   cpu {cpu:.2} s");
        if wrong > 0 || answers.len() != expected.len() {
            return Err(format!("{wrong} wrong answers of {}", answers.len()).into());
        }
    }
    println!("  none missed, none false of {QUERIES}");
    Ok(())
}

fn compare_with_health(server: &Server) -> Outcome<()> {
    let health = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n".to_vec();
    let body = r#"{"fingerprint":"5f3a000000000001"}"#;
    let query = format!(
        "POST /v1/query HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    for _ in 0..3 {
        let healths = server.rate(&health)?;
        let queries = server.rate(query.as_bytes())?;
        println!(
            "GET /healthz {:8.0} /s ({:.1} us cpu)   POST /v1/query {:8.0} /s ({:.1} us cpu)   {:.0} %",
            healths.0,
            healths.1,
            queries.0,
            queries.1,
            100.0 * queries.0 / healths.0
        );
    }
    Ok(())
}

struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(data: &std::path::Path, core: Option<u32>) -> Outcome<Self> {
        let binary = std::env::current_exe()?.with_file_name("../nearprint");
        let mut command = match core {
            Some(core) => {
                let mut command = Command::new("taskset");
                command.args(["-c", &core.to_string()]).arg(binary);
                command
            }
            None => Command::new(binary),
        };
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening on ").ok_or("not listening")?.to_owned();
        Ok(Self { child, address })
    }

    fn stop(mut self) -> Outcome<()> {
        Command::new("kill").arg(self.child.id().to_string()).status()?;
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("stopped with {status}").into()) }
    }

    fn post(&self, path: &str, body: &[u8]) -> Outcome<Vec<u8>> {
        let url = format!("http://{}{path}", self.address);
        let request = ureq::post(url).header("content-type", "application/octet-stream");
        let mut answer = Vec::new();
        request.send(body)?.body_mut().as_reader().read_to_end(&mut answer)?;
        Ok(answer)
    }

    fn get(&self, path: &str) -> Outcome<String> {
        Ok(ureq::get(format!("http://{}{path}", self.address))
            .call()?
            .body_mut()
            .read_to_string()?)
    }

    /// Waits until memory and segments no longer change; the resident bytes.
    fn settle(&self) -> Outcome<u64> {
        let (mut last, mut calm) = (String::new(), 0);
        loop {
            let stats = self.get("/v1/stats")?;
            let parts = stats.split("\"segments\"").nth(1).unwrap_or_default().to_owned();
            let segments = parts.split(']').next().unwrap_or_default().to_owned();
            calm = if segments == last { calm + 1 } else { 0 };
            if calm == 8 {
                return self.resident_bytes();
            }
            last = segments;
            std::thread::park_timeout(Duration::from_secs(1));
        }
    }

    fn resident_bytes(&self) -> Outcome<u64> {
        let mut status = String::new();
        std::fs::OpenOptions::new()
            .read(true)
            .open(format!("/proc/{}/status", self.child.id()))?
            .read_to_string(&mut status)?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
        let kib: u64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
        Ok(kib * 1024)
    }

    fn cpu_seconds(&self) -> Outcome<f64> {
        let mut stat = String::new();
        std::fs::OpenOptions::new()
            .read(true)
            .open(format!("/proc/{}/stat", self.child.id()))?
            .read_to_string(&mut stat)?;
        let fields: Vec<&str> = stat.rsplit(')').next().ok_or("stat")?.split_whitespace().collect();
        let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
        Ok(ticks / 100.0)
    }

    /// Requests a second over keep-alive connections, and the server's CPU microseconds for each.
    fn rate(&self, request: &[u8]) -> Outcome<(f64, f64)> {
        let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
        let (begun, cpu) = (Instant::now(), self.cpu_seconds()?);
        std::thread::scope(|scope| {
            for _ in 0..CONNECTIONS {
                scope.spawn(|| ask_until(&self.address, request, &stop, &count));
            }
            std::thread::park_timeout(EACH_RUN);
            stop.store(true, Ordering::Relaxed);
        });
        let count = count.load(Ordering::Relaxed) as f64;
        let cpu = self.cpu_seconds()? - cpu;
        Ok((count / begun.elapsed().as_secs_f64(), cpu / count * 1e6))
    }
}

fn ask_until(address: &str, request: &[u8], stop: &AtomicBool, count: &AtomicU64) {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_nodelay(true).expect("a socket");
    let mut buffer = [0; 4096];
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(request).expect("the connection is kept");
        let mut read = 0;
        loop {
            read += stream.read(&mut buffer[read..]).expect("the connection is kept");
            if whole(&buffer[..read]) {
                break;
            }
        }
        assert!(buffer.starts_with(b"HTTP/1.1 200"), "an answer");
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn whole(answer: &[u8]) -> bool {
    let Some(head) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return false };
    let text = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
    let length = text
        .split("content-length: ")
        .nth(1)
        .and_then(|rest| rest.split("\r\n").next()?.parse::<usize>().ok());
    length.is_some_and(|length| answer.len() >= head + 4 + length)
}

/// A random bijection of the numbers (`SplitMix64`).
fn random(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
