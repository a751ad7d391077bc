//! A batch with one reply a line: look-ups ahead of their turn, writes in the order of the lines.

use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use axum::body::Body;
use futures_util::FutureExt as _;
use nearprint_engine::{Admission, Checked, Inserted, Outbox, Shown};
use nearprint_service::budget::{ByteShare, OWN_BYTES, SHORT_BYTES, Shorten, WhenSpent};
use nearprint_service::{Operation, Prepared, answers, prepare, previous};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::{self, JoinHandle};
use tokio::time::Instant;

use crate::http::batch::replies::{
    Finishing, Reply, Slot, error_line, finished, line_of, write_line,
};
use crate::http::batch::run::{Batch, request_of};
use crate::http::batch::source::{self, LineContent, Numbered, PackedWords};
use crate::http::problem::{Code, Problem};
use crate::http::reply::counts::{count_hits, count_verdict};
use crate::http::request::prepare::line;

/// Pieces of the body that each batch prepares at one time: one a core, and at least four.
static PIECES_AHEAD: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(0, usize::from).max(4));

/// The maximum bytes of replies to a piece before all earlier replies are sent.
const ROOM_BYTES: usize = OWN_BYTES;

/// How long a piece is looked up before other connections have their turn on this thread.
const TURN_MAX: Duration = Duration::from_millis(1);

/// Writes of one batch that wait for their sync at one time.
const SLOTS_MAX: usize = 4_096;

/// The memory of a write that waits for its sync, apart from its matches.
const PENDING_BYTES: usize = 512;

/// The replies to the first documents of a piece, and the documents that are left for their turn.
type PreparedPiece = (Option<Reply>, Numbered<Prepared>);

pub(super) type ToBegin = mpsc::Sender<JoinHandle<PreparedPiece>>;

/// The source of the documents.
pub(super) enum BatchSource {
    Lines(Body),
    Words(PackedWords),
}

/// Starts the stages. Each ends when the one after it is gone.
pub(super) fn start(batch: Arc<Batch>, source: BatchSource) -> mpsc::Receiver<Slot<Reply>> {
    let (to_begin, pieces) = mpsc::channel(*PIECES_AHEAD);
    let (to_reply, slots) = mpsc::channel(SLOTS_MAX);
    drop(tokio::spawn(prepare_all(Arc::clone(&batch), source, to_begin)));
    drop(tokio::spawn(begin_all(batch, pieces, to_reply)));
    slots
}

async fn prepare_all(batch: Arc<Batch>, source: BatchSource, to_begin: ToBegin) {
    let (read, rest) = match source {
        BatchSource::Lines(mut body) => (source::lines(&batch, &mut body, &to_begin).await, body),
        BatchSource::Words(mut words) => {
            (source::bare(&batch, &mut words, &to_begin).await, words.into_body())
        }
    };
    // From now on only the pieces need the place.
    batch.place.give_back();
    let Err((line, problem)) = read else { return };
    let is_given_up = problem.is(Code::ReplyNotRead);
    let mut none = batch.http.bodies.share(batch.place.client());
    let last = async move {
        // The replies end with it.
        let to_begin = to_begin;
        batch.prepare_next(vec![(line, Err(problem))], &mut none, &to_begin).await;
    };
    if is_given_up {
        // The client reads only once it has sent everything.
        tokio::join!(last, source::discard(rest));
    } else {
        drop(rest);
        last.await;
    }
}

/// Begins what needs the order of the lines.
async fn begin_all(
    batch: Arc<Batch>,
    mut pieces: mpsc::Receiver<JoinHandle<PreparedPiece>>,
    to_reply: mpsc::Sender<Slot<Reply>>,
) {
    while let Some(piece) = pieces.recv().await {
        let (ahead, left) = match piece.await {
            Ok((ahead, left)) => (ahead.map(Ok), left),
            Err(fault) => (Some(Err(Problem::internal(format!("a batch: {fault}")))), Vec::new()),
        };
        if let Some(reply) = ahead {
            let slot = Slot { line: None, share: None, reply: finished(reply) };
            if to_reply.send(slot).await.is_err() {
                return;
            }
        }
        // The writes of a piece share a sync.
        let outbox = batch.http.service.engine().outbox();
        for (line, document) in left {
            let slot = outbox.wait_for(batch.begin(line, document, &outbox)).await;
            if outbox.wait_for(to_reply.send(slot)).await.is_err() {
                return;
            }
        }
    }
}

impl Batch {
    /// Starts the preparation of a piece of the body, once there is room for its replies. False
    /// when the client is gone.
    pub(super) async fn prepare_next(
        self: &Arc<Self>,
        piece: Numbered<LineContent>,
        reserved: &mut ByteShare,
        to_begin: &ToBegin,
    ) -> bool {
        let bytes = piece.iter().flat_map(|(_, content)| content).map(LineContent::bytes).sum();
        // A line that was being read is complete now, and takes its share along.
        let share = reserved.split_up_to(bytes);
        let writes = self.operation.writes();
        let reserved = self.place.await_client(self.reserve(ROOM_BYTES));
        let room = if writes { None } else { Some(reserved.await) };
        let (batch, worked_on) = (Arc::clone(self), self.place.piece());
        let prepared = tokio::spawn(async move {
            let _worked_on = worked_on;
            let reader = Arc::clone(&batch);
            let work = move || {
                let _share = share;
                reader.read(piece)
            };
            let documents = batch.http.service.analyse(batch.place.client(), bytes, work).await;
            // The work panicked, and nobody knows at which line.
            let documents = documents.unwrap_or_else(|refusal| vec![(0, Err(refusal.into()))]);
            match room {
                Some(room) => batch.look_up_ahead(documents, room).await,
                None => (None, documents),
            }
        });
        self.place.await_client(to_begin.send(prepared)).await.is_ok()
    }

    fn read(&self, piece: Numbered<LineContent>) -> Numbered<Prepared> {
        let setting = self.http.service.setting();
        let read = |content| match content {
            LineContent::Bare(bits) => {
                Ok(prepare::bare(bits, None, self.options.clone(), &setting)?)
            }
            LineContent::Json(json) => {
                let prepared = line(&json, request_of(self.operation), &self.options, &setting)?;
                self.check_namespace(prepared.document.namespace.as_ref())?;
                Ok(prepared)
            }
        };
        piece.into_iter().map(|(line, content)| (line, content.and_then(read))).collect()
    }

    /// Replies to the first documents, as long as the replies are short and have room.
    async fn look_up_ahead(&self, documents: Numbered<Prepared>, room: ByteShare) -> PreparedPiece {
        let (mut replies, mut left) = (Vec::new(), Vec::new());
        let mut turn = Instant::now();
        for (line, document) in documents {
            // Look-ups of crowded fingerprints take long, and never wait for anything.
            if turn.elapsed() > TURN_MAX {
                task::yield_now().await;
                turn = Instant::now();
            }
            let has_room =
                left.is_empty() && replies.len() <= ROOM_BYTES.saturating_sub(SHORT_BYTES);
            let replied = match &document {
                Ok(document) if has_room => self.reply_shortly(document, &mut replies).await,
                Err(problem) if has_room => Err(problem.clone()),
                Ok(_) | Err(_) => Ok(false),
            };
            match replied {
                Ok(true) => {}
                Ok(false) => left.push((line, document)),
                Err(problem) => replies.extend_from_slice(&error_line(problem, line)),
            }
        }
        let any = !replies.is_empty();
        (any.then(|| Reply::new(replies, Some(room))), left)
    }

    /// Appends the reply to a document that is not to be stored; false if it is long.
    async fn reply_shortly(
        &self,
        document: &Prepared,
        replies: &mut Vec<u8>,
    ) -> Result<bool, Problem> {
        if self.operation == Operation::Fingerprint {
            let recipe = self.http.service.recipe();
            return Ok(append_short(replies, &answers::fingerprint(document, recipe)));
        }
        let found = self.http.service.find(&self.caller, document).await?;
        let Shown::All(findings) = found.show(SHORT_BYTES).await? else { return Ok(false) };
        let is_short = append_short(replies, &answers::query(document, &findings));
        if is_short {
            count_hits(&findings);
        }
        Ok(is_short)
    }

    /// The reply to a document that is not to be stored, however long it is.
    async fn any_reply(&self, document: &Prepared) -> Result<Reply, Problem> {
        let service = &self.http.service;
        if self.operation == Operation::Fingerprint {
            let reply = answers::fingerprint(document, service.recipe());
            return Ok(self.line(reply, None).await);
        }
        let found = service.find(&self.caller, document).await?;
        let hits = service.replies().hits(&self.caller.client, found, WhenSpent::Wait);
        let (findings, share) = hits.await?;
        count_hits(&findings);
        Ok(self.line(answers::query(document, &findings), share).await)
    }

    /// The reply to the line whose reply is finished next, with the share of its hits.
    async fn line(&self, reply: impl Shorten, share: Option<ByteShare>) -> Reply {
        let (line, share) =
            self.http.service.replies().line(&self.caller.client, reply, share).await;
        Reply::new(line, share)
    }

    /// Begins what is left for its turn.
    async fn begin(
        self: &Arc<Self>,
        line: u64,
        document: Result<Prepared, Problem>,
        outbox: &Outbox,
    ) -> Slot<Reply> {
        let line = Some(line);
        if self.operation.writes() {
            let begun = self.begin_write(document, outbox).await;
            let (bytes, reply) = begun.unwrap_or_else(|problem| (0, finished(Err(problem))));
            let share = Some(self.reserve(PENDING_BYTES.saturating_add(bytes)).await);
            return Slot { line, share, reply };
        }
        // One at a time, since any of them may be long.
        let turn = Arc::clone(&self.turn).acquire_owned().await;
        let batch = Arc::clone(self);
        let reply = async move {
            let _turn = turn;
            batch.any_reply(&document?).await
        };
        Slot { line, share: None, reply: reply.boxed() }
    }

    /// Puts a write into the queue of the engine. Also returns the memory that its matches take.
    async fn begin_write(
        self: &Arc<Self>,
        document: Result<Prepared, Problem>,
        outbox: &Outbox,
    ) -> Result<(usize, Finishing<Reply>), Problem> {
        let (document, service, batch) = (document?, &self.http.service, Arc::clone(self));
        let admission = Admission::Collect(outbox);
        if self.operation == Operation::Insert {
            let begun = service.begin_insert(&self.caller, document, admission).await?;
            let reply = async move {
                let (subject, Inserted { written, previous: before }) = begun.done().await?;
                count_verdict(written.verdict);
                let written = (written, previous(before).await);
                let reach = &batch.caller.namespaces;
                Ok(Reply::new(line_of(&answers::insert(&subject, written, reach)), None))
            };
            return Ok((0, reply.boxed()));
        }
        let begun = service.begin_check_and_insert(&self.caller, document, admission).await?;
        let bytes = begun.bytes();
        let reply = async move {
            let (subject, Checked { written, found, previous: before }) = begun.done().await?;
            count_verdict(written.verdict);
            let (replies, caller) = (batch.http.service.replies(), &batch.caller);
            let (findings, share) = replies.hits(&caller.client, found, WhenSpent::Wait).await?;
            count_hits(&findings);
            let written = (written, previous(before).await);
            let reach = &caller.namespaces;
            let reply = answers::check_and_insert(&subject, written, &findings, reach);
            Ok(batch.line(reply, share).await)
        };
        Ok((bytes, reply.boxed()))
    }
}

/// Appends the line of a reply; false, and none, if it is long.
fn append_short(lines: &mut Vec<u8>, reply: &impl Serialize) -> bool {
    let before = lines.len();
    write_line(lines, reply);
    let is_short = lines.len().saturating_sub(before) <= SHORT_BYTES;
    if !is_short {
        lines.truncate(before);
    }
    is_short
}
