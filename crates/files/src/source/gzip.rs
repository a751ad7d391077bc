//! Gzip of many members, each of which is decompressed by itself: after a broken member, reading
//! goes on with the next one.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;
use memchr::memmem;

/// How each member begins: the magic number and the only method of compression.
const MAGIC: &[u8] = b"\x1f\x8b\x08";

/// How many bytes of a member are kept, to search them for the next member if it is broken. Web
/// archives have a member a record.
const REPLAY_BYTES_MAX: usize = 1 << 20;

/// The decompressed members of a source, one after the other.
pub(super) struct Members<R> {
    state: State<R>,
}

enum State<R> {
    Member(Box<GzDecoder<Replay<R>>>),
    /// Between two members.
    Between(Replay<R>),
    /// Behind an error: the next member is searched.
    Lost(Replay<R>),
    End,
}

impl<R: BufRead> Members<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { state: State::Between(Replay::new(reader)) }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            match std::mem::replace(&mut self.state, State::End) {
                State::Member(mut member) => match member.read(buffer) {
                    Ok(0) => self.state = State::Between(member.into_inner()),
                    Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                        let mut reader = member.into_inner();
                        reader.rewind();
                        self.state = State::Lost(reader);
                        return Err(error);
                    }
                    outcome => {
                        self.state = State::Member(member);
                        return outcome;
                    }
                },
                State::Between(mut reader) => {
                    reader.mark();
                    let head = reader.fill_buf()?;
                    if head.is_empty() {
                        return Ok(0);
                    }
                    // Some programs fill the last block of a medium with zeros.
                    let zeros = head.iter().take_while(|&&byte| byte == 0).count();
                    if zeros > 0 {
                        reader.consume(zeros);
                        self.state = State::Between(reader);
                    } else if head[0] == MAGIC[0] {
                        self.state = State::Member(Box::new(GzDecoder::new(reader)));
                    } else {
                        self.state = State::Lost(reader);
                        return Err(invalid("no gzip member begins where one should"));
                    }
                }
                State::Lost(mut reader) => {
                    if !reader.find_member()? {
                        return Ok(0);
                    }
                    reader.mark();
                    self.state = State::Member(Box::new(GzDecoder::new(reader)));
                }
                State::End => return Ok(0),
            }
        }
    }
}

/// A reader that can go back to a mark.
struct Replay<R> {
    reader: R,
    /// What was read since the mark.
    kept: Vec<u8>,
    /// How much of it has been read again.
    at: usize,
    /// More was read since the mark than is kept.
    is_full: bool,
}

impl<R: BufRead> Replay<R> {
    fn new(reader: R) -> Self {
        Self { reader, kept: Vec::new(), at: 0, is_full: false }
    }

    /// Sets the mark here.
    fn mark(&mut self) {
        self.kept.drain(..self.at);
        self.at = 0;
        self.is_full = false;
    }

    /// Goes back to after the first byte at the mark, if everything since is kept.
    fn rewind(&mut self) {
        if !self.is_full {
            self.at = self.kept.len().min(1);
        }
    }
}

impl<R: BufRead> Replay<R> {
    /// Skips to the magic number of a member; `false` if there is none.
    fn find_member(&mut self) -> io::Result<bool> {
        loop {
            if let Some(found) = memmem::find(&self.kept[self.at..], MAGIC) {
                self.at += found;
                return Ok(true);
            }
            // The magic number may lie across two buffers.
            let searched = self.kept.len().saturating_sub(MAGIC.len() - 1).max(self.at);
            self.kept.drain(..searched);
            self.at = 0;
            let data = self.reader.fill_buf()?;
            let count = data.len();
            if count == 0 {
                return Ok(false);
            }
            self.kept.extend_from_slice(data);
            self.reader.consume(count);
        }
    }
}

impl<R: BufRead> Read for Replay<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Replay<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at < self.kept.len() { Ok(&self.kept[self.at..]) } else { self.reader.fill_buf() }
    }

    fn consume(&mut self, count: usize) {
        if self.at < self.kept.len() {
            self.at += count;
            return;
        }
        self.is_full |= self.kept.len() + count > REPLAY_BYTES_MAX;
        if self.is_full {
            self.kept.clear();
        } else if let Ok(data) = self.reader.fill_buf() {
            self.kept.extend_from_slice(&data[..count]);
        }
        self.at = self.kept.len();
        self.reader.consume(count);
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
