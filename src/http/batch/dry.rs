//! Batches that store nothing: each document goes through all that a line of a batch goes through
//! before the engine has it, without a service.

use std::sync::OnceLock;

use nearprint_engine::Engine;
use nearprint_files::Entry;
use nearprint_text::Recipe;
use nearprint_wire::offer::{Content, OfferOptions};

use crate::http::batch::direct::on_all_cores;
use crate::http::batch::run::Operation;
use crate::http::batch::source;
use crate::http::options::{HttpOptions, RequestDefaults};
use crate::http::problem::Problem;
use crate::http::request::prepare::{self, Setting};

/// A batch that is checked, with the limits of a configuration.
#[derive(Debug)]
pub(crate) struct DryBatch {
    http: HttpOptions,
    operation: Operation,
    options: OfferOptions,
    /// Of the first vector.
    dimensions: OnceLock<u16>,
}

impl DryBatch {
    /// A batch with these query parameters, the options of all its documents.
    ///
    /// # Errors
    /// An option that is wrong for every document, as in a batch over HTTP.
    pub(crate) fn new(
        http: HttpOptions,
        operation: Operation,
        query: Option<&str>,
    ) -> Result<Self, Problem> {
        let options = operation.request().batch_parameters(query)?.options;
        Ok(Self { http, operation, options, dimensions: OnceLock::new() })
    }

    /// For each document, why it would be refused. Analyses them on all cores.
    pub(crate) fn run(&self, entries: &[&Entry]) -> Vec<Option<Problem>> {
        // The first vector of the files decides how many dimensions all have.
        for entry in entries {
            self.recipe(&entry.content);
        }
        on_all_cores(entries, &|entry| self.refused(entry).err())
    }

    fn refused(&self, entry: &Entry) -> Result<(), Problem> {
        let line = entry.to_json();
        if line.len() > self.http.line_bytes_max {
            return Err(source::line_too_large(&self.http));
        }
        let recipe = self.recipe(&entry.content);
        let defaults = RequestDefaults { recipe, ..self.http.defaults };
        let setting = Setting { defaults, now_ms: Engine::now_ms() };
        let request = self.operation.request();
        prepare::line(line.as_bytes(), request, &self.options, &setting).map(drop)
    }

    /// The recipe of the configuration. For vectors and features, which services of other recipes
    /// take, the one of these: a model is in the directory of the service, so hyperplanes stand in.
    fn recipe(&self, content: &Content<'_>) -> Recipe {
        match (content, self.http.defaults.recipe) {
            (
                Content::Vector(_),
                Recipe::Hyperplanes { dimensions } | Recipe::Spectral { dimensions },
            ) => Recipe::Hyperplanes { dimensions },
            (Content::Vector(vector), _) => {
                let own = || u16::try_from(vector.len()).unwrap_or(u16::MAX);
                Recipe::Hyperplanes { dimensions: *self.dimensions.get_or_init(own) }
            }
            (Content::Features(_), _) => Recipe::Features,
            (Content::Text(_) | Content::Html(_) | Content::Fingerprint(_), own) => own,
        }
    }
}
