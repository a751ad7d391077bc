//! The journal frame.

/// The largest payload of a record in bytes: 16 MiB. Checked before anything is allocated.
pub const PAYLOAD_BYTES_MAX: usize = 16 << 20;

/// Why bytes are not a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// The first bytes are not the magic of a frame.
    #[error("no frame begins here")]
    Magic,
    /// The header fails its checksum.
    #[error("the frame header fails its checksum")]
    HeaderChecksum,
    /// The header is intact but says something impossible.
    #[error("the frame header is impossible")]
    HeaderFields,
    /// The payload is above the limit.
    #[error("the payload length is above the limit")]
    Length,
    /// The payload (or the header with it) fails its checksum.
    #[error("the payload fails its checksum")]
    Payload,
    /// The file ends inside the frame.
    #[error("the file ends inside the frame")]
    Short,
}
