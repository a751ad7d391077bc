//! Models of recipes that are learned from vectors, such as `spectral-D`.

use std::path::Path;
use std::sync::Arc;

use nearprint_engine::{Engine, ModelCheck, operator_file};
use nearprint_service::{Service, ServiceOptions};
use nearprint_text::{Recipe, SpectralModel};

/// How the engine checks the model of a directory.
pub(crate) const CHECK: ModelCheck = ModelCheck {
    bytes_max: SpectralModel::BYTES_MAX,
    check: |bytes, recipe| Ok(model(bytes, recipe)?.digest()),
};

/// The service over a running engine, with the model of its directory.
pub(crate) fn service(engine: Engine, options: ServiceOptions) -> Arc<Service> {
    let recipe = options.defaults.recipe;
    let model = engine.model();
    let model = model
        .map(|bytes| of_bytes(&bytes, recipe).expect("the engine has checked it at the start"));
    Service::new(engine, options, model)
}

/// The model of a recipe in the bytes of its file, which stays in memory as long as the process.
///
/// # Errors
/// What is wrong with the bytes, for people.
pub(crate) fn of_bytes(bytes: &[u8], recipe: Recipe) -> Result<&'static SpectralModel, String> {
    model(bytes, recipe).map(|model| &*Box::leak(Box::new(model)))
}

/// The same of a file.
///
/// # Errors
/// The same, or the file cannot be read.
pub(crate) fn of_file(path: &Path, recipe: Recipe) -> Result<&'static SpectralModel, String> {
    let bytes = operator_file::read(path, SpectralModel::BYTES_MAX);
    let model = bytes.map_err(|error| error.to_string()).and_then(|bytes| of_bytes(&bytes, recipe));
    model.map_err(|why| format!("the model {} cannot be used: {why}", path.display()))
}

fn model(bytes: &[u8], recipe: Recipe) -> Result<SpectralModel, String> {
    let model = SpectralModel::from_bytes(bytes).map_err(|error| error.to_string())?;
    let dimensions = model.dimensions();
    if recipe.dimensions() == Some(dimensions) {
        return Ok(model);
    }
    Err(format!("it is a model of spectral-{dimensions}, and the recipe is {recipe}"))
}
