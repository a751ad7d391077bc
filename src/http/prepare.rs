//! From the bytes of a request to a document with its options: the way in of every route.
//!
//! Pure and CPU-bound (a few microseconds for a fingerprint, about 10 ns a byte for text); the
//! caller decides on which thread it runs.

use std::borrow::Cow;

use super::QueryDefaults;
use super::body::Kind;
use super::fields::{self, Asked, Field, Fields};
use super::parameters::Parameters;
use super::problem::{Code, Problem, quoted};
use crate::document::{Document, DocumentId};
use crate::engine::QueryOptions;
use crate::fingerprint::{Distance, Fingerprint};
use crate::machine::query::Criteria;
use crate::sketch::MinResemblance;
use crate::text::{self, Analysis, Explanation, Wanted};

/// The types of body that a single document may come in, for people.
pub(super) const TAKES: &str = "application/json, text/plain or text/html";

/// What one kind of request takes.
#[derive(Debug)]
pub(super) struct Shape {
    /// The fields of its JSON object.
    pub(super) fields: &'static [Field],
    /// The query parameters of a single request.
    pub(super) parameters: &'static [Field],
    /// The query parameters of a batch: defaults for its lines.
    pub(super) batch_parameters: &'static [Field],
    /// What of a text beside its fingerprint is stored, compared or shown.
    pub(super) wanted: Wanted,
}

/// `/v1/fingerprint`.
pub(super) const FINGERPRINT: Shape = Shape {
    fields: &[
        Field::Text,
        Field::Html,
        Field::Features,
        Field::Fingerprint,
        Field::Recipe,
        Field::Id,
        Field::Explain,
    ],
    parameters: &[Field::Id, Field::Explain],
    batch_parameters: &[Field::Explain],
    wanted: Wanted { sketch: false, features: true },
};

/// `/v1/query`.
pub(super) const QUERY: Shape = Shape {
    fields: &[
        Field::Text,
        Field::Html,
        Field::Features,
        Field::Fingerprint,
        Field::Recipe,
        Field::Id,
        Field::Distance,
        Field::Limit,
        Field::MinSimilarity,
    ],
    parameters: &[Field::Id, Field::Distance, Field::Limit, Field::MinSimilarity],
    batch_parameters: &[Field::Distance, Field::Limit, Field::MinSimilarity],
    wanted: Wanted::STORED,
};

/// `/v1/insert`, and the documents of `/v1/compare`.
pub(super) const INSERT: Shape = Shape {
    fields: &[
        Field::Text,
        Field::Html,
        Field::Features,
        Field::Fingerprint,
        Field::Recipe,
        Field::Id,
    ],
    parameters: &[Field::Id],
    batch_parameters: &[],
    wanted: Wanted::STORED,
};

/// `/v1/check-and-insert`.
pub(super) const CHECK_AND_INSERT: Shape = Shape {
    fields: &[
        Field::Text,
        Field::Html,
        Field::Features,
        Field::Fingerprint,
        Field::Recipe,
        Field::Id,
        Field::Distance,
        Field::Limit,
        Field::MinSimilarity,
        Field::OnDuplicate,
    ],
    parameters: &[
        Field::Id,
        Field::Distance,
        Field::Limit,
        Field::MinSimilarity,
        Field::OnDuplicate,
    ],
    batch_parameters: &[Field::Distance, Field::Limit, Field::MinSimilarity, Field::OnDuplicate],
    wanted: Wanted::STORED,
};

/// A document with its options, ready for the engine.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) document: Document,
    /// Distinct features, where they were wanted; `None` for a bare fingerprint.
    pub(super) features: Option<usize>,
    pub(super) explanation: Option<Box<Explanation>>,
    pub(super) options: QueryOptions,
    /// The threshold in `options`, as it was asked.
    pub(super) min_similarity: f64,
    pub(super) store_duplicates: bool,
}

/// Reads the body of a single request.
pub(super) fn single(
    kind: &Kind,
    body: &[u8],
    shape: &'static Shape,
    parameters: &Parameters,
    defaults: &QueryDefaults,
) -> Result<Prepared, Problem> {
    match kind {
        Kind::Json => {
            let mut fields = fields::parse(body, shape.fields)?;
            // What the URL and the body both say may differ; so saying it twice is refused.
            let twice = fields
                .asked
                .given_in_both(parameters.asked)
                .or_else(|| (fields.id.is_some() && parameters.id.is_some()).then_some(Field::Id));
            if let Some(field) = twice {
                let detail = "The field is in the body and in the query string.";
                return Err(Problem::new(Code::RepeatedField, detail).of_field(field.name()));
            }
            fields.id = fields.id.or_else(|| parameters.id.clone());
            of_fields(fields, parameters.asked, shape.wanted, defaults)
        }
        Kind::Text(charset) => {
            let text = decoded(body, charset.as_deref(), false)?;
            raw(Text::Plain(text), parameters, shape.wanted, defaults)
        }
        Kind::Html(charset) => {
            let html = decoded(body, charset.as_deref(), true)?;
            raw(Text::Html(html), parameters, shape.wanted, defaults)
        }
        Kind::Ndjson => Err(not_a_single("the /batch resource of the same name")),
        Kind::Packed => Err(not_a_single("/v1/insert/batch and its like")),
    }
}

/// Reads one line of a batch; `defaults_of_batch` are its query parameters.
pub(super) fn line(
    json: &[u8],
    shape: &'static Shape,
    defaults_of_batch: Asked,
    defaults: &QueryDefaults,
) -> Result<Prepared, Problem> {
    of_fields(fields::parse(json, shape.fields)?, defaults_of_batch, shape.wanted, defaults)
}

/// A bare fingerprint with its options.
pub(super) fn bare(
    fingerprint: Fingerprint,
    id: Option<DocumentId>,
    asked: Asked,
    defaults: &QueryDefaults,
) -> Result<Prepared, Problem> {
    finish(Source::Fingerprint(fingerprint), id, asked, Wanted::STORED, defaults)
}

/// Refuses a recipe that is not the server's.
pub(super) fn check_recipe(recipe: Option<&str>) -> Result<(), Problem> {
    match recipe {
        None | Some(text::recipe::ID) => Ok(()),
        Some(other) => Err(Problem::new(
            Code::RecipeMismatch,
            format!(
                "This service compares fingerprints of the recipe {}, not {}.",
                text::recipe::ID,
                quoted(other)
            ),
        )
        .of_field("recipe")),
    }
}

/// A document out of the fields of its JSON object.
pub(super) fn of_fields(
    fields: Fields<'_>,
    asked: Asked,
    wanted: Wanted,
    defaults: &QueryDefaults,
) -> Result<Prepared, Problem> {
    check_recipe(fields.recipe.as_deref())?;
    let asked = fields.asked.or(asked);
    let forms = [
        fields.text.map(Text::Plain).map(Source::Text),
        fields.html.map(Text::Html).map(Source::Text),
        fields.features.map(Text::Features).map(Source::Text),
        fields.fingerprint.map(Source::Fingerprint),
    ];
    let mut forms = forms.into_iter().flatten();
    match (forms.next(), forms.next()) {
        (Some(source), None) => finish(source, fields.id, asked, wanted, defaults),
        (None, _) => Err(Problem::new(
            Code::DocumentMissing,
            "A document needs one of text, html, features, fingerprint.",
        )),
        (Some(first), Some(second)) => Err(Problem::new(
            Code::DocumentAmbiguous,
            format!(
                "A document has one of text, html, features, fingerprint; this one has {} and {}.",
                first.field().name(),
                second.field().name()
            ),
        )
        .of_field(second.field().name())),
    }
}

/// The form in which a document came.
enum Source<'a> {
    Text(Text<'a>),
    Fingerprint(Fingerprint),
}

/// What is still to become a fingerprint.
enum Text<'a> {
    Plain(Cow<'a, str>),
    Html(Cow<'a, str>),
    Features(fields::Features<'a>),
}

impl Source<'_> {
    const fn field(&self) -> Field {
        match self {
            Self::Text(Text::Plain(_)) => Field::Text,
            Self::Text(Text::Html(_)) => Field::Html,
            Self::Text(Text::Features(_)) => Field::Features,
            Self::Fingerprint(_) => Field::Fingerprint,
        }
    }
}

fn raw(
    text: Text<'_>,
    parameters: &Parameters,
    wanted: Wanted,
    defaults: &QueryDefaults,
) -> Result<Prepared, Problem> {
    finish(Source::Text(text), parameters.id.clone(), parameters.asked, wanted, defaults)
}

fn finish(
    source: Source<'_>,
    id: Option<DocumentId>,
    asked: Asked,
    wanted: Wanted,
    defaults: &QueryDefaults,
) -> Result<Prepared, Problem> {
    // Options first: they cost nothing, and a wrong one should not cost an analysis.
    let options = query_options(asked, defaults)?;
    let explain = asked.explain == Some(true);
    let (document, features, explanation) = match source {
        Source::Fingerprint(fingerprint) => {
            (Document { id, ..Document::bare(fingerprint) }, None, None)
        }
        Source::Text(text) => {
            let (analysis, explanation) = analyse(text, explain, wanted)?;
            let features = analysis.features;
            (document_of(id, analysis), features, explanation)
        }
    };
    Ok(Prepared {
        document,
        features,
        explanation,
        options,
        min_similarity: asked.min_similarity.unwrap_or(defaults.min_similarity),
        store_duplicates: asked.store_duplicates == Some(true),
    })
}

/// The analysis of a source that is not a fingerprint already.
fn analyse(
    source: Text<'_>,
    explain: bool,
    wanted: Wanted,
) -> Result<(Analysis, Option<Box<Explanation>>), Problem> {
    if explain {
        let (analysis, explanation) = explained(source)?;
        return Ok((analysis, Some(Box::new(explanation))));
    }
    let analysis = match source {
        Text::Plain(text) => text::analyse(text::Source::Text(&text), wanted)?,
        Text::Html(html) => text::analyse(text::Source::Html(&html), wanted)?,
        Text::Features(features) => text::analyse_features(
            features.iter().map(|(token, weight)| (token.as_ref(), *weight)),
        )?,
    };
    Ok((analysis, None))
}

fn explained(source: Text<'_>) -> Result<(Analysis, Explanation), Problem> {
    let explained = match source {
        Text::Plain(text) => text::explain(text::Source::Text(&text)),
        Text::Html(html) => text::explain(text::Source::Html(&html)),
        Text::Features(features) => {
            let features: Vec<_> =
                features.into_iter().map(|(token, weight)| (token.into_owned(), weight)).collect();
            text::explain(text::Source::Features(&features))
        }
    };
    Ok(explained?)
}

fn document_of(id: Option<DocumentId>, analysis: Analysis) -> Document {
    Document {
        id,
        fingerprint: analysis.fingerprint,
        sketch: analysis.sketch,
        short: analysis.short,
    }
}

/// The options of a look-up, each in its range.
pub(super) fn query_options(
    asked: Asked,
    defaults: &QueryDefaults,
) -> Result<QueryOptions, Problem> {
    let max = defaults.distance_max;
    let distance = match asked.distance {
        None => defaults.distance,
        Some(bits) => u8::try_from(bits)
            .ok()
            .and_then(Distance::new)
            .filter(|distance| *distance <= max)
            .ok_or_else(|| above_max(bits, max))?,
    };
    let limit = match asked.limit {
        None => defaults.limit,
        Some(limit) => usize::try_from(limit)
            .ok()
            .filter(|limit| (1..=QueryDefaults::LIMIT_MAX).contains(limit))
            .ok_or_else(|| {
                Problem::invalid("limit", format!("limit is {limit}; it takes 1 to 1000."))
            })?,
    };
    let min_similarity = asked.min_similarity.unwrap_or(defaults.min_similarity);
    if !(0.0..=1.0).contains(&min_similarity) {
        let detail = "min_similarity takes a number, 0 to 1.";
        return Err(Problem::invalid("min_similarity", detail));
    }
    Ok(QueryOptions {
        criteria: Criteria {
            distance,
            min_resemblance: MinResemblance::of_similarity(min_similarity),
        },
        limit,
    })
}

fn above_max(bits: u64, max: Distance) -> Problem {
    Problem::new(
        Code::DistanceAboveMax,
        format!("distance is {bits}; this service looks up 0 to {max}."),
    )
    .of_field("distance")
}

fn decoded<'a>(body: &'a [u8], charset: Option<&str>, html: bool) -> Result<Cow<'a, str>, Problem> {
    text::charset::decode(body, charset, html).map_err(|_| {
        Problem::new(
            Code::UnsupportedCharset,
            format!(
                "{} is no charset of the Encoding Standard.",
                quoted(charset.unwrap_or_default())
            ),
        )
    })
}

fn not_a_single(place: &str) -> Problem {
    super::body::unsupported(format!(
        "This resource takes one document, as {TAKES}; for many there is {place}."
    ))
}
