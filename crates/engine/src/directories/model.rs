//! The model of a recipe that is learned from vectors, such as `spectral-D`.
//!
//! A data directory keeps a copy of the model with which it was created, the sealed file `model`,
//! so that it opens without the configured file, and never with another model. The copy is written
//! before the file `directory`, which completes a new directory. Its header has the identity of the
//! directory, so a copy from elsewhere is refused.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use nearprint_storage::{Disk, FileKind, SealedReader, SealedWriter, StorageError, operator_file};

use crate::api::error::OpenError;
use crate::api::options::{ModelCheck, Options};
use crate::directory_file::{DirectoryFile, MODEL_NAME as NAME};

const KIND: FileKind = FileKind(10);

/// Copies the configured model into a new directory, if the recipe needs one.
///
/// # Errors
/// [`OpenError::NoModel`], [`OpenError::Model`], or those of the disk.
pub(crate) fn create(
    disk: &Arc<dyn Disk>,
    directory: &DirectoryFile,
    options: &Options,
) -> Result<(), OpenError> {
    let recipe = options.recipe;
    if !recipe.needs_model() {
        return Ok(());
    }
    let file = options.model_file.as_deref().ok_or(OpenError::NoModel { recipe })?;
    let (bytes, _) = read(file, options)?;
    let mut writer = SealedWriter::create(Arc::clone(disk), NAME, KIND, directory.identity)?;
    let written = writer.write_all(&bytes);
    written.map_err(|error| StorageError::from_io(error, "write", NAME))?;
    writer.finish()?;
    Ok(())
}

/// The model of a directory, if its recipe needs one.
///
/// # Errors
/// [`OpenError::OtherModel`] if another one is configured; [`OpenError::StoredModel`].
pub(crate) fn open(
    disk: &dyn Disk,
    directory: &DirectoryFile,
    options: &Options,
) -> Result<Option<Arc<[u8]>>, OpenError> {
    if !options.recipe.needs_model() {
        return Ok(None);
    }
    let mut reader = SealedReader::open(disk, NAME, KIND, &directory.identity)?;
    let ModelCheck { bytes_max, check } = options.model_check;
    let bytes = reader.read_rest(bytes_max)?;
    let created = check(&bytes, options.recipe);
    let created = created.map_err(OpenError::StoredModel)?;
    if let Some(file) = &options.model_file {
        let (_, configured) = read(file, options)?;
        if created != configured {
            return Err(OpenError::OtherModel { created, configured });
        }
    }
    Ok(Some(bytes.into()))
}

/// Reads the configured file, with the number that names its model.
fn read(path: &Path, options: &Options) -> Result<(Vec<u8>, u128), OpenError> {
    let bad = |why: String| OpenError::Model { file: path.display().to_string(), why };
    let ModelCheck { bytes_max, check } = options.model_check;
    let bytes = operator_file::read(path, bytes_max).map_err(|error| bad(error.to_string()))?;
    let name = check(&bytes, options.recipe).map_err(bad)?;
    Ok((bytes, name))
}
