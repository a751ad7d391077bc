//! What the commands ask of a running service, over HTTP.

use std::io::{self, BufRead, BufReader, Read, Write};

use anyhow::{Result, anyhow};
use axum::http::Method;
use bytes::Bytes;
use nearprint_engine::SearchKind;
use nearprint_files::Entry;
use nearprint_service::Operation;
use nearprint_wire::answer::{Answer, JobReply, Outcome};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::attempts::{Attempts, FailedAttempt, FailureKind};
use super::exchange::{ANY, BYTES, JSON, NDJSON, RemoteService, ServiceRequest, read};
use super::{BatchRequest, GroupSearch, Which, item, path, replies, route, without_nulls};

/// The longest line of a reply that is read as it arrives.
const LINE_BYTES_MAX: usize = 16 << 20;
/// The buffer of a long stream.
const STREAM_BUFFER_BYTES: usize = 64 << 10;
/// The items of one page.
const PAGE: u64 = 1_000;

/// The reply to one document.
pub(crate) struct Replied {
    /// As it is.
    pub(crate) json: Box<RawValue>,
    pub(crate) answer: Answer,
    /// An attempt before may have been carried out without a reply.
    may_be_repeated: bool,
}

impl Replied {
    /// Whether the document was stored before it was sent, under the same id. After a lost reply,
    /// nobody knows whether it was this one.
    pub(crate) fn is_known(&self) -> bool {
        self.answer.outcome == Some(Outcome::AlreadyPresent) && !self.may_be_repeated
    }
}

impl RemoteService {
    /// An error unless it accepts requests.
    pub(crate) fn check_ready(&self) -> Result<()> {
        let health: Value = self.get_json("/readyz")?;
        let has_status = health["status"].is_string();
        if has_status { Ok(()) } else { Err(self.foreign("it has no status").into()) }
    }

    /// The last change; `None` if it does not say, or the token may not ask.
    pub(crate) fn sequence(&self) -> Option<u64> {
        let stats: Value = self.get_json("/v1/stats").ok()?;
        stats["sequence"].as_u64()
    }

    /// The documents of a selection as lines of JSON, as they arrive.
    pub(crate) fn documents(
        &self,
        which: Which<'_>,
        [metadata, sketch]: [bool; 2],
    ) -> Result<impl BufRead + use<>> {
        let include: Vec<&str> = [("metadata", metadata), ("sketch", sketch)]
            .into_iter()
            .filter_map(|(part, is_wanted)| is_wanted.then_some(part))
            .collect();
        self.get_lines(&path(
            "/v1/documents",
            &[
                ("namespace", which.namespace.map(str::to_owned)),
                ("all_namespaces", which.all_namespaces.then(|| "true".to_owned())),
                ("prefix", which.prefix.map(str::to_owned)),
                ("include", (!include.is_empty()).then(|| include.join(","))),
            ],
        ))
    }

    /// All documents with all that belongs to them, as of a moment when the service has this
    /// change.
    pub(crate) fn all_documents(&self, min_sequence: Option<u64>) -> Result<impl BufRead + use<>> {
        self.get_lines(&path(
            "/v1/documents",
            &[
                ("all_namespaces", Some("true".to_owned())),
                ("include", Some("metadata,sketch".to_owned())),
                ("min_sequence", min_sequence.map(|sequence| sequence.to_string())),
            ],
        ))
    }

    /// Begins to find groups.
    pub(crate) fn begin_groups(&self, search: &GroupSearch<'_>) -> Result<JobReply> {
        let options = &search.options;
        let request = without_nulls(json!({
            "distance": options.distance,
            "min_similarity": options.min_similarity,
            "min_numbers": options.min_numbers,
            "search": options.search.map(SearchKind::name),
            "namespace": search.namespace,
            "all_namespaces": search.all_namespaces.then_some(true),
            "min_size": search.min_size,
        }));
        self.post_json("/v1/groups", &request)
    }

    /// The job with this name.
    pub(crate) fn job(&self, name: &str) -> Result<JobReply> {
        self.get_json(&item("/v1/jobs", name))
    }

    /// Sends one document.
    pub(crate) fn document(
        &self,
        operation: Operation,
        document: &Map<String, Value>,
    ) -> Result<Replied> {
        let body = Bytes::from(serde_json::to_vec(document)?);
        let is_repeatable = !operation.writes() || document.contains_key("id");
        let request =
            ServiceRequest { is_repeatable, ..ServiceRequest::post(route(operation), JSON, &body) };
        let (json, may_be_repeated) =
            self.again(|attempts| Ok((self.whole(request, attempts)?, attempts.may_be_done)))?;
        let json: Box<RawValue> = self.parsed(&json)?;
        let answer = replies::answer(operation, json.get().as_bytes());
        let answer = answer.map_err(|why| self.foreign(why))?;
        Ok(Replied { json, answer, may_be_repeated })
    }

    /// Sends documents to the route of a batch, and returns an answer for each. Those that got no
    /// answer, or were refused for now, are sent again.
    pub(crate) fn batch(&self, batch: &BatchRequest, entries: &[&Entry]) -> Result<Vec<Answer>> {
        let mut answers: Vec<Option<Answer>> = entries.iter().map(|_| None).collect();
        self.again(|attempts| {
            let waiting: Vec<usize> =
                (0..entries.len()).filter(|&at| answers[at].is_none()).collect();
            let sent: Vec<&Entry> = waiting.iter().map(|&at| entries[at]).collect();
            let (given, mut failure) = self.batch_once(batch, &sent, attempts)?;
            for (at, answer) in waiting.into_iter().zip(given) {
                let busy = answer.error.as_ref().and_then(|problem| {
                    self.refused_for_now(problem, batch.is_repeatable(&[entries[at]]))
                });
                match busy {
                    Some(busy) => failure = Some(busy),
                    None => answers[at] = Some(answer),
                }
            }
            failure.map_or(Ok(()), Err)
        })?;
        Ok(answers.into_iter().flatten().collect())
    }

    /// The answers to the first of some documents, and why the others have none.
    fn batch_once(
        &self,
        batch: &BatchRequest,
        entries: &[&Entry],
        attempts: &Attempts,
    ) -> Result<(Vec<Answer>, Option<FailedAttempt>), FailedAttempt> {
        let lines: Vec<String> = entries.iter().map(|entry| entry.to_json()).collect();
        let (path, body) = (batch.path(), Bytes::from(lines.join("\n")));
        let is_repeatable = batch.is_repeatable(entries);
        let request =
            ServiceRequest { is_repeatable, ..ServiceRequest::post(&path, NDJSON, &body) };
        let (body, end) = read(self.expect(NDJSON, request, attempts)?);
        let broken = match end.map_err(|error| self.broken(request, error)) {
            Err(FailedAttempt { kind: FailureKind::Final, error }) => return Err(error.into()),
            end => end.err(),
        };
        let answers = replies::answers(batch.operation, &body, broken.is_none(), entries.len());
        let answers = answers.map_err(|why| self.foreign(why))?;
        let failure = (answers.len() < entries.len()).then(|| {
            // The service took no more of them, so they may be sent again in any case.
            let took_no_more = anyhow!("the reply broke off");
            broken.unwrap_or_else(|| self.lost(took_no_more))
        });
        Ok((answers, failure))
    }

    /// Gets a path whose reply is bytes, and copies them.
    pub(crate) fn copy(&self, path: &str, sink: &mut dyn Write) -> Result<u64> {
        let mut body = self.streamed(ServiceRequest::get(path, BYTES))?;
        Ok(io::copy(&mut body, sink)?)
    }

    /// Gets a path and reads the reply.
    pub(crate) fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.json(&Method::GET, path, None)
    }

    /// Deletes what a path names and reads the reply.
    pub(crate) fn delete_json<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.json(&Method::DELETE, path, None)
    }

    /// Posts a JSON object and reads the reply.
    pub(crate) fn post_json<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T> {
        self.json(&Method::POST, path, Some(body))
    }

    fn json<T: DeserializeOwned>(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T> {
        let body = body.map(|body| Bytes::from(body.to_string()));
        let media_type = if body.is_some() { JSON } else { ANY };
        let request =
            ServiceRequest { method, body: body.as_ref(), ..ServiceRequest::get(path, media_type) };
        self.parsed(&self.again(|attempts| self.whole(request, attempts))?)
    }

    fn parsed<T: DeserializeOwned>(&self, json: &[u8]) -> Result<T> {
        replies::object(json).map_err(|why| self.foreign(why).into())
    }

    /// The items of a listing, at most `limit`; `name` is their field in a page.
    pub(crate) fn items<T: DeserializeOwned>(
        &self,
        listing: &str,
        name: &str,
        limit: u64,
    ) -> Result<Vec<T>> {
        self.listing(listing, name, limit).map(|(items, _)| items)
    }

    /// The same, with the other fields of the first page.
    pub(crate) fn listing<T: DeserializeOwned>(
        &self,
        listing: &str,
        name: &str,
        limit: u64,
    ) -> Result<(Vec<T>, Value)> {
        let (mut items, mut after, mut last, mut first) = (Vec::new(), None, None, None);
        while (items.len() as u64) < limit {
            let count = PAGE.min(limit - items.len() as u64).to_string();
            let parameters = [("limit", Some(count)), ("after", after)];
            let mut page: Value = self.get_json(&path(listing, &parameters))?;
            let mut field = |name| page.get_mut(name).map(Value::take);
            let listed = serde_json::from_value(field(name).unwrap_or_default());
            let listed: Vec<T> = listed.map_err(|why| self.foreign(why))?;
            items.extend(listed);
            let next = field("next").ok_or_else(|| self.foreign("it does not say what is next"))?;
            let next = next.as_str().map(str::to_owned);
            if next.is_some() && next == last {
                return Err(self.foreign("its pages have no end").into());
            }
            (after, last) = (next.clone(), next);
            first.get_or_insert(page);
            if after.is_none() {
                break;
            }
        }
        Ok((items, first.unwrap_or_default()))
    }

    /// Gets a path as lines of JSON, which can be read as they arrive.
    fn get_lines(&self, path: &str) -> Result<impl BufRead + use<>> {
        let body = self.streamed(ServiceRequest::get(path, NDJSON))?;
        let body = BoundedLines { body, line_bytes: 0 };
        Ok(BufReader::with_capacity(STREAM_BUFFER_BYTES, body))
    }

    /// Gets a path once, without waiting for a busy service; its status.
    pub(crate) fn probe(&self, path: &str) -> Result<u16> {
        let (status, _) = self.client.ask(path).map_err(|error| self.unreachable(error))?;
        Ok(status)
    }

    /// Gets a path once, without waiting for a busy service, and reads the reply, which must be
    /// JSON.
    pub(crate) fn get_once(&self, path: &str) -> Result<Value> {
        let asked = self.client.ask(path);
        let (status, body) =
            asked.map_err(|error| anyhow!("no answer from {}: {error}", self.address()))?;
        let body: Value = replies::object(&body)?;
        if (200..300).contains(&status) {
            return Ok(body);
        }
        Err(anyhow!("{status}: {}", body["detail"].as_str().unwrap_or_default()))
    }
}

/// Lines of a bounded length.
struct BoundedLines<R> {
    body: R,
    /// How long the line is that has not ended.
    line_bytes: usize,
}

impl<R: Read> Read for BoundedLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.body.read(buffer)?;
        let after = buffer[..count].iter().rev().position(|&byte| byte == b'\n');
        self.line_bytes = after.unwrap_or(self.line_bytes.saturating_add(count));
        if self.line_bytes > LINE_BYTES_MAX {
            return Err(io::Error::other(format!("a line is longer than {LINE_BYTES_MAX} bytes")));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::collection::ClientArgs;

    #[test]
    fn lines_have_a_longest_one() {
        let read = |pieces: &[usize]| {
            let lines: Vec<u8> =
                pieces.iter().flat_map(|&n| [&b"x".repeat(n)[..], b"\n"].concat()).collect();
            let mut lines = BoundedLines { body: &lines[..], line_bytes: 0 };
            lines.read_to_end(&mut Vec::new()).map_err(|error| error.to_string())
        };
        let (most, half) = (LINE_BYTES_MAX, LINE_BYTES_MAX / 2);
        assert_eq!(read(&[half, half, half]), Ok(3 * half + 3));
        assert_eq!(read(&[1, most]), Ok(most + 3));
        let message = "a line is longer than 16777216 bytes";
        assert_eq!(read(&[1, 2 * most]), Err(message.to_owned()));
    }

    #[test]
    fn an_address_may_come_with_or_without_its_scheme() {
        for written in ["127.0.0.1:1", "http://127.0.0.1:1", "http://127.0.0.1:1/"] {
            let service = RemoteService::new(written, &ClientArgs::default()).unwrap();
            assert_eq!(service.address(), "http://127.0.0.1:1");
        }
    }
}
