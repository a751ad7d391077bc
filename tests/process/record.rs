//! The record that `strace` made of a server: its calls that change files, in order, with the time
//! of each, so that they can be compared with the times at which clients read their answers.
//!
//! A call has an effect at some moment between its begin and its end, and a sync promises nothing
//! before its end. The tracer notes the time while it holds the thread, so what a client has read
//! before the time of an event, it read before the event had any effect.

use std::collections::HashMap;
use std::path::Path;

/// What a call does, to names in the traced folder.
#[derive(Debug)]
pub(crate) enum Call {
    Create(String),
    CreateFolder(String),
    Rename(String, String),
    Remove(String),
    Write(String, usize, Vec<u8>),
    Truncate(String, usize),
    Sync(String),
}

#[derive(Debug)]
pub(crate) enum Step {
    Begin(Call),
    /// The call of the event of this number has ended; whether it did what it says.
    End(usize, bool),
}

#[derive(Debug)]
pub(crate) struct Event {
    /// In microseconds since 1970.
    pub(crate) time: u64,
    pub(crate) step: Step,
}

/// Whether the record has the end of a process.
pub(crate) fn is_complete(record: &str, process: u32) -> bool {
    let start = format!("{process} ");
    record.lines().any(|line| line.starts_with(&start) && line.contains(" +++ "))
}

/// Adds the events of a record, as far as they concern files below a folder. Calls that a kill has
/// interrupted have no end.
pub(crate) fn read(record: &str, folder: &Path, events: &mut Vec<Event>) {
    let mut begun: HashMap<&str, usize> = HashMap::new();
    for line in record.lines() {
        let (thread, rest) = line.split_once(' ').expect("a thread");
        let (time, rest) = rest.trim_start().split_once(' ').expect("a time");
        let time = time.replace('.', "").parse().expect("seconds with six digits");
        if !rest.starts_with("<... ")
            && let Some(call) = call(rest, folder)
        {
            begun.insert(thread, events.len());
            events.push(Event { time, step: Step::Begin(call) });
        }
        if let Some((_, result)) = rest.rsplit_once(" = ")
            && !result.starts_with('?')
            && let Some(begin) = begun.remove(thread)
        {
            let done = !result.starts_with('-') && !result.contains("INJECTED");
            events.push(Event { time, step: Step::End(begin, done) });
        }
    }
}

/// The call of a line, such as `ftruncate(7<\x2f\x74\x6d\x70\x2f\x61>, 8) = 0`. All strings are in
/// hexadecimal digits, so what separates its parts is in none of them.
fn call(line: &str, folder: &Path) -> Option<Call> {
    let (name, arguments) = line.split_once('(')?;
    let arguments = arguments.split(") = ").next()?.trim_end_matches(" <unfinished ...>");
    let texts: Vec<Vec<u8>> = arguments.split('"').skip(1).step_by(2).map(bytes).collect();
    let named = |at: usize| below(folder, texts.get(at)?);
    let open = || {
        let (path, rest) = arguments.split_once('<')?.1.split_once('>')?;
        (!rest.starts_with("(deleted)")).then(|| below(folder, &bytes(path)))?
    };
    let last = || arguments.rsplit_once(", ")?.1.trim_end_matches(')').parse().ok();
    Some(match name {
        "openat" if arguments.contains("O_CREAT") => Call::Create(named(0)?),
        "mkdir" | "mkdirat" => Call::CreateFolder(named(0)?),
        "rename" | "renameat" | "renameat2" => Call::Rename(named(0)?, named(1)?),
        "unlink" | "unlinkat" => Call::Remove(named(0)?),
        "pwrite64" => Call::Write(open()?, last()?, texts.into_iter().next()?),
        "ftruncate" => Call::Truncate(open()?, last()?),
        "fsync" | "fdatasync" => Call::Sync(open()?),
        _ => return None,
    })
}

/// A path as the folder names it; the folder itself is empty.
fn below(folder: &Path, path: &[u8]) -> Option<String> {
    let path = std::str::from_utf8(path).ok()?;
    Some(Path::new(path).strip_prefix(folder).ok()?.to_str()?.to_owned())
}

/// Of `\x2f\x74`.
fn bytes(escaped: &str) -> Vec<u8> {
    let digits = escaped.split("\\x").skip(1);
    digits.map(|digits| u8::from_str_radix(digits, 16).expect("two digits")).collect()
}
