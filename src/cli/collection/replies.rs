//! What a reply says, if it is that of a nearprint service: a JSON object, or a line for each
//! document, with every field that such a reply has.

use anyhow::{Result, bail};
use nearprint_service::Operation;
use nearprint_wire::answer::{
    Answer, CheckAndInsertReply, FingerprintReply, InsertReply, ProblemReply, QueryReply,
};
use serde::de::DeserializeOwned;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a JSON object, which may begin with a byte order mark.
///
/// # Errors
/// It is none, or has another form.
pub(super) fn object<T: DeserializeOwned>(json: &[u8]) -> Result<T> {
    let json = json.strip_prefix(BYTE_ORDER_MARK).unwrap_or(json);
    if !json.trim_ascii_start().starts_with(b"{") {
        bail!("it is not a JSON object");
    }
    Ok(serde_json::from_slice(json)?)
}

/// Reads the reply to one document.
///
/// # Errors
/// As [`object`].
pub(super) fn answer(operation: Operation, json: &[u8]) -> Result<Answer> {
    Ok(match operation {
        Operation::Fingerprint => object::<FingerprintReply>(json)?.into(),
        Operation::Query => object::<QueryReply<'static>>(json)?.into(),
        Operation::Insert => object::<InsertReply>(json)?.into(),
        Operation::CheckAndInsert => object::<CheckAndInsertReply<'static>>(json)?.into(),
    })
}

/// Reads the reply to a batch of so many documents: an answer or an error for each in their order,
/// or for the first of them if the reply broke off, or if the service says in the last line why it
/// took no more. All are read before one is believed.
///
/// # Errors
/// It has another form.
pub(super) fn answers(
    operation: Operation,
    body: &[u8],
    is_whole: bool,
    count: usize,
) -> Result<Vec<Answer>> {
    let mut lines: Vec<&[u8]> = body.split(|&byte| byte == b'\n').collect();
    let rest = lines.pop();
    lines.extend(rest.filter(|rest| is_whole && !rest.is_empty()));
    if lines.len() <= count {
        let line = |line: &&[u8]| match answer(operation, line) {
            Ok(answer) => Ok(answer),
            Err(why) => ProblemReply::of_line(line).map(Answer::from).ok_or(why),
        };
        let answers: Vec<Answer> = lines.iter().map(line).collect::<Result<_>>()?;
        let takes_no_more = answers.last().is_some_and(|answer| answer.error.is_some());
        if answers.len() == count || takes_no_more || !is_whole {
            return Ok(answers);
        }
    }
    bail!("it has {} lines for {count} documents", lines.len());
}
