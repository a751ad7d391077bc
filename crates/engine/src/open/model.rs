//! The model of a recipe that is learned from vectors, such as `spectral-D`.
//!
//! A data directory keeps a copy of the model with which it was created, the sealed file `model`,
//! so that it opens without the configured file, and never with another model. The copy is written
//! before the file `directory`, which completes a new directory. Its header has the identity of the
//! directory, so a copy from elsewhere is refused.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use nearprint_storage::{Disk, FileKind, SealedReader, SealedWriter, StorageError};
use nearprint_text::Recipe;
use nearprint_text::SpectralModel;

use crate::api::error::OpenError;
use crate::api::options::Options;
use crate::directory_file::{DirectoryFile, MODEL_NAME as NAME};
use crate::operator_file;

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
    let model = read_file(file, recipe)?;
    let mut writer = SealedWriter::create(Arc::clone(disk), NAME, KIND, directory.identity)?;
    let written = writer.write_all(&model.to_bytes());
    written.map_err(|error| StorageError::from_io(error, "write", NAME))?;
    writer.finish()?;
    Ok(())
}

/// The model of a directory, if its recipe needs one. It stays in memory as long as the process.
///
/// # Errors
/// [`OpenError::OtherModel`] if another one is configured; [`OpenError::StoredModel`].
pub(crate) fn open(
    disk: &dyn Disk,
    directory: &DirectoryFile,
    options: &Options,
) -> Result<Option<&'static SpectralModel>, OpenError> {
    let recipe = options.recipe;
    if !recipe.needs_model() {
        return Ok(None);
    }
    let mut reader = SealedReader::open(disk, NAME, KIND, &directory.identity)?;
    let bytes = reader.read_rest(SpectralModel::BYTES_MAX)?;
    let model = SpectralModel::from_bytes(&bytes).map_err(OpenError::StoredModel)?;
    if let Some(file) = &options.model_file {
        let (created, configured) = (model.digest(), read_file(file, recipe)?.digest());
        if created != configured {
            return Err(OpenError::OtherModel { created, configured });
        }
    }
    Ok(Some(Box::leak(Box::new(model))))
}

/// Reads a model file for a recipe.
///
/// # Errors
/// [`OpenError::Model`].
pub fn read_file(path: &Path, recipe: Recipe) -> Result<SpectralModel, OpenError> {
    let bad = |why: String| OpenError::Model { file: path.display().to_string(), why };
    let bytes = operator_file::read(path, SpectralModel::BYTES_MAX)
        .map_err(|error| bad(error.to_string()))?;
    let model = SpectralModel::from_bytes(&bytes).map_err(|error| bad(error.to_string()))?;
    if recipe.dimensions() == Some(model.dimensions()) {
        return Ok(model);
    }
    let dimensions = model.dimensions();
    Err(bad(format!("it is a model of spectral-{dimensions}, and the recipe is {recipe}")))
}
