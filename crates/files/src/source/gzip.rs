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

/// The most bytes that are read a second time after broken members. Each new byte earns [`EARNED`]
/// more, up to this again: a cut member is noticed after its end, so that it and some of the next
/// one are read twice.
const READ_AGAIN_MAX: usize = 8 << 20;
/// How many bytes may be read again for one that is new.
const EARNED: usize = 4;

/// The decompressed members of a source, one after the other.
pub(super) struct Members<R> {
    state: State<R>,
}

enum State<R> {
    Member(Box<GzDecoder<Replay<R>>>),
    /// Between two members.
    Between(Replay<R>),
    /// After an error: the next member is searched.
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
    /// What was read since the mark, and perhaps some of what was read before it.
    kept: Vec<u8>,
    /// Where the mark is in it.
    mark: usize,
    /// How much of it has been read again.
    at: usize,
    /// More was read since the mark than is kept.
    is_full: bool,
    /// How much may still be read a second time.
    again: usize,
    /// How many kept bytes were moved.
    #[cfg(test)]
    moved: usize,
}

impl<R: BufRead> Replay<R> {
    fn new(reader: R) -> Self {
        Self {
            reader,
            kept: Vec::new(),
            mark: 0,
            at: 0,
            is_full: false,
            again: READ_AGAIN_MAX,
            #[cfg(test)]
            moved: 0,
        }
    }

    /// Sets the mark here. A buffer may hold thousands of members, so what comes before the mark is
    /// dropped only when it is the larger part.
    fn mark(&mut self) {
        self.mark = self.at;
        self.is_full = false;
        if self.mark >= self.kept.len() - self.mark {
            self.drop_first(self.mark);
        }
    }

    /// Drops the first kept bytes, and goes on after them.
    fn drop_first(&mut self, count: usize) {
        self.kept.drain(..count);
        (self.mark, self.at) = (0, 0);
        #[cfg(test)]
        {
            self.moved += self.kept.len();
        }
    }

    /// Goes back to after the first byte at the mark, if everything since is kept and may be read
    /// again.
    fn rewind(&mut self) {
        let start = self.kept.len().min(self.mark + 1);
        if self.is_full {
            return;
        }
        if start >= self.at {
            self.at = start;
        } else if let Some(left) = self.again.checked_sub(self.at - start) {
            self.again = left;
            self.at = start;
        }
    }

    /// This many bytes are read for the first time.
    fn earn(&mut self, count: usize) {
        self.again = self.again.saturating_add(count.saturating_mul(EARNED)).min(READ_AGAIN_MAX);
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
            self.drop_first(searched);
            let data = self.reader.fill_buf()?;
            let count = data.len();
            if count == 0 {
                return Ok(false);
            }
            self.kept.extend_from_slice(data);
            self.reader.consume(count);
            self.earn(count);
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
        self.is_full |= self.kept.len() - self.mark + count > REPLAY_BYTES_MAX;
        if self.is_full {
            self.kept.clear();
            self.mark = 0;
        } else if let Ok(data) = self.reader.fill_buf() {
            self.kept.extend_from_slice(&data[..count]);
        }
        self.at = self.kept.len();
        self.reader.consume(count);
        self.earn(count);
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_bytes_are_not_moved_for_each_member() {
        let members = [MAGIC, &[0xff; 20]].concat().repeat(9_999);
        let mut replay = Replay::new(&members[..]);
        let mut found = 0;
        while replay.find_member().unwrap() {
            replay.mark();
            replay.consume(MAGIC.len());
            found += 1;
        }
        assert_eq!(found, 9_999);
        assert!(replay.moved <= members.len(), "{} of {}", replay.moved, members.len());
    }

    #[test]
    fn members_that_swallow_those_after_them_are_not_all_read_again() {
        // A block of 65,280 bytes that are stored as they are: those of the next 4,352 members.
        let member = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\0\x00\xff\xff\x00";
        let broken = [&member.repeat(20_000)[..], &[0xff; 99]].concat();
        let mut members = Members::new(&broken[..]);
        let (mut buffer, mut read) = (vec![0; 64 << 10], 0);
        loop {
            match members.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => read += count,
                Err(_) => {}
            }
        }
        assert!(read > 4_352 * member.len(), "{read}");
        let most = READ_AGAIN_MAX + (1 + EARNED) * broken.len();
        assert!(read <= most, "{read} of at most {most}");
    }
}
