//! The first half of a batch: reads its body in pieces, and does for each piece what needs no
//! order.

use std::sync::Arc;

use axum::body::Body;
use nearprint_engine::Shown;
use nearprint_fingerprint::Fingerprint;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout_at;

use crate::http::batch::context::{
    Batch, BatchStep, BatchSteps, Operation, error_line, line_of, send,
};
use crate::http::batch::words::BatchWords;
use crate::http::budget::{ByteShare, SHORT_BYTES};
use crate::http::problem::{Code, Problem};
use crate::http::reply::counts::count_hits;
use crate::http::reply::wire::{FingerprintReply, QueryReply};
use crate::http::request::body;
use crate::http::request::prepare::{self, Prepared, Setting};
use crate::lines::{LineCutter, StreamLine};

/// Documents that are prepared together. Each may have a few bytes, and take hundreds once it is
/// prepared or refused.
const DOCUMENTS_PER_PIECE: usize = 64;

/// The maximum bytes of replies to one piece of the body before all earlier replies are sent.
const AHEAD_BYTES: usize = 64 * 1024;

/// Look-ups before the task yields to others.
const LOOKUPS_BEFORE_YIELD: usize = 64;

/// The source of the documents.
pub(crate) enum LineSource {
    Lines(Body),
    Packed(BatchWords),
}

/// Some documents of the batch, as they came.
enum Chunk {
    /// With their share of `server.bodies_held_bytes_max`.
    Lines(Vec<StreamLine>, ByteShare),
    Packed {
        first: u64,
        fingerprints: Vec<Fingerprint>,
    },
}

/// A prepared document, with the number of its line.
type Numbered = (u64, Result<Prepared, Problem>);

/// Reads the body and starts the preparation of each piece.
pub(super) async fn read(
    batch: Arc<Batch>,
    source: LineSource,
    chunks: mpsc::Sender<JoinHandle<BatchSteps>>,
) {
    let last = match source {
        LineSource::Lines(body) => read_lines(&batch, body, &chunks).await,
        LineSource::Packed(words) => read_words(&batch, words, &chunks).await,
    };
    if let Err((line, problem)) = last {
        let steps = vec![BatchStep::Done(error_line(problem, line))];
        send(&chunks, tokio::spawn(async { BatchSteps { steps, share: None } })).await;
    }
}

/// Reads lines until the end of the body; an error ends the batch at the line it names.
async fn read_lines(
    batch: &Arc<Batch>,
    mut body: Body,
    chunks: &mpsc::Sender<JoinHandle<BatchSteps>>,
) -> Result<(), (u64, Problem)> {
    let options = &batch.service.options;
    let mut cutter = LineCutter::new(options.line_bytes_max);
    let mut being_read = batch.service.bodies.share();
    let mut deadline = body::deadline(options.body_timeout);
    loop {
        let next = timeout_at(deadline, body::next_data(&mut body))
            .await
            .unwrap_or_else(|_| Err(body::too_slow(options.body_timeout)));
        let data = next.map_err(|problem| (cutter.number(), problem))?;
        let ended = data.is_none();
        let lines = match data {
            Some(data) => cutter.push(data),
            None => cutter.finish().into_iter().collect(),
        };
        let any_line = !lines.is_empty();
        let mut lines = lines.into_iter();
        while lines.len() > 0 {
            let piece: Vec<StreamLine> = lines.by_ref().take(DOCUMENTS_PER_PIECE).collect();
            // The line that was being read is complete now, and takes its share along.
            let share = being_read.split_up_to(piece.iter().map(StreamLine::bytes).sum());
            let work = tokio::spawn(steps(Arc::clone(batch), Chunk::Lines(piece, share)));
            if !send(chunks, work).await {
                return Ok(());
            }
        }
        let covered = body::cover(&mut being_read, cutter.partial_bytes());
        covered.map_err(|problem| (cutter.number(), problem))?;
        if any_line {
            // Only a whole line is progress. The time that the client takes to read replies does
            // not count.
            deadline = body::deadline(options.body_timeout);
        }
        if ended {
            return Ok(());
        }
    }
}

async fn read_words(
    batch: &Arc<Batch>,
    mut words: BatchWords,
    chunks: &mpsc::Sender<JoinHandle<BatchSteps>>,
) -> Result<(), (u64, Problem)> {
    let mut first = 1_u64;
    while let Some(fingerprints) = words.next().await.map_err(|problem| (first, problem))? {
        for piece in fingerprints.chunks(DOCUMENTS_PER_PIECE) {
            let chunk = Chunk::Packed { first, fingerprints: piece.to_vec() };
            if !send(chunks, tokio::spawn(steps(Arc::clone(batch), chunk))).await {
                return Ok(());
            }
            first = first.saturating_add(piece.len() as u64);
        }
    }
    Ok(())
}

/// Does what needs no order: text to fingerprint, and look-ups that store nothing.
async fn steps(batch: Arc<Batch>, chunk: Chunk) -> BatchSteps {
    let bytes = chunk.bytes();
    let shared = Arc::clone(&batch);
    let prepared = batch.service.analyse(bytes, move || prepare_all(&shared, chunk)).await;
    // The work panicked, and nobody knows at which line.
    let prepared = prepared.unwrap_or_else(|problem| vec![(0, Err(problem))]);
    let mut ahead = Ahead::new(&batch);
    for (number, (line, prepared)) in prepared.into_iter().enumerate() {
        ahead.answer(&batch, line, prepared).await;
        if number % LOOKUPS_BEFORE_YIELD == LOOKUPS_BEFORE_YIELD - 1 {
            tokio::task::yield_now().await;
        }
    }
    ahead.into_steps()
}

/// The look-ups of one piece before all replies to earlier lines are sent, as long as the share has
/// space for their replies. Writes are left for their turn.
struct Ahead {
    steps: BatchSteps,
    space: usize,
    /// A reply did not fit. Those behind it would not be sent before it, so they are left as well.
    full: bool,
}

impl Ahead {
    fn new(batch: &Batch) -> Self {
        let share =
            if batch.operation.writes() { None } else { batch.service.replies.ahead(AHEAD_BYTES) };
        let full = share.is_none();
        let space = if full { 0 } else { AHEAD_BYTES };
        Self { steps: BatchSteps { steps: Vec::new(), share }, space, full }
    }

    async fn answer(&mut self, batch: &Batch, line: u64, prepared: Result<Prepared, Problem>) {
        let reply = match prepared {
            Err(problem) => Err(problem),
            Ok(prepared) if self.full => return self.leave(line, prepared),
            Ok(prepared) => match short_reply(batch, &prepared).await {
                Ok(Some(reply)) if reply.len() <= self.space => Ok(reply),
                Ok(_) => return self.leave(line, prepared),
                Err(problem) => Err(problem),
            },
        };
        let reply = reply.unwrap_or_else(|problem| error_line(problem, line));
        self.space = self.space.saturating_sub(reply.len());
        match self.steps.steps.last_mut() {
            Some(BatchStep::Done(replies)) => replies.extend_from_slice(&reply),
            Some(BatchStep::Run(..)) | None => self.steps.steps.push(BatchStep::Done(reply)),
        }
    }

    fn leave(&mut self, line: u64, prepared: Prepared) {
        self.full = true;
        self.steps.steps.push(BatchStep::Run(line, Box::new(prepared)));
    }

    fn into_steps(mut self) -> BatchSteps {
        if let Some(share) = &mut self.steps.share {
            share.shrink_to(AHEAD_BYTES.saturating_sub(self.space));
        }
        self.steps
    }
}

impl Chunk {
    /// How many bytes of the body it has.
    fn bytes(&self) -> usize {
        match self {
            Self::Packed { fingerprints, .. } => size_of_val(fingerprints.as_slice()),
            Self::Lines(lines, _) => lines.iter().map(StreamLine::bytes).sum(),
        }
    }
}

fn prepare_all(batch: &Batch, chunk: Chunk) -> Vec<Numbered> {
    let setting = batch.service.setting();
    match chunk {
        Chunk::Lines(lines, _share) => {
            let prepared = |line: StreamLine| (line.number, prepare_line(batch, &line, &setting));
            lines.into_iter().map(prepared).collect()
        }
        Chunk::Packed { first, fingerprints } => {
            let prepared = |bits| prepare::bare(bits, None, batch.options.clone(), &setting);
            (first..).zip(fingerprints.into_iter().map(prepared)).collect()
        }
    }
}

fn prepare_line(batch: &Batch, line: &StreamLine, setting: &Setting) -> Result<Prepared, Problem> {
    let options = &batch.service.options;
    let Some(bytes) = &line.bytes else {
        return Err(Problem::new(
            Code::LineTooLarge,
            format!("A line may have {} bytes (server.line_bytes_max).", options.line_bytes_max),
        ));
    };
    let prepared = prepare::line(bytes, batch.operation.request(), &batch.options, setting)?;
    batch.check_namespace(prepared.sought.document.namespace.as_ref())?;
    Ok(prepared)
}

/// The reply to a document that is not to be stored, if it is short.
async fn short_reply(batch: &Batch, prepared: &Prepared) -> Result<Option<Vec<u8>>, Problem> {
    let service = &batch.service;
    let line = if batch.operation == Operation::Fingerprint {
        line_of(&FingerprintReply::new(prepared, service.options.defaults.recipe))
    } else {
        let found = service.engine.find(&prepared.sought, prepared.options).await?;
        let Shown::All(findings) = found.show(SHORT_BYTES).await? else { return Ok(None) };
        let line = line_of(&QueryReply::new(prepared, &findings));
        if line.len() <= SHORT_BYTES {
            count_hits(&findings);
        }
        line
    };
    Ok(Some(line).filter(|line| line.len() <= SHORT_BYTES))
}
