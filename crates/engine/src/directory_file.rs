//! The identity of a data directory. Only a reindex changes it, and only the maximum distance.
//!
//! The sealed file `directory` has the maximum distance and two secrets: the seed of the bit
//! permutation and the key of the id hashes. Its header, like that of every other file, has the
//! directory's random id and the recipe.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use nearprint_fingerprint::Distance;
use nearprint_fingerprint::recipe::Recipe;
use nearprint_storage::{
    Disk, FileKind, FileRefusal, Identity, ReadingDisk, SealedReader, SealedWriter, StorageError,
};

/// The name of its file.
pub const NAME: &str = "directory";
/// The name of the copy of the model, for recipes that need one ([`crate::directories::model`]).
pub(crate) const MODEL_NAME: &str = "model";
/// This file exists while an export is being restored. If removing it is all that a restore had
/// left to do, the next start removes it, as it removes every `*.tmp`.
pub const RESTORE_MARKER: &str = "restore-unfinished.tmp";
const KIND: FileKind = FileKind(1);
const BODY_BYTES: u64 = 26;
const RECIPES_OF_OLDER_VERSIONS: [&str; 1] = ["np1"];

/// The identity of a data directory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DirectoryFile {
    /// Its id and recipe, in the header of every file.
    pub identity: Identity,
    /// The maximum distance of a look-up.
    pub distance_max: Distance,
    /// Whether texts are also found by their labels.
    pub has_labels: bool,
    /// The seed of the bit permutation.
    pub permutation_secret: u64,
    /// The key of the id hashes.
    pub id_secret: [u8; 16],
}

/// The random bytes of a new directory.
pub type Entropy = [u8; 40];

impl DirectoryFile {
    /// Draws a new directory from random bytes.
    pub fn draw(
        recipe: &str,
        (distance_max, has_labels): (Distance, bool),
        entropy: &Entropy,
    ) -> Self {
        let part = |at: usize| -> [u8; 16] { std::array::from_fn(|i| entropy[at + i]) };
        let secret = std::array::from_fn(|i| entropy[32 + i]);
        Self {
            identity: Identity::new(part(0), recipe),
            distance_max,
            has_labels,
            permutation_secret: u64::from_le_bytes(secret),
            id_secret: part(16),
        }
    }

    /// Reads the directory's file; `None` if there is none yet. Whatever opens a directory begins
    /// with this, so a directory of another version is refused as such before anything in it can be
    /// called damaged.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn read(disk: &dyn Disk) -> Result<Option<Self>, StorageError> {
        let mut reader = match SealedReader::open_first(disk, NAME, KIND) {
            Ok(reader) => reader,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let identity = reader.identity();
        let recipe = identity.recipe();
        if recipe.parse::<Recipe>().is_err() {
            let is_older = RECIPES_OF_OLDER_VERSIONS.contains(&recipe.as_str());
            let why = FileRefusal::UnknownRecipe { recipe, is_older };
            return Err(StorageError::Refused { file: NAME.to_owned(), why });
        }
        let body = reader.read_rest(BODY_BYTES)?;
        let [distance_max, has_labels, secrets @ ..] = &*body else {
            return Err(StorageError::PayloadTooLarge { bytes: 0 });
        };
        let (permutation, id) = secrets.split_at(8);
        Ok(Some(Self {
            identity,
            distance_max: Distance::new(*distance_max).expect("written from a distance"),
            has_labels: *has_labels == 1,
            permutation_secret: u64::from_le_bytes(permutation.try_into().expect("eight bytes")),
            id_secret: id.try_into().expect("sixteen bytes"),
        }))
    }

    /// Reads the file of the directory at a path, without its lock; `None` if there is none that
    /// can be read.
    pub fn read_at(path: &Path) -> Option<Self> {
        Self::read(&ReadingDisk::open(path).ok()?).ok().flatten()
    }

    /// Writes the file and makes it durable.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn write(&self, disk: &Arc<dyn Disk>) -> Result<(), StorageError> {
        let mut writer = SealedWriter::create(Arc::clone(disk), NAME, KIND, self.identity)?;
        let mut body = vec![self.distance_max.get(), u8::from(self.has_labels)];
        body.extend_from_slice(&self.permutation_secret.to_le_bytes());
        body.extend_from_slice(&self.id_secret);
        writer.write_all(&body).map_err(|error| StorageError::from_io(error, "write", NAME))?;
        writer.finish().map(drop)
    }
}

/// The secrets are not shown.
impl std::fmt::Debug for DirectoryFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DirectoryFile(distance_max {})", self.distance_max)
    }
}
