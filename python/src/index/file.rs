//! An index as bytes, in a file or a pickle: the index as [`InMemoryIndex::save_with`] writes it,
//! with the images of segments and tables that snapshots of the service have, and its documents as
//! the records that journals have.
//!
//! ```text
//!   index       with a version; everything is in chunks with checksums
//!   version     of what follows: 8 bytes
//!   options     recipe, extract and search as texts; model, empty if there is none;
//!               min_similarity and min_numbers as the bits of f64
//!   documents   count: u64; for each, the change that stored it: u64, and its record
//! ```
//!
//! A text, a model and a record are their length, a u64, and their bytes. Numbers are
//! little-endian.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, RwLock};

use nearprint_index::InMemoryIndex;
use nearprint_machine::change::{Change, Record};
use nearprint_machine::document::{Document, DocumentId, Sequence};
use nearprint_machine::query::SearchKind;
use nearprint_text::{Extract, Method, Recipe, SpectralModel};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use super::Index;
use super::arguments::is_share;
use super::state::{IndexState, IndexedDocument, Snapshot};
use crate::documents::Reading;
use crate::errors;
use crate::fork;
use crate::values::model_of;
use crate::work;

/// What the documents begin with; the last character is the version of their format.
const MAGIC: [u8; 8] = *b"NPDOCUM1";

/// The longest text of the options; a model is longer.
const TEXT_BYTES_MAX: u64 = 64;

/// The longest record: an id, a sketch, and what is of fixed length.
const RECORD_BYTES_MAX: u64 = 4 << 10;

impl Index {
    pub(super) fn save_to(&self, py: Python<'_>, path: &Path) -> PyResult<()> {
        let snapshot = self.snapshot(py)?;
        let written = work::detached(py, usize::MAX, || self.write_file(snapshot, path))?;
        written.map_err(|error| os_error(py, &error, path))
    }

    pub(super) fn load_from(py: Python<'_>, path: &Path) -> PyResult<Self> {
        let read = work::detached(py, usize::MAX, || Self::decode(open(path)?))?;
        read.map_err(|error| match damage(&error) {
            Some(damage) => {
                let detail = format!("{} cannot be read: {damage}", path.display());
                errors::invalid(py, &"path", &detail)
            }
            None => os_error(py, &error, path),
        })
    }

    pub(super) fn to_bytes(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let snapshot = self.snapshot(py)?;
        let bytes = work::detached(py, usize::MAX, || {
            let mut bytes = Vec::new();
            self.encode(snapshot, &mut bytes).map(|()| bytes)
        })?;
        Ok(bytes?)
    }

    pub(super) fn of_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        let read = work::detached(py, usize::MAX, || Self::decode(data))?;
        read.map_err(|error| {
            let damage = damage(&error).unwrap_or_else(|| error.to_string());
            errors::invalid(py, &"data", &damage)
        })
    }

    /// Writes what the index held at the moment of the snapshot.
    fn encode(&self, snapshot: Snapshot, sink: impl Write) -> io::Result<()> {
        let Snapshot { view, id_secret, documents } = snapshot;
        InMemoryIndex::of_view(view, id_secret).save_with(sink, |sink| {
            sink.write_all(&MAGIC)?;
            let Method { extract, model, .. } = self.reading.method;
            for text in [&*self.recipe, extract.name(), self.search.name()] {
                write_bytes(text.as_bytes(), sink)?;
            }
            write_bytes(&model.map(SpectralModel::to_bytes).unwrap_or_default(), sink)?;
            let shares = [self.min_similarity, self.min_numbers].map(f64::to_bits);
            shares.iter().try_for_each(|share| write_number(*share, sink))?;
            write_number(documents.len() as u64, sink)?;
            documents.iter().try_for_each(|(at, stored)| write_document(*at, stored, sink))
        })
    }

    /// Reads an index; the source has to end with it.
    fn decode(mut source: impl Read) -> io::Result<Self> {
        let (index, (options, documents)) =
            InMemoryIndex::load_with(&mut source, |index, source| {
                let mut magic = [0; MAGIC.len()];
                source.read_exact(&mut magic)?;
                if magic != MAGIC {
                    return Err(invalid("another version of nearprint wrote its documents"));
                }
                let options = read_options(source)?;
                Ok((options, read_documents(index, source)?))
            })?;
        if source.read(&mut [0])? != 0 {
            return Err(invalid("bytes follow its end"));
        }
        let (view, id_secret) = index.into_view();
        let distance_max = view.shape().distance_max;
        let state = IndexState::restored(Snapshot { view, id_secret, documents });
        let Options { method, search, shares: [min_similarity, min_numbers] } = options;
        Ok(Self {
            recipe: method.recipe.to_string(),
            reading: Reading::by(method),
            distance_max,
            min_similarity,
            min_numbers,
            search,
            state: RwLock::new(state),
            generation: AtomicU64::new(fork::generation()),
        })
    }

    /// Replaces a file when the new one is whole and on the disk.
    fn write_file(&self, snapshot: Snapshot, path: &Path) -> io::Result<()> {
        // A link stays, and leads to the new file.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let there = fs::metadata(&path).ok();
        let is_special = there.as_ref().is_some_and(|there| !there.is_file());
        if is_special {
            return Err(io::Error::other("it is there already, and no regular file"));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.map_or_else(|| PathBuf::from("."), Path::to_owned);
        let mut builder = tempfile::Builder::new();
        // As those of other new files; the process takes off what it never gives.
        builder.prefix(".nearprint-").suffix(".partial").permissions(Permissions::from_mode(0o666));
        let mut file = builder.tempfile_in(&folder)?;
        if let Some(there) = there {
            file.as_file().set_permissions(there.permissions())?;
        }
        self.encode(snapshot, &mut file)?;
        file.as_file().sync_all()?;
        file.persist(&path)?;
        open(&folder)?.sync_all()
    }
}

#[expect(clippy::disallowed_methods, reason = "a file of the caller; the exception names it")]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// The exception of the system, which names the file.
fn os_error(py: Python<'_>, error: &io::Error, path: &Path) -> PyErr {
    let Some(number) = error.raw_os_error() else {
        return io::Error::new(error.kind(), format!("{}: {error}", path.display())).into();
    };
    let text = py.import("os").and_then(|os| os.call_method1("strerror", (number,)));
    let text = text.map(Bound::unbind);
    text.map_or_else(
        |failed| failed,
        |text| PyOSError::new_err((number, text, path.as_os_str().to_owned())),
    )
}

/// What is wrong with the bytes; `None` if it is something else.
fn damage(error: &io::Error) -> Option<String> {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Some("it ends too early to be a whole index".to_owned()),
        io::ErrorKind::InvalidData => Some(error.to_string()),
        _ => None,
    }
}

struct Options {
    method: Method,
    search: SearchKind,
    shares: [f64; 2],
}

fn read_options(source: &mut dyn Read) -> io::Result<Options> {
    let recipe: Recipe = read_text(source)?.parse().map_err(|_| unknown())?;
    let extract = Extract::named(&read_text(source)?).ok_or_else(unknown)?;
    let search = read_text(source)?;
    let search = [SearchKind::Exact, SearchKind::Likely].into_iter().find(|it| it.name() == search);
    let model = read_bytes(u64::MAX, source)?;
    let model = (!model.is_empty()).then(|| Python::attach(|py| model_of(py, &model))).transpose();
    let model = model.map_err(|bad| io::Error::new(io::ErrorKind::InvalidData, bad))?;
    let shares = [read_number(source)?, read_number(source)?].map(f64::from_bits);
    if !shares.iter().all(|share| is_share(*share)) {
        return Err(unknown());
    }
    let search = search.ok_or_else(unknown)?;
    Ok(Options { method: Method { recipe, extract, model }, search, shares })
}

fn write_document(at: Sequence, stored: &IndexedDocument, sink: &mut dyn Write) -> io::Result<()> {
    let IndexedDocument { id, fingerprint, sketch, short } = stored;
    let document = Document {
        id: DocumentId::new(&**id).ok(),
        sketch: sketch.clone(),
        short: *short,
        ..Document::bare(*fingerprint)
    };
    let mut bytes = Vec::new();
    Record { at_ms: 0, change: Change::Put { document } }.encode(&mut bytes);
    write_number(at.get(), sink)?;
    write_bytes(&bytes, sink)
}

/// Reads the documents, which have to be those of the index.
fn read_documents(
    index: &InMemoryIndex,
    source: &mut dyn Read,
) -> io::Result<Vec<(Sequence, Arc<IndexedDocument>)>> {
    let other = || invalid("its documents are not those of its index");
    let count = read_number(source)?;
    if count != index.len() {
        return Err(other());
    }
    let mut documents = Vec::new();
    for _ in 0..count {
        let at = Sequence::new(read_number(source)?);
        let record = read_bytes(RECORD_BYTES_MAX, source)?;
        let Ok(Record { change: Change::Put { document }, .. }) = Record::decode(&record) else {
            return Err(other());
        };
        let stored = IndexedDocument::of(document).ok_or_else(other)?;
        if index.find(&stored.id) != Some((stored.fingerprint, at)) {
            return Err(other());
        }
        documents.push((at, Arc::new(stored)));
    }
    Ok(documents)
}

fn write_number(number: u64, sink: &mut dyn Write) -> io::Result<()> {
    sink.write_all(&number.to_le_bytes())
}

fn read_number(source: &mut dyn Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    source.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn write_bytes(bytes: &[u8], sink: &mut dyn Write) -> io::Result<()> {
    write_number(bytes.len() as u64, sink)?;
    sink.write_all(bytes)
}

fn read_bytes(max: u64, source: &mut dyn Read) -> io::Result<Vec<u8>> {
    let length = read_number(source)?;
    if length > max {
        return Err(unknown());
    }
    // A false length does not allocate memory that is never filled.
    let mut bytes = Vec::new();
    let read = source.take(length).read_to_end(&mut bytes)?;
    if read as u64 == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn read_text(source: &mut dyn Read) -> io::Result<String> {
    String::from_utf8(read_bytes(TEXT_BYTES_MAX, source)?).map_err(|_| unknown())
}

fn unknown() -> io::Error {
    invalid("it has an option that this version of nearprint does not know")
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
