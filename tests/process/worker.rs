//! A client that writes what it did into a ledger, and the ledger's comparison with a server.
//!
//! Each worker has ids of its own, so what is stored under an id is known from this worker's
//! answers alone: exactly what the last answered request left, or what one of the requests left
//! that were sent and never answered. Near-duplicates are shared by all workers, so verdicts are
//! made against each other's documents.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::corpus::Document;
use crate::random::Random;
use crate::support::server::{Client, Reply};

/// Ids are used again and again, so that documents are replaced and removed.
const IDS: usize = 40;
/// Documents of one NDJSON request.
const LINES: usize = 16;
/// Look-ups of each worker that are compared with all documents.
const QUERIES: usize = 10;

/// What may be stored under an id: the number of a document of the corpus, or nothing.
type Stored = Option<usize>;

/// One client with its ledger.
#[derive(Clone)]
pub(crate) struct Worker {
    name: usize,
    random: Random,
    corpus: Arc<Vec<Document>>,
    ledger: BTreeMap<String, Page>,
    sequence_max: u64,
    answered: u64,
    /// The same of all workers of a test, to be read while they run.
    answers: Arc<AtomicU64>,
    /// Set when the server's disk loses power. Replies that are read after that do not count.
    power_is_off: Arc<AtomicBool>,
    /// What was entered into the ledger, and when, while somebody wants to know.
    journal: Option<Vec<(u64, String, Entry)>>,
}

/// What a client learns of an id.
#[derive(Clone)]
enum Entry {
    /// A request was sent, which may leave any of these.
    Sent(Vec<Stored>),
    /// A reply was read.
    Answered { stored: Stored, verdict: Option<Verdict>, sequence: u64 },
    /// After a restart, this was there.
    Found(Stored),
}

/// What is known of one id.
#[derive(Clone)]
struct Page {
    /// Exactly one of these is stored; more than one only after unanswered requests.
    possible: Vec<Stored>,
    /// The last verdict of a check-and-insert, while nothing else was done to the id.
    verdict: Option<Verdict>,
}

#[derive(Clone)]
struct Verdict {
    document: usize,
    duplicate: bool,
    /// The ids that the answer named as near it.
    winners: Vec<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Write {
    Insert,
    CheckAndInsert,
}

impl Write {
    fn path(self) -> &'static str {
        match self {
            Self::Insert => "/v1/insert",
            Self::CheckAndInsert => "/v1/check-and-insert",
        }
    }
}

impl Worker {
    pub(crate) fn new(
        name: usize,
        seed: u64,
        corpus: Arc<Vec<Document>>,
        answers: Arc<AtomicU64>,
    ) -> Self {
        Self {
            name,
            random: Random(seed),
            corpus,
            ledger: BTreeMap::new(),
            sequence_max: 0,
            answered: 0,
            answers,
            power_is_off: Arc::default(),
            journal: None,
        }
    }

    /// The same client with other requests to come, which remembers when it learned what.
    pub(crate) fn with_journal(self, seed: u64) -> Self {
        Self { random: Random(seed), journal: Some(Vec::new()), ..self }
    }

    /// This client as if the world had ended at a time, in microseconds since 1970, of a later
    /// self: it has sent what was sent until then, and read what was read before.
    pub(crate) fn until(&self, time: u64, later: &Self) -> Self {
        let mut worker = self.clone();
        for (at, id, entry) in later.journal.iter().flatten() {
            let happened = match entry {
                Entry::Sent(_) => *at <= time,
                Entry::Answered { .. } | Entry::Found(_) => *at < time,
            };
            if happened {
                worker.enter(id, entry.clone());
            }
        }
        worker
    }

    /// A worker of a server whose disk can lose power, which sets the flag.
    pub(crate) fn with_power_flag(self, power_is_off: &Arc<AtomicBool>) -> Self {
        Self { power_is_off: Arc::clone(power_is_off), ..self }
    }

    fn has_power(&self) -> bool {
        !self.power_is_off.load(Ordering::SeqCst)
    }

    /// How many writes were answered.
    pub(crate) fn answered(&self) -> u64 {
        self.answered
    }

    /// The answered writes of all workers of the test, as they come.
    pub(crate) fn answers(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.answers)
    }

    /// Sends requests until the server goes away.
    pub(crate) fn run(mut self, client: &Client) -> Self {
        while self.step(client).is_some() {}
        self
    }

    /// One request of a random kind; `None` when it was not answered.
    fn step(&mut self, client: &Client) -> Option<()> {
        match self.random.below(100) {
            0..40 => self.write(client, Write::CheckAndInsert),
            40..55 => self.write(client, Write::Insert),
            55..65 => self.write_lines(client, Write::CheckAndInsert),
            65..75 => self.write_lines(client, Write::Insert),
            75..87 => self.remove(client),
            87..99 => self.query(client),
            _ => self.answer(client.post("/v1/snapshots", &json!({}))).map(drop),
        }
    }

    fn write(&mut self, client: &Client, write: Write) -> Option<()> {
        let (id, document) = self.draw();
        let body = json!({"id": id, "text": self.corpus[document].text});
        self.sent(&id, document, write);
        let reply = self.answer(client.post(write.path(), &body))?;
        self.settle(&id, document, write, &reply);
        Some(())
    }

    /// A batch; each line is answered, or not, by itself.
    fn write_lines(&mut self, client: &Client, write: Write) -> Option<()> {
        let mut drawn: BTreeMap<String, usize> = BTreeMap::new();
        while drawn.len() < LINES {
            let (id, document) = self.draw();
            drawn.insert(id, document);
        }
        let mut lines = Vec::new();
        for (id, &document) in &drawn {
            lines.push(json!({"id": id, "text": self.corpus[document].text}));
            self.sent(id, document, write);
        }
        let replies = client.post_lines(&format!("{}/batch", write.path()), &lines);
        if !self.has_power() {
            return None;
        }
        let mut refused = replies.len() < lines.len();
        for ((id, &document), reply) in drawn.iter().zip(&replies) {
            // A line, or the whole batch, refused while the server stops; whether a line was kept
            // that a failing disk has ended, a restart shows.
            let status = [&reply["status"], &reply["error"]["status"]];
            if let Some(status) = status.into_iter().find(|status| status.is_number()) {
                refused = true;
                assert_eq!(*status, 503, "{reply}");
            } else {
                self.settle(id, document, write, reply);
            }
        }
        (!refused).then_some(())
    }

    fn remove(&mut self, client: &Client) -> Option<()> {
        let id = self.id();
        let before = self.page(&id).possible.clone();
        self.note(&id, Entry::Sent(vec![None]));
        let reply = self.answer(client.delete(&format!("/v1/documents/{id}")))?;
        let was_there = u64::from(before != [None]);
        assert_eq!(reply["removed"], was_there, "{id} was {before:?}: {reply}");
        self.note(&id, Entry::Answered { stored: None, verdict: None, sequence: sequence(&reply) });
        Some(())
    }

    /// What was answered as stored is found at once.
    fn query(&mut self, client: &Client) -> Option<()> {
        let id = self.id();
        let stored = self.page(&id).possible[0];
        let document = stored.unwrap_or_else(|| self.random.below(self.corpus.len()));
        let reply =
            self.answer(client.post("/v1/query", &json!({"text": self.corpus[document].text})))?;
        let exact = reply["hits"][0]["distance"] == 0;
        assert!(exact || stored.is_none(), "{id} is stored and not found: {reply}");
        Some(())
    }

    /// The reply to a request that the server took; `None` when it went away or is stopping.
    fn answer(&self, reply: Reply) -> Option<Value> {
        let (status, value) = reply.ok().filter(|_| self.has_power())?;
        match status {
            200 => Some(value),
            503 => None,
            _ => panic!("status {status}: {value}"),
        }
    }

    fn draw(&mut self) -> (String, usize) {
        (self.id(), self.random.below(self.corpus.len()))
    }

    fn id(&mut self) -> String {
        format!("worker-{}-{}", self.name, self.random.below(IDS))
    }

    fn page(&mut self, id: &str) -> &mut Page {
        self.ledger
            .entry(id.to_owned())
            .or_insert_with(|| Page { possible: vec![None], verdict: None })
    }

    /// From here on the request may have had its effect.
    fn sent(&mut self, id: &str, document: usize, write: Write) {
        let mut possible = vec![Some(document)];
        if write == Write::CheckAndInsert {
            // As a duplicate of another document it removes what its id had.
            possible.push(None);
        }
        self.note(id, Entry::Sent(possible));
    }

    /// From here on the request must have had its effect.
    fn settle(&mut self, id: &str, document: usize, write: Write, reply: &Value) {
        let outcome = reply["outcome"].as_str().unwrap_or_else(|| panic!("{reply}"));
        let duplicate = outcome == "duplicate";
        let stored = reply["stored"].as_bool().unwrap_or_else(|| panic!("{reply}"));
        assert_eq!(stored, !duplicate, "{reply}");
        let stored = stored.then_some(document);
        let verdict = (write == Write::CheckAndInsert).then(|| Verdict {
            document,
            duplicate,
            winners: winners(reply),
        });
        self.note(id, Entry::Answered { stored, verdict, sequence: sequence(reply) });
    }

    fn note(&mut self, id: &str, entry: Entry) {
        if let Some(journal) = &mut self.journal {
            journal.push((now(), id.to_owned(), entry.clone()));
        }
        self.enter(id, entry);
    }

    fn enter(&mut self, id: &str, entry: Entry) {
        let page = self.page(id);
        match entry {
            Entry::Sent(possible) => {
                page.possible.extend(possible);
                page.verdict = None;
            }
            Entry::Answered { stored, verdict, sequence } => {
                *page = Page { possible: vec![stored], verdict };
                self.sequence_max = self.sequence_max.max(sequence);
                self.answered += 1;
                self.answers.fetch_add(1, Ordering::Relaxed);
            }
            Entry::Found(stored) => page.possible = vec![stored],
        }
    }

    /// Everything answered is there, nothing else is, and nothing is half there.
    pub(crate) fn check_documents(&mut self, client: &Client, sequence: u64) {
        assert!(
            self.sequence_max <= sequence,
            "change {} was answered, the server has {sequence}",
            self.sequence_max
        );
        let corpus = Arc::clone(&self.corpus);
        for (id, page) in self.ledger.clone() {
            let (status, reply) = client.get(&format!("/v1/documents/{id}")).expect("it is up");
            assert!(matches!(status, 200 | 404), "{status}: {reply}");
            let found = reply["fingerprint"].as_str().filter(|_| status == 200);
            let of = |&stored: &Stored| stored.map(|at| corpus[at].fingerprint.to_string());
            let fits = |stored: &Stored| of(stored).as_deref() == found;
            let Some(&stored) = page.possible.iter().find(|stored| fits(stored)) else {
                let possible: Vec<_> = page.possible.iter().map(of).collect();
                panic!("{id} has {found:?}, which is none of {possible:?}");
            };
            self.note(&id, Entry::Found(stored));
            if let Some(fingerprint) = found {
                let query = format!("/v1/query?fingerprint={fingerprint}&distance=0");
                let listed = Client::expect(client.get(&query));
                let hit = &listed["hits"][0];
                let documents = hit["documents"].as_array();
                let documents = documents.unwrap_or_else(|| panic!("{id}: {listed}"));
                let cut = hit["document_count"].as_u64() > Some(documents.len() as u64);
                assert!(cut || documents.iter().any(|d| d["id"] == *id), "{id}: {listed}");
            }
        }
    }

    /// A verdict is the same when its request is sent again, as long as what it rests on is there.
    /// How many were repeated.
    pub(crate) fn check_verdicts(
        &mut self,
        client: &Client,
        all: &HashMap<String, usize>,
    ) -> usize {
        let mut checked = 0;
        for (id, page) in &self.ledger {
            let Some(verdict) = &page.verdict else {
                continue;
            };
            let document = &self.corpus[verdict.document];
            let is_near = |winner: &String| {
                all.get(winner).is_some_and(|&stored| document.is_near(&self.corpus[stored]))
            };
            if verdict.duplicate && !verdict.winners.iter().any(is_near) {
                continue;
            }
            let body = json!({"id": id, "text": document.text});
            let reply = Client::expect(client.post("/v1/check-and-insert", &body));
            let expected = if verdict.duplicate { "duplicate" } else { "already_present" };
            assert_eq!(reply["outcome"], expected, "{id} on retry: {reply}");
            checked += 1;
        }
        checked
    }

    /// What a look-up finds is what a look at every stored document finds.
    pub(crate) fn check_queries(&mut self, client: &Client, all: &HashMap<String, usize>) {
        for _ in 0..QUERIES {
            let document = &self.corpus[self.random.below(self.corpus.len())];
            let exact = json!({"text": document.text, "search": "exact"});
            let reply = Client::expect(client.post("/v1/query", &exact));
            let expected = all.values().any(|&stored| document.is_near(&self.corpus[stored]));
            assert_eq!(reply["duplicate"], expected, "{:.80}: {reply}", document.text);
            // A likely search finds that, and perhaps more.
            let likely = Client::expect(client.post("/v1/query", &json!({"text": document.text})));
            let found = likely["duplicate"] == true;
            assert!(found || !expected, "{:.80}: {likely}", document.text);
        }
    }

    /// What is certainly stored: ids with the numbers of their documents.
    pub(crate) fn stored(&self) -> impl Iterator<Item = (String, usize)> {
        let pages = self.ledger.iter();
        pages.filter_map(|(id, page)| match page.possible[..] {
            [Some(document)] => Some((id.clone(), document)),
            _ => None,
        })
    }
}

/// In microseconds since 1970, as `strace` writes it.
#[expect(clippy::disallowed_methods, reason = "two processes agree on this clock alone")]
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970");
    since.as_micros().try_into().expect("for half a million years")
}

fn sequence(reply: &Value) -> u64 {
    reply["sequence"].as_u64().unwrap_or_else(|| panic!("{reply}"))
}

/// The documents that make a duplicate of the one that was sent.
fn winners(reply: &Value) -> Vec<String> {
    let hits = reply["hits"].as_array().expect("hits").iter();
    let counting = hits.filter(|hit| hit["confirmed"] != false);
    let documents = counting.flat_map(|hit| hit["documents"].as_array().expect("documents"));
    documents.map(|d| d["id"].as_str().expect("each has an id").to_owned()).collect()
}
