//! Gzip of many members, each of which is decompressed by itself: behind a broken member, reading
//! goes on with the next one.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;
use memchr::memmem;

/// How each member begins: the magic number and the only method of compression.
const MAGIC: &[u8] = b"\x1f\x8b\x08";

/// The decompressed members of a source, one after the other.
pub(super) struct Members<R> {
    state: State<R>,
}

enum State<R> {
    Member(GzDecoder<R>),
    /// Between two members.
    Between(R),
    /// Behind an error: the next member is searched.
    Lost(R),
    End,
}

impl<R: BufRead> Members<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { state: State::Between(reader) }
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
                        self.state = State::Lost(member.into_inner());
                        return Err(error);
                    }
                    outcome => {
                        self.state = State::Member(member);
                        return outcome;
                    }
                },
                State::Between(mut reader) => {
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
                        self.state = State::Member(GzDecoder::new(reader));
                    } else {
                        self.state = State::Lost(reader);
                        return Err(invalid("no gzip member begins where one should"));
                    }
                }
                State::Lost(mut reader) => {
                    if !find_member(&mut reader)? {
                        return Ok(0);
                    }
                    self.state = State::Member(GzDecoder::new(reader));
                }
                State::End => return Ok(0),
            }
        }
    }
}

/// Skips to the magic number of a member; `false` if there is none. One that lies across two
/// buffers is missed.
fn find_member(reader: &mut impl BufRead) -> io::Result<bool> {
    // What was decoded in vain may begin with the magic number of the broken member itself.
    loop {
        let data = reader.fill_buf()?;
        if data.is_empty() {
            return Ok(false);
        }
        let length = data.len();
        if let Some(at) = memmem::find(data, MAGIC) {
            reader.consume(at);
            return Ok(true);
        }
        reader.consume(length);
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
