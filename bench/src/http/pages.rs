//! What a page costs the service: the processor time of its threads for a real page, next to that
//! of the analysis alone.
//!
//! The service runs in this process. While clients send, only its threads and theirs work; those of
//! the clients have ended when the time is read, and a time on the cores is that of living threads.

use std::hint::black_box;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use hyper::Method;
use nearprint::cli::measure::numbers::{per_second, ratio};
use nearprint_text::analyse_text;
use serde_json::json;

use super::client::{Clients, Sent};
use super::target::Target;
use super::{INSERTED, JSON, PAGE_BYTES};
use crate::connection::{Request, post, request};
use crate::pages::edited;
use crate::process;
use crate::progress::Progress;
use crate::prose;
use crate::report::{Fact, Report, Row};

const TEXT: &str = "text/plain; charset=utf-8";
const NDJSON: &str = "application/x-ndjson";

/// Pages of one NDJSON batch.
const LINES: usize = 100;

/// Stored near-copies of a page that is checked against its family.
const FAMILY: u64 = 30;

/// One page in this many has a family.
const FAMILIES: usize = 16;

/// Pages sent before any is measured.
const WARM_UP: u64 = 1_000;
const WARM_UP_SEED: u64 = 1 << 40;

/// Pages to send, and where.
pub(super) struct RealPages<'a> {
    pub(super) target: &'a Target,
    pub(super) threads: usize,
    /// The number of stored fingerprints, for the report.
    pub(super) count: u64,
    pub(super) pages: &'a [String],
}

/// One way of sending a page.
struct Way<'a> {
    what: &'static str,
    method: Method,
    path: &'static str,
    content_type: &'static str,
    body: &'a (dyn Fn(&str) -> Bytes + Sync),
    /// What each reply contains.
    reply: &'static [u8],
}

impl RealPages<'_> {
    /// Sends each page once, a quarter of them to be stored in each way, the rest to be looked up.
    pub(super) fn run(&self, report: &mut Report) -> Result<()> {
        let json = |page: &str| Bytes::from(json!({ "text": page }).to_string());
        let raw = |page: &str| Bytes::from(page.to_owned());
        ensure!(self.pages.len() >= 4, "there are too few pages");
        // Each part has pages of all folders.
        let parts: [Vec<String>; 4] =
            std::array::from_fn(|part| self.pages.iter().skip(part).step_by(4).cloned().collect());
        let [as_json, as_text, as_lines, unknown] = &parts;
        let check = |what, content_type, body| Way {
            what,
            method: Method::POST,
            path: "/v1/check-and-insert",
            content_type,
            body,
            reply: INSERTED,
        };
        // What the first requests of a process cost once is not theirs.
        self.warm_up()?;
        self.single(report, as_json, &check("check-and-insert of a page, JSON", JSON, &json))?;
        self.single(report, as_text, &check("check-and-insert of a page, raw", TEXT, &raw))?;
        self.batches(report, as_lines, "check-and-insert of a page, NDJSON")?;
        let way = Way { path: "/v1/query", ..check("query with a page, JSON", JSON, &json) };
        self.single(report, unknown, &Way { reply: super::NO_HITS, ..way })?;
        let way = check("fingerprint of a page, JSON", JSON, &json);
        let reply = b"fingerprint";
        self.single(report, unknown, &Way { path: "/v1/fingerprint", reply, ..way })?;
        let way = check("GET /healthz with a page, unread", JSON, &json);
        let way = Way { method: Method::GET, path: "/healthz", reply: b"alive", ..way };
        self.single(report, unknown, &way)?;
        self.families(report, unknown)
    }

    /// Stores pages that are near to nothing.
    fn warm_up(&self) -> Result<()> {
        let _progress = Progress::during("warming up");
        let page = |number| prose::unlike(PAGE_BYTES, WARM_UP_SEED + number);
        let request = |number| {
            post("/v1/check-and-insert", JSON, json!({ "text": page(number) }).to_string())
        };
        self.clients(self.threads, WARM_UP).send(request, |_, _| true).map(drop)
    }

    /// Stores near-copies of some pages, then checks one more of each.
    fn families(&self, report: &mut Report, pages: &[String]) -> Result<()> {
        let pages: Vec<&String> = pages.iter().step_by(FAMILIES).collect();
        let copies = pages.iter().flat_map(|page| (0..FAMILY).map(|copy| edited(page, copy)));
        let copies: Vec<String> = copies.collect();
        for request in lines(&copies, "/v1/insert/batch") {
            self.target.connect()?.send(request).context("a family is not stored")?;
        }
        let more: Vec<String> =
            pages.iter().flat_map(|page| (1..=4).map(|copy| edited(page, FAMILY + copy))).collect();
        let json = |page: &str| Bytes::from(json!({ "text": page }).to_string());
        let way = Way {
            what: "check-and-insert of a page of a family of 30",
            method: Method::POST,
            path: "/v1/check-and-insert",
            content_type: JSON,
            body: &json,
            reply: br#""outcome":"duplicate""#,
        };
        self.single(report, &more, &way)
    }

    fn clients(&self, threads: usize, requests: u64) -> Clients<'_> {
        Clients { target: self.target, threads, seconds: u64::MAX, requests }
    }

    /// Sends each page in a request of its own.
    fn single(&self, report: &mut Report, pages: &[String], way: &Way<'_>) -> Result<()> {
        let _progress = Progress::during(way.what);
        let bodies: Vec<Bytes> = pages.iter().map(|page| (way.body)(page)).collect();
        let send = |number: u64| {
            let body = bodies[number as usize].clone();
            request(way.method.clone(), way.path, way.content_type, body)
        };
        let is_right = |_, reply: &[u8]| contains(reply, way.reply);
        let clients = self.clients(self.threads, pages.len() as u64);
        let (sent, cpu_ns) = with_cpu(|| clients.send(send, is_right))?;
        // A page of another part may be near by chance, and a near-copy too far away.
        ensure!(
            sent.wrong * 20 <= sent.times.count(),
            "{}: {} replies are wrong",
            way.what,
            sent.wrong
        );
        self.report(report, (way.what, pages), (&sent, "a page"), cpu_ns);
        Ok(())
    }

    /// Sends the pages in batches, one after the other.
    fn batches(&self, report: &mut Report, pages: &[String], what: &'static str) -> Result<()> {
        let _progress = Progress::during(what);
        let requests = lines(pages, "/v1/check-and-insert/batch");
        let clients = self.clients(1, requests.len() as u64);
        let request = |number| requests[number as usize].clone();
        let (sent, cpu_ns) =
            with_cpu(|| clients.send(request, |_, reply| contains(reply, INSERTED)))?;
        ensure!(sent.wrong == 0, "{what}: nothing was stored");
        self.report(report, (what, pages), (&sent, "a batch"), cpu_ns);
        Ok(())
    }

    /// Reports a row, and its processor time as a multiple of that of the analysis.
    fn report(
        &self,
        report: &mut Report,
        (what, pages): (&str, &[String]),
        (sent, times_of): (&Sent, &'static str),
        cpu_ns: Option<u64>,
    ) {
        let count = pages.len() as u64;
        let cpu_ns = cpu_ns.map(|cpu_ns| ratio(cpu_ns, count));
        let row = Row::new(what, self.count).rate(per_second(count, sent.ns), "pages");
        report.results.push(Row { cpu_ns, ..row.times(&sent.times, times_of) });
        let Some((cpu_ns, analysis_ns)) = cpu_ns.zip(analysis_ns(pages)) else { return };
        let mut fact = |what: String, value, unit| {
            report.facts.push(Fact::number(what, self.count, value, unit));
        };
        fact(format!("{what}: its analysis alone"), analysis_ns / 1e3, "us");
        fact(format!("{what}: processor time to its analysis"), cpu_ns / analysis_ns, "times");
    }
}

/// Batches of NDJSON lines.
fn lines(pages: &[String], path: &str) -> Vec<Request> {
    let line = |page: &String| format!("{}\n", json!({ "text": page }));
    let body = |pages: &[String]| pages.iter().map(line).collect::<String>();
    pages.chunks(LINES).map(|pages| post(path, NDJSON, body(pages))).collect()
}

fn contains(reply: &[u8], part: &[u8]) -> bool {
    reply.windows(part.len()).any(|window| window == part)
}

/// What the threads that live on have worked meanwhile.
fn with_cpu<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, Option<u64>)> {
    let before = process::cpu_ns();
    let done = work()?;
    let after = process::cpu_ns();
    Ok((done, before.zip(after).map(|(before, after)| after.saturating_sub(before))))
}

/// The processor time of fingerprint and sketch of a page on this thread, the quicker of two
/// passes.
fn analysis_ns(pages: &[String]) -> Option<f64> {
    let pass = || {
        let before = process::thread_cpu_ns()?;
        for page in pages {
            black_box(analyse_text(page)).ok()?;
        }
        Some(process::thread_cpu_ns()?.saturating_sub(before))
    };
    let passes = [pass(), pass()].into_iter().flatten();
    passes.min().map(|ns| ratio(ns, pages.len() as u64))
}
