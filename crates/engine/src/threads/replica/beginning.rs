//! A look at the log of a cluster, before a node reads it.

use std::sync::Arc;

use nearprint_storage::Identity;

use crate::replication::chain::{Halt, Position, Start};
use crate::replication::log::{Log, LogBounds};
use crate::replication::message::Message;
use crate::replication::position::ClusterFile;
use crate::replication::rejoin::{Rejoin, Rejoined};
use crate::state::replica::NodeOptions;
use crate::threads::replica::log_thread::{AGAIN, News};

/// Why a node begins with the content of another.
const DISCARDED: &str = "the log has discarded what this node has not read";
/// Why a node reads elsewhere than from its position.
const BEGUN_ANEW: &str = "the log was begun anew where this node is; it goes on with that";
const REJOINED: &str = "the log has discarded what came after the position that this node has \
                        stored, and its journal reaches further; it reads on from there";

/// What a look at the log has shown.
pub(super) enum LogLook {
    Reads(Arc<dyn Log>),
    /// From the position in this file, and why.
    ReadsElsewhere(Arc<dyn Log>, ClusterFile, &'static str),
    Ends(News),
}

/// A look at the log of a cluster, before it is read from a position.
pub(super) struct LogBeginning<'a> {
    pub(super) options: &'a NodeOptions,
    pub(super) file: &'a ClusterFile,
    pub(super) identity: &'a Identity,
    /// The sequence of the next change that the journal does not have.
    pub(super) next_in_journal: u64,
}

impl LogBeginning<'_> {
    /// Looks whether this node can go on with the log. What would halt it has to be found twice,
    /// because one look may be at a server that has fallen behind.
    pub(super) fn look(&self, suspected: &mut Option<Halt>) -> Result<LogLook, String> {
        let log = self.options.log.open()?;
        let settings = log.settings().map_err(text)?;
        self.options.required.check(&settings).map_err(text)?;
        let bounds = log.bounds().map_err(text)?;
        let position = &self.file.position;
        let discarded = || Ok(LogLook::Ends(News::Discarded(DISCARDED.to_owned())));
        let halt = match self.file.start(settings.identity, bounds) {
            Start::Read => return Ok(LogLook::Reads(log)),
            Start::Seed => {
                let Some(position) = self.rejoin(&*log, bounds)? else { return discarded() };
                let moved = ClusterFile { log: self.file.log, position };
                return Ok(LogLook::ReadsElsewhere(log, moved, REJOINED));
            }
            Start::Halt(halt @ Halt::OtherLog { .. }) => {
                match self.compare_with_first(&*log, bounds)? {
                    Continuation::Here => {
                        let mut moved = self.file.clone();
                        moved.begin_anew(settings.identity);
                        return Ok(LogLook::ReadsElsewhere(log, moved, BEGUN_ANEW));
                    }
                    Continuation::Later => return discarded(),
                    Continuation::Earlier { first } => Halt::Ahead { first, next: position.next },
                    Continuation::Elsewhere => halt,
                }
            }
            Start::Halt(halt) => halt,
        };
        if suspected.replace(halt.clone()).as_ref() == Some(&halt) {
            return Ok(LogLook::Ends(News::Halt(halt)));
        }
        Err(halt.to_string())
    }

    /// The position from which the log can be read on, if the journal reaches it.
    fn rejoin(&self, log: &dyn Log, bounds: LogBounds) -> Result<Option<Position>, String> {
        let mut reader = log.read(bounds.first);
        let mut rejoin = Rejoin::default();
        while let Some(entry) = reader.next(AGAIN).map_err(text)? {
            let known = (&self.file.position, self.next_in_journal);
            match rejoin.read(&entry, self.identity, known) {
                Rejoined::NotYet => {}
                Rejoined::From(position) => return Ok(Some(position)),
                Rejoined::Nowhere => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Where a log that was begun anew continues, by its first entry.
    fn compare_with_first(&self, log: &dyn Log, bounds: LogBounds) -> Result<Continuation, String> {
        if bounds.first > 1 {
            return Ok(Continuation::Elsewhere);
        }
        let Some(entry) = log.read(1).next(AGAIN).map_err(text)? else {
            return Err("the log was begun anew, and is empty".to_owned());
        };
        let Ok((message, _)) = Message::decode(&entry.bytes, self.identity) else {
            return Ok(Continuation::Elsewhere);
        };
        let Position { changed, next, .. } = self.file.position;
        Ok(if message.prev == changed && message.first == next {
            Continuation::Here
        } else if message.first > next {
            Continuation::Later
        } else if message.first < next {
            Continuation::Earlier { first: message.first }
        } else {
            Continuation::Elsewhere
        })
    }
}

/// Where a log that was begun anew continues.
enum Continuation {
    /// After the last message with changes that counted here.
    Here,
    /// After more than this node has.
    Later,
    /// After less.
    Earlier { first: u64 },
    /// It has another history.
    Elsewhere,
}

fn text(error: impl std::error::Error) -> String {
    error.to_string()
}
