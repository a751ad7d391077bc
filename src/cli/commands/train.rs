//! `train`: learns the model of a recipe from a sample of documents, without a service.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use nearprint_files::atomic_file::AtomicFile;
use nearprint_files::destination::Destination;
use nearprint_files::{Documents, Format};
use nearprint_text::Recipe;
use nearprint_text::{SAMPLE_MIN, TrainingSample, check_vector};
use nearprint_wire::offer::Content;

use crate::cli::error_report::ErrorReport;
use crate::cli::measure::numbers::count;
use crate::cli::messages::StandardError;
use crate::cli::outputs::{self, cut_short};

/// How often the progress is printed, in vectors.
const PROGRESS_VECTORS: u64 = 10_000;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TrainArgs {
    #[command(subcommand)]
    model: Model,
}

#[derive(Debug, clap::Subcommand)]
enum Model {
    /// Learn a model of spectral-D: principal directions and the ranges of vectors along them
    Spectral(SpectralArgs),
}

const EXAMPLES: &str = "\
Examples:
  nearprint train spectral --output vectors.model sample.jsonl";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
struct SpectralArgs {
    /// Files of NDJSON, a document with `vector` a line, compressed or not; - is the standard
    /// input. Of many vectors a uniform sample is kept: at most 20,000, and 256 MiB
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Where to write the model: a file that does not exist, a pipe, or - for the standard output
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

pub(crate) fn run(args: &TrainArgs, out: &mut dyn Write) -> Result<()> {
    let Model::Spectral(args) = &args.model;
    let destinations = outputs::checked(&[("--output", &*args.output)], &args.files)?;
    if destinations.iter().any(|one| matches!(one, Destination::File(path) if path.exists())) {
        let what = format!("cannot write {}: it exists already", args.output.display());
        return Err(ErrorReport::new(what, "choose a name that is not taken").into());
    }
    let sample = sample(&args.files)?;
    let model = sample
        .learn(&mut |sweep| say!("learning from {} vectors: sweep {sweep}", sample.kept()))
        .map_err(|error| {
            let next = "name files with more vectors, of different directions";
            ErrorReport::new("there is no model", next).because(error)
        })?;
    let written = AtomicFile::create(&args.output, None).and_then(|mut file| {
        file.write_all(&model.to_bytes())?;
        file.finish()
    });
    written
        .with_context(|| format!("cannot write {}", args.output.display()))
        .map_err(|error| cut_short(&args.output, error))?;
    let recipe = Recipe::Spectral { dimensions: model.dimensions() };
    let mut standard_error = StandardError;
    let is_stdout = destinations.contains(&Destination::StandardOutput);
    let out = if is_stdout { &mut standard_error } else { out };
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
            say!("{} vectors read", count(seen));
        }
    }
    if let Some((_, sample)) = sample {
        Ok(sample)
    } else {
        let next = format!("name files with at least {SAMPLE_MIN} vectors");
        Err(ErrorReport::new("nothing was read", next).into())
    }
}
