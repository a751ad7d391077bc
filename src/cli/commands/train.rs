//! `train`: learns the model of a recipe from a sample of documents, without a service.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nearprint_files::offer::Content;
use nearprint_files::{Documents, Format};
use nearprint_text::Recipe;
use nearprint_text::{SAMPLE_MIN, TrainingSample, check_vector};

use crate::cli::error_report::ErrorReport;
use crate::cli::measure::numbers::count;

/// How often the progress is printed, in vectors.
const PROGRESS_VECTORS: u64 = 10_000;

#[derive(Debug, clap::Args)]
pub(crate) struct TrainArgs {
    #[command(subcommand)]
    model: Model,
}

#[derive(Debug, clap::Subcommand)]
enum Model {
    /// Learn a model of spectral-D: principal directions and the ranges of vectors along them
    Spectral(SpectralArgs),
}

#[derive(Debug, clap::Args)]
struct SpectralArgs {
    /// Files of NDJSON, a document with `vector` a line, compressed or not; - is the standard input.
    /// Of many vectors a uniform sample is kept: at most 20,000, and 256 MiB
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Where to write the model; the file must not exist
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

pub(crate) fn run(args: &TrainArgs, out: &mut dyn Write) -> Result<()> {
    let Model::Spectral(args) = &args.model;
    let sample = sample(&args.files)?;
    let model = sample
        .learn(&mut |sweep| eprintln!("learning from {} vectors: sweep {sweep}", sample.kept()))
        .map_err(|error| {
            let next = "name files with more vectors, of different directions";
            ErrorReport::new("there is no model", next).because(error)
        })?;
    write_new(&args.output, &model.to_bytes())
        .with_context(|| format!("cannot write {}", args.output.display()))?;
    let recipe = Recipe::Spectral { dimensions: model.dimensions() };
    writeln!(
        out,
        "{}\tmodel {:032x} of {recipe}, {} directions, learned from {} vectors",
        args.output.display(),
        model.digest(),
        model.directions(),
        count(sample.kept() as u64)
    )?;
    Ok(())
}

/// A sample of the vectors of all files, which have the dimensions of the first.
fn sample(files: &[PathBuf]) -> Result<TrainingSample> {
    let mut sample: Option<(u16, TrainingSample)> = None;
    let mut seen = 0;
    for entry in Documents::new(files.to_vec(), Format::Ndjson) {
        let entry = entry?;
        let Content::Vector(vector) = &entry.content else {
            bail!("{}: the document has no `vector`", entry.place);
        };
        let own = || u16::try_from(vector.len()).unwrap_or(u16::MAX);
        let (dimensions, sample) =
            sample.get_or_insert_with(|| (own(), TrainingSample::new(own())));
        check_vector(vector, *dimensions).with_context(|| entry.place.to_string())?;
        sample.add(vector);
        seen += 1;
        if seen % PROGRESS_VECTORS == 0 {
            eprintln!("{} vectors read", count(seen));
        }
    }
    if let Some((_, sample)) = sample {
        Ok(sample)
    } else {
        let next = format!("name files with at least {SAMPLE_MIN} vectors");
        Err(ErrorReport::new("nothing was read", next).into())
    }
}

/// Writes a file that does not exist yet, whole or not at all.
#[expect(clippy::disallowed_methods, reason = "a file of the user, not of a data directory")]
fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = std::fs::File::options().write(true).create_new(true).open(path)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        drop(std::fs::remove_file(path));
    }
    written
}
