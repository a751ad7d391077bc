//! The destination of an import: a collection, or nothing.

use anyhow::{Result, anyhow, bail};
use nearprint_files::Entry;
use nearprint_service::{DryBatch, Operation, Refusal, RequestDefaults};
use nearprint_wire::answer::{Answer, ProblemReply};
use nearprint_wire::offer::{DuplicateAction, Offer};

use super::options::ImportOptions;
use crate::cli::collection::{BatchRequest, Collection, offer};

/// Stores documents in a collection.
pub(crate) struct Sink {
    destination: Destination,
    request: BatchRequest,
}

/// What the documents go to.
enum Destination {
    Collection(Collection),
    /// They are checked only.
    Nothing(Box<DryRun>),
}

/// Checks documents with the limits of a configuration.
struct DryRun {
    batch: DryBatch,
    line_bytes_max: usize,
}

impl DryRun {
    /// A document as a line of a batch would have it.
    fn offer<'e>(&self, entry: &'e Entry) -> Result<Offer<'e>, Refusal> {
        let max = self.line_bytes_max;
        if entry.to_json().len() <= max {
            return offer(entry);
        }
        Err(Refusal::line_too_large(max))
    }
}

impl Sink {
    pub(crate) fn new(
        collection: Collection,
        options: &ImportOptions,
        shows_previous: bool,
    ) -> Self {
        let request = BatchRequest { shows_previous, ..request(options) };
        Self { destination: Destination::Collection(collection), request }
    }

    /// A destination that refuses what a service with these defaults, and lines of at most so many
    /// bytes, would refuse, and stores nothing.
    ///
    /// # Errors
    /// An option that is wrong for every document.
    pub(crate) fn of_dry_run(
        defaults: RequestDefaults,
        line_bytes_max: usize,
        options: &ImportOptions,
    ) -> Result<Self> {
        let request = request(options);
        let read = request.read();
        let read = read.map_err(|fault| anyhow!("a service would take no documents: {fault}"))?;
        let batch = DryBatch::new(defaults, Operation::Insert, read);
        let run = DryRun { batch, line_bytes_max };
        Ok(Self { destination: Destination::Nothing(Box::new(run)), request })
    }

    fn collection(&self) -> Option<&Collection> {
        match &self.destination {
            Destination::Collection(collection) => Some(collection),
            Destination::Nothing(_) => None,
        }
    }

    /// The last change of the collection; `None` if it does not say, or the token may not ask.
    pub(crate) fn sequence(&self) -> Option<u64> {
        self.collection()?.sequence()
    }

    /// The route with its query parameters.
    pub(crate) fn path(&self) -> String {
        self.request.path()
    }

    /// The destination in messages.
    pub(crate) fn name(&self) -> &str {
        self.collection().map_or("nothing", Collection::name)
    }

    /// Sends some documents and returns as many answers.
    fn send(&self, documents: &[&Entry]) -> Result<Vec<Answer>> {
        match &self.destination {
            Destination::Collection(collection) => collection.batch(&self.request, documents),
            Destination::Nothing(run) => {
                Ok(run.batch.run(documents, |entry: &&Entry| run.offer(entry)))
            }
        }
    }

    /// The reply to a document, or why it was not stored; an error if the import cannot go on.
    fn settled(&self, mut reply: Answer) -> Result<Result<Answer, ProblemReply<'static>>> {
        match reply.error.take() {
            // The service has a problem, not the document, so the next one would fail as well.
            Some(error) if error.status >= 500 => bail!("{} stores no more: {error}", self.name()),
            Some(error) => Ok(Err(error)),
            None => Ok(Ok(reply)),
        }
    }

    /// Stores documents in this order; for each, the reply or why it failed. An error means that
    /// the import cannot go on.
    pub(crate) fn store(
        &self,
        documents: &[Entry],
    ) -> Result<Vec<Result<Answer, ProblemReply<'static>>>> {
        let sent: Vec<&Entry> = documents.iter().collect();
        self.send(&sent)?.into_iter().map(|answer| self.settled(answer)).collect()
    }
}

/// What is done with documents that are stored with these options.
fn request(options: &ImportOptions) -> BatchRequest {
    let check = options.check.then_some(options);
    let insert_duplicates =
        |options: &&ImportOptions| options.on_duplicate == DuplicateAction::Insert;
    let on_duplicate = check.filter(insert_duplicates).map(|_| "insert".to_owned());
    BatchRequest {
        operation: if options.check { Operation::CheckAndInsert } else { Operation::Insert },
        options: vec![
            ("limit", check.map(|check| check.limit.to_string())),
            ("distance", check.and_then(|check| Some(check.distance?.to_string()))),
            ("min_similarity", check.and_then(|check| Some(check.min_similarity?.to_string()))),
            ("min_numbers", check.and_then(|check| Some(check.min_numbers?.to_string()))),
            ("search", check.and_then(|check| Some(check.search?.name().to_owned()))),
            ("on_duplicate", on_duplicate),
            ("namespace", options.namespace.clone()),
            ("expires_in", options.expires_in.map(|expiry| expiry.to_string())),
            ("id_from", options.id_from.map(|source| source.name().to_owned())),
        ],
        shows_previous: false,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread::{self, JoinHandle};

    use nearprint_files::{Place, Raw};
    use nearprint_wire::answer::Outcome;
    use nearprint_wire::offer::{Content, ExpiresIn, IdSource};

    use super::*;
    use crate::cli::collection::{ClientArgs, RemoteService};
    use crate::cli::commands::files::SearchRule;

    const OPTIONS: ImportOptions = ImportOptions {
        namespace: None,
        expires_in: None,
        id_from: None,
        check: true,
        on_duplicate: DuplicateAction::Insert,
        distance: Some(2),
        min_similarity: None,
        min_numbers: None,
        search: None,
        limit: 1,
    };

    /// Answers one request after the other with these replies; returns the requests.
    fn service(replies: Vec<String>) -> (Sink, JoinHandle<Vec<Request>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let service = RemoteService::new(&address, &ClientArgs::default()).unwrap();
        let requests = thread::spawn(move || {
            let answer = |reply: &String| {
                let (mut stream, _) = listener.accept().unwrap();
                let request = read_request(&mut stream);
                stream.write_all(reply.as_bytes()).unwrap();
                request
            };
            replies.iter().map(answer).collect()
        });
        (Sink::new(Collection::Service(service.into()), &OPTIONS, false), requests)
    }

    /// The path and the body.
    type Request = (String, String);

    fn read_request(stream: &mut TcpStream) -> Request {
        let mut reader = BufReader::new(stream);
        let mut first = String::new();
        reader.read_line(&mut first).unwrap();
        let path = first.split(' ').nth(1).unwrap().to_owned();
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let line = line.to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            } else if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        (path, String::from_utf8(body).unwrap())
    }

    fn reply(head: &str, body: &str) -> String {
        let length = body.len();
        format!(
            "HTTP/1.1 {head}\r\ncontent-type: application/x-ndjson\r\ncontent-length: {length}\r\n\
             connection: close\r\n\r\n{body}"
        )
    }

    /// The answer to a document.
    fn line(outcome: &str) -> String {
        format!(
            "{{\"outcome\": \"{outcome}\", \"stored\": true, \"short\": false, \"fingerprint\": \
             \"00000000000000ff\", \"duplicate\": false, \"hits\": [], \"hit_count\": 0, \
             \"truncated\": false}}\n"
        )
    }

    fn path_of(options: &ImportOptions) -> String {
        request(options).path()
    }

    fn entries(count: u64) -> Vec<Entry> {
        (0..count)
            .map(|number| Entry {
                place: Place { path: std::path::Path::new("a.txt").into(), record: None },
                raw: Raw::None,
                id: Some(format!("id-{number}")),
                content: Content::Text(format!("text {number}").into()),
                passed: Vec::new(),
            })
            .collect()
    }

    #[test]
    fn a_busy_service_is_asked_again_and_only_for_what_it_left_out() {
        let refused = concat!(
            "{\"error\": {\"code\": \"overloaded\", \"status\": 503}}\n",
            "{\"error\": {\"code\": \"empty_document\", \"status\": 422}}\n",
        );
        let (sink, requests) = service(vec![
            reply("503 Busy\r\nretry-after: 0", "{}"),
            reply("200 OK", &(line("inserted") + refused)),
            reply("200 OK", &line("duplicate")),
        ]);

        let replies = sink.store(&entries(3)).unwrap();

        assert_eq!(replies[0].as_ref().unwrap().outcome, Some(Outcome::Inserted));
        assert_eq!(replies[1].as_ref().unwrap().outcome, Some(Outcome::Duplicate));
        assert_eq!(replies[2].as_ref().unwrap_err().to_string(), "empty_document");
        let requests = requests.join().unwrap();
        assert_eq!(requests[0], requests[1]);
        let (path, body) = &requests[2];
        assert_eq!(path, "/v1/check-and-insert/batch?limit=1&distance=2&on_duplicate=insert");
        assert_eq!(body, r#"{"id":"id-1","text":"text 1"}"#);
    }

    #[test]
    fn what_got_no_answer_is_sent_again_if_it_has_an_id() {
        let cut = reply("200 OK", &(line("inserted") + &line("replaced")));
        let cut = cut[..cut.len() - 9].to_owned();
        let (sink, requests) = service(vec![cut, reply("200 OK", &line("replaced"))]);
        let replies = sink.store(&entries(2)).unwrap();
        let outcomes: Vec<_> = replies.iter().map(|it| it.as_ref().unwrap().outcome).collect();
        assert_eq!(outcomes, [Some(Outcome::Inserted), Some(Outcome::Replaced)]);
        assert_eq!(requests.join().unwrap()[1].1, r#"{"id":"id-1","text":"text 1"}"#);

        let unnamed = Entry { id: None, ..entries(1).remove(0) };
        let (sink, _) = service(vec![String::new()]);
        let error = sink.store(&[unnamed]).unwrap_err().to_string();
        assert!(error.contains("was lost before it replied"), "{error}");
    }

    #[test]
    fn options_are_defaults_of_all_lines_and_a_line_may_say_more() {
        let options = ImportOptions {
            namespace: Some("crawl 7".to_owned()),
            expires_in: Some(ExpiresIn::Seconds(60)),
            id_from: Some(IdSource::TextHash),
            ..OPTIONS
        };
        assert_eq!(
            path_of(&ImportOptions { check: false, ..options.clone() }),
            "/v1/insert/batch?namespace=crawl%207&expires_in=60&id_from=text-hash"
        );
        assert!(
            path_of(&ImportOptions { search: Some(SearchRule::Exact), ..OPTIONS })
                .ends_with("&distance=2&search=exact&on_duplicate=insert")
        );
        assert!(
            path_of(&options).ends_with(
                "&on_duplicate=insert&namespace=crawl%207&expires_in=60&id_from=text-hash"
            )
        );

        let mut entry = entries(1).remove(0);
        entry.passed = vec![("metadata", r#"{"n": 1.0}"#.into()), ("namespace", "\"b\"".into())];
        assert_eq!(
            entry.to_json(),
            r#"{"id":"id-0","text":"text 0","metadata":{"n": 1.0},"namespace":"b"}"#
        );
    }

    #[test]
    fn an_import_ends_when_the_service_is_full_or_is_none() {
        let full = "{\"error\": {\"code\": \"disk_full\", \"status\": 507}}\n";
        let (sink, _) = service(vec![reply("200 OK", full)]);
        let error = sink.store(&entries(1)).unwrap_err().to_string();
        assert!(error.contains("disk_full"), "{error}");

        let (sink, _) = service(vec![reply("200 OK", "{}\n")]);
        let error = sink.store(&entries(2)).unwrap_err();
        assert!(format!("{error:#}").contains("missing field"), "{error:#}");
    }
}
