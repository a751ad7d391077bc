//! The import into a running service, through its batch routes.

use std::io::BufRead;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::options::{OnDuplicate, Options};
use super::sink::Sink;
use crate::bulk::Entry;
use crate::cli::client::{self, Client, Problem};
use crate::cli::document;
use crate::cli::error_report::ErrorReport;
use crate::cli::reply::Reply;

/// How often lines are sent to a service that is too busy for them.
const ROUNDS_MAX: usize = 60;

/// A running service.
pub(crate) struct Server {
    client: Client,
    options: Options,
}

impl Server {
    pub(crate) fn new(client: Client, options: Options) -> Self {
        Self { client, options }
    }

    /// A document with its options, as one line of a batch.
    fn line(&self, entry: &Entry) -> String {
        let mut fields = document::to_wire(entry.id.as_deref(), &entry.body);
        let mut option = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        if self.options.check {
            option("limit", json!(self.options.limit));
            if let Some(distance) = self.options.distance {
                option("distance", json!(distance));
            }
            if let Some(part) = self.options.min_similarity {
                option("min_similarity", json!(part));
            }
            if self.options.on_duplicate == OnDuplicate::Insert {
                option("on_duplicate", json!("insert"));
            }
        }
        Value::Object(fields).to_string()
    }

    /// Sends some lines and reads as many replies.
    fn send(&self, lines: &[&str]) -> Result<Vec<Reply>> {
        let path =
            if self.options.check { "/v1/check-and-insert/batch" } else { "/v1/insert/batch" };
        let body = lines.join("\n");
        let mut replies = Vec::with_capacity(lines.len());
        for line in self.client.post_ndjson(path, body.as_bytes())?.lines() {
            let line = line.map_err(|error| self.cut_off().because(error))?;
            replies.push(serde_json::from_str(&line).context("a reply line is no JSON")?);
        }
        if replies.len() == lines.len() { Ok(replies) } else { Err(self.cut_off().into()) }
    }

    /// The reply to a document, or why it was not stored; an error if the import cannot go on.
    fn settled(&self, answer: Option<Reply>) -> Result<Result<Reply, String>> {
        let server = self.client.server();
        let Some(mut reply) = answer else {
            bail!("{server} stays too busy to store anything");
        };
        match reply.error.take() {
            Some(error) if error.is_of_the_service() => bail!("{server} stores no more: {error}"),
            Some(error) => Ok(Err(error.to_string())),
            None => Ok(Ok(reply)),
        }
    }

    fn cut_off(&self) -> ErrorReport {
        ErrorReport::new(
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
            let waiting: Vec<usize> =
                (0..lines.len()).filter(|&at| answers[at].is_none()).collect();
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
                client::wait(Duration::from_secs(1));
            }
        }
        answers.into_iter().map(|answer| self.settled(answer)).collect()
    }

    fn finish(self: Box<Self>) {}
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread::{self, JoinHandle};

    use super::*;
    use crate::bulk::{Body, Place};

    const OPTIONS: Options = Options {
        check: true,
        on_duplicate: OnDuplicate::Insert,
        distance: Some(2),
        min_similarity: None,
        limit: 1,
    };

    /// Answers one request after the other with these replies; ends with the bodies it was sent.
    fn service(replies: Vec<String>) -> (Server, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = Client::new(
            &listener.local_addr().unwrap().to_string(),
            &client::Credentials::default(),
        )
        .unwrap();
        let bodies = thread::spawn(move || {
            let answer = |reply: &String| {
                let (mut stream, _) = listener.accept().unwrap();
                let body = read_body(&mut stream);
                stream.write_all(reply.as_bytes()).unwrap();
                body
            };
            replies.iter().map(answer).collect()
        });
        (Server::new(client, OPTIONS), bodies)
    }

    fn read_body(stream: &mut TcpStream) -> String {
        let mut reader = BufReader::new(stream);
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
        String::from_utf8(body).unwrap()
    }

    fn reply(head: &str, body: &str) -> String {
        let length = body.len();
        format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
    }

    fn entries(count: u64) -> Vec<Entry> {
        (0..count)
            .map(|number| Entry {
                place: Place { path: std::path::Path::new("a.txt").into(), line: None },
                id: Some(format!("id-{number}")),
                body: Body::Text(format!("text {number}")),
            })
            .collect()
    }

    #[test]
    fn a_busy_service_is_asked_again_and_only_for_what_it_left_out() {
        let (mut server, bodies) = service(vec![
            reply("503 Busy\r\nretry-after: 0", "{}"),
            reply(
                "200 OK",
                concat!(
                    "{\"outcome\": \"inserted\", \"stored\": true}\n",
                    "{\"error\": {\"code\": \"overloaded\", \"status\": 503}}\n",
                    "{\"error\": {\"code\": \"empty_document\", \"status\": 422}}\n",
                ),
            ),
            reply("200 OK", "{\"outcome\": \"duplicate\"}\n"),
        ]);

        let replies = server.store(&entries(3)).unwrap();

        assert_eq!(replies[0].as_ref().unwrap().outcome, "inserted");
        assert_eq!(replies[1].as_ref().unwrap().outcome, "duplicate");
        assert_eq!(replies[2].as_ref().unwrap_err(), "empty_document");
        let bodies = bodies.join().unwrap();
        assert_eq!(bodies[0], bodies[1]);
        assert_eq!(
            bodies[2],
            r#"{"id":"id-1","text":"text 1","limit":1,"distance":2,"on_duplicate":"insert"}"#
        );
    }

    #[test]
    fn an_import_ends_when_the_service_is_full_or_goes_away() {
        let full = "{\"error\": {\"code\": \"disk_full\", \"status\": 507}}\n";
        let (mut server, _) = service(vec![reply("200 OK", full)]);
        let error = server.store(&entries(1)).unwrap_err().to_string();
        assert!(error.contains("disk_full"), "{error}");

        let one_of_two = "{\"outcome\": \"inserted\", \"stored\": true}\n";
        let (mut server, _) = service(vec![reply("200 OK", one_of_two)]);
        let error = server.store(&entries(2)).unwrap_err().to_string();
        assert!(error.contains("stopped in the middle"), "{error}");
    }
}
