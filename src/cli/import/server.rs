//! The import into a running service, through its batch routes.

use std::io::BufRead;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};

use super::{How, OnDuplicate, Sink};
use crate::bulk::Entry;
use crate::cli::client::{Client, Problem};
use crate::cli::document;
use crate::cli::reply::Reply;
use crate::cli::trouble::Trouble;

/// How often lines are sent again that the service was too busy for.
const ROUNDS_MAX: usize = 60;

/// A running service.
pub(super) struct Server {
    client: Client,
    how: How,
}

impl Server {
    pub(super) fn new(client: Client, how: How) -> Self {
        Self { client, how }
    }

    /// A document with its options, as one line of a batch.
    fn line(&self, entry: &Entry) -> String {
        let mut fields = document::to_wire(entry.id.as_deref(), &entry.body);
        let mut option = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        if self.how.check {
            option("limit", json!(self.how.limit));
            if let Some(distance) = self.how.distance {
                option("distance", json!(distance));
            }
            if let Some(part) = self.how.min_similarity {
                option("min_similarity", json!(part));
            }
            if self.how.on_duplicate == OnDuplicate::Insert {
                option("on_duplicate", json!("insert"));
            }
        }
        Value::Object(fields).to_string()
    }

    /// Sends some lines and reads as many replies.
    fn send(&self, lines: &[&str]) -> Result<Vec<Reply>> {
        let path = if self.how.check {
            "/v1/check-and-insert/batch"
        } else {
            "/v1/insert/batch"
        };
        let body = lines.join("\n");
        let mut replies = Vec::with_capacity(lines.len());
        for line in self.client.post_ndjson(path, body.as_bytes())?.lines() {
            let line = line.map_err(|error| self.cut_off().because(error))?;
            replies.push(serde_json::from_str(&line).context("a reply line is no JSON")?);
        }
        if replies.len() == lines.len() {
            Ok(replies)
        } else {
            Err(self.cut_off().into())
        }
    }

    fn cut_off(&self) -> Trouble {
        Trouble::new(
            format!("{} stopped in the middle of a batch", self.client.server()),
            "look at its log, start it again, and repeat the import: documents with an id that \
             are already there are not stored twice",
        )
    }
}

impl Sink for Server {
    fn store(&mut self, documents: &[Entry]) -> Result<Vec<Result<Reply, String>>> {
        let lines: Vec<String> = documents.iter().map(|entry| self.line(entry)).collect();
        let mut answers: Vec<Option<Reply>> = lines.iter().map(|_| None).collect();
        for _ in 0..ROUNDS_MAX {
            let waiting: Vec<usize> = (0..lines.len())
                .filter(|&at| answers[at].is_none())
                .collect();
            if waiting.is_empty() {
                break;
            }
            let unsent: Vec<&str> = waiting.iter().map(|&at| lines[at].as_str()).collect();
            for (at, reply) in waiting.into_iter().zip(self.send(&unsent)?) {
                let busy = reply.error.as_ref().is_some_and(Problem::is_temporary);
                if !busy {
                    answers[at] = Some(reply);
                }
            }
            if answers.iter().any(Option::is_none) {
                crate::cli::client::wait(Duration::from_secs(1));
            }
        }
        answers
            .into_iter()
            .map(|answer| {
                let mut reply = answer.ok_or_else(|| {
                    anyhow!("{} stays too busy to store anything", self.client.server())
                })?;
                Ok(match reply.error.take() {
                    Some(error) => Err(error.to_string()),
                    None => Ok(reply),
                })
            })
            .collect()
    }

    fn finish(self: Box<Self>) {}
}
