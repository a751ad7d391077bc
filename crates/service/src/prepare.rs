//! Makes a document with its options from an offer, whoever made that.
//!
//! Pure and CPU-bound (a few microseconds for a fingerprint, about 4 ns a byte for text); the
//! caller decides on which thread it runs.

use nearprint_engine::document::{Document, DocumentId, Metadata};
use nearprint_engine::{Insert, QueryOptions, StoreOptions};
use nearprint_fingerprint::{Distance, Fingerprint, Sketch};
use nearprint_machine::query::Criteria;
use nearprint_text::{Analysis, Explained, Method, Wanted};
use nearprint_wire::answer::Least;
use nearprint_wire::code::Code;
use nearprint_wire::offer::{
    Content, DuplicateAction, ExpiresIn, FingerprintOrigin, IdSource, Offer, OfferOptions,
    OfferedId, OfferedMetadata,
};
use xxhash_rust::xxh3::xxh3_128;

use crate::lifetime::Lifetime;
use crate::options::RequestDefaults;
use crate::refusal::{Refusal, quoted};

/// What a request is read against.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// What counts where the request says nothing.
    pub defaults: RequestDefaults,
    /// The time at which it came, in milliseconds since 1970.
    pub now_ms: u64,
}

/// What a request of a kind needs.
#[derive(Debug, Clone, Copy)]
pub struct Needs {
    /// What an analysis computes in addition to the fingerprint.
    pub analysis: Wanted,
    /// Whether all hits are wanted if the request does not choose.
    pub all_hits: bool,
}

impl Needs {
    /// Those of a fingerprint that is only shown.
    pub const FINGERPRINT: Self =
        Self { analysis: Wanted { sketch: false, features: true }, all_hits: true };

    /// Those of a look-up.
    pub const QUERY: Self = Self { analysis: Wanted::STORED, all_hits: true };

    /// Those of a write: the verdict.
    pub const WRITE: Self = Self { analysis: Wanted::STORED, all_hits: false };
}

/// A document with its options, ready for the engine.
#[derive(Debug)]
pub struct Prepared {
    /// The document.
    pub document: Document,
    /// Distinct features, if they were wanted; `None` for a bare fingerprint.
    pub features: Option<usize>,
    /// Whether the request wants an explanation; a bare fingerprint has none.
    pub explain: bool,
    /// Why it has its fingerprint, if that is wanted.
    pub explained: Option<Box<Explained>>,
    /// The options of its look-up.
    pub options: QueryOptions,
    /// The thresholds in `options`, as the request has them.
    pub least: Least,
    /// What storing it does about what is stored already.
    pub storing: StoreOptions,
}

impl Prepared {
    /// The command that stores it without a look-up.
    pub fn into_insert(self) -> Insert {
        Insert { document: self.document, renews: self.storing.renew }
    }
}

/// A bare fingerprint with its options.
///
/// # Errors
/// An option has a value that it does not take.
pub fn bare(
    fingerprint: Fingerprint,
    id: Option<DocumentId>,
    options: OfferOptions,
    setting: &Setting,
) -> Result<Prepared, Refusal> {
    let (content, id) = (Content::Fingerprint(fingerprint), id.map(OfferedId::Given));
    let origin = FingerprintOrigin::default();
    offer(Offer { content, id, origin, options }, Needs::QUERY, setting)
}

/// Refuses a recipe other than that of the service.
///
/// # Errors
/// It is another.
pub fn check_recipe(named: Option<&str>, defaults: &RequestDefaults) -> Result<(), Refusal> {
    let Some(named) = named else { return Ok(()) };
    let own = defaults.recipe;
    if named.parse() == Ok(own) {
        return Ok(());
    }
    let detail =
        format!("This service compares fingerprints of the recipe {own}, not {}.", quoted(named));
    Err(Refusal::new(Code::RecipeMismatch, detail).of_field("recipe"))
}

/// The sketch of the text of a fingerprint, which a document in another form makes by itself.
fn sketch_of_fingerprint(
    origin: FingerprintOrigin,
    content: &Content<'_>,
    defaults: &RequestDefaults,
) -> Result<Option<Box<Sketch>>, Refusal> {
    let FingerprintOrigin { recipe, sketch } = origin;
    check_recipe(recipe.as_deref(), defaults)?;
    let refused = |detail| Err(Refusal::invalid("sketch", detail));
    if sketch.is_none() {
        return Ok(None);
    }
    match content {
        Content::Fingerprint(_) if recipe.is_some() => Ok(sketch),
        Content::Fingerprint(_) => {
            refused("A sketch needs the field recipe: that which made it and its fingerprint.")
        }
        Content::Text(_) | Content::Html(_) | Content::Features(_) | Content::Vector(_) => {
            refused("A sketch comes with the fingerprint of its text.")
        }
    }
}

/// A document from an offer, whoever made it.
///
/// # Errors
/// An option has a value that it does not take, or the content has no fingerprint.
pub fn offer(offer: Offer<'_>, needs: Needs, setting: &Setting) -> Result<Prepared, Refusal> {
    let Offer { content, id, origin, options } = offer;
    let Setting { defaults, now_ms } = setting;
    // Options first: checking them is cheap, and a wrong one should not cost an analysis.
    let query = query_options(&options, needs.all_hits, defaults)?;
    let least = least(&options, defaults)?;
    let expiry = Lifetime::of(&options, defaults, *now_ms)?.expiry(*now_ms);
    let metadata = options.metadata.map(|metadata| checked(metadata, defaults)).transpose()?;
    let sketch = sketch_of_fingerprint(origin, &content, defaults)?;
    let id = IdMaker::new(id.or(options.id_from.map(OfferedId::From)), &content)?;
    let extract = options.extract.unwrap_or(defaults.extract);
    let method = Method { recipe: defaults.recipe, extract, model: defaults.model };
    let explain = options.explain == Some(true);
    let (document, features, explained) = match content.into_source() {
        Err(fingerprint) => (Document { sketch, ..Document::bare(fingerprint) }, None, None),
        Ok(source) => {
            let explained = explain.then(|| Explained::of(&source, method)).transpose()?;
            let analysis = match &explained {
                Some(explained) => explained.analysis().clone(),
                None => nearprint_text::analyse(&source, method, needs.analysis)?,
            };
            let Analysis { fingerprint, features, sketch, short, .. } = analysis;
            let document = Document { sketch, short, ..Document::bare(fingerprint) };
            (document, features, explained.map(Box::new))
        }
    };
    let id = id.id(document.fingerprint);
    let namespace = options.namespace;
    Ok(Prepared {
        document: Document { namespace, id, expiry, metadata, ..document },
        features,
        explain,
        explained,
        options: query,
        least,
        storing: StoreOptions {
            store_duplicates: options.on_duplicate == Some(DuplicateAction::Insert),
            touch: options.touch != Some(false),
            // Whoever says nothing of an expiry repeats a request, and leaves it as it is.
            renew: options.expires_in == Some(ExpiresIn::Never),
        },
    })
}

/// Metadata within the configured limit.
fn checked(metadata: OfferedMetadata, defaults: &RequestDefaults) -> Result<Metadata, Refusal> {
    let max = defaults.metadata_bytes_max;
    let bytes = match metadata {
        OfferedMetadata::Fits(metadata) if metadata.as_str().len() <= max => return Ok(metadata),
        OfferedMetadata::Fits(metadata) => metadata.as_str().len(),
        OfferedMetadata::TooLarge(bytes) => bytes,
    };
    let detail = format!(
        "The metadata has {bytes} bytes without white space; it may have {max} \
         (documents.metadata_bytes_max)."
    );
    Err(Refusal::new(Code::MetadataTooLarge, detail).of_field("metadata"))
}

/// An id that may need the fingerprint, which is known last.
enum IdMaker {
    Known(Option<DocumentId>),
    FromFingerprint,
}

impl IdMaker {
    fn new(id: Option<OfferedId>, content: &Content<'_>) -> Result<Self, Refusal> {
        let source = match id {
            None => return Ok(Self::Known(None)),
            Some(OfferedId::Given(id)) => return Ok(Self::Known(Some(id))),
            Some(OfferedId::From(source)) => source,
        };
        match (source, content) {
            (IdSource::Fingerprint, _) => Ok(Self::FromFingerprint),
            (IdSource::TextHash, Content::Text(text) | Content::Html(text)) => {
                let id = format!("xxh3:{:032x}", xxh3_128(text.as_bytes()));
                Ok(Self::Known(Some(DocumentId::new(id)?)))
            }
            (
                IdSource::TextHash,
                Content::Features(_) | Content::Vector(_) | Content::Fingerprint(_),
            ) => {
                let detail = "An id from text-hash needs text or html.";
                Err(Refusal::invalid("id", detail))
            }
        }
    }

    fn id(self, fingerprint: Fingerprint) -> Option<DocumentId> {
        match self {
            Self::Known(id) => id,
            Self::FromFingerprint => {
                let id = DocumentId::new(format!("fp:{:016x}", fingerprint.bits()));
                Some(id.expect("19 bytes are an id"))
            }
        }
    }
}

/// The options of a look-up, after checking their ranges.
///
/// `wants_all_hits` is what a request that does not say so wants.
///
/// # Errors
/// One is out of its range.
pub fn query_options(
    options: &OfferOptions,
    wants_all_hits: bool,
    defaults: &RequestDefaults,
) -> Result<QueryOptions, Refusal> {
    let max = defaults.distance_max;
    let distance = match options.distance {
        None => defaults.distance,
        Some(bits) => u8::try_from(bits)
            .ok()
            .and_then(Distance::new)
            .filter(|distance| *distance <= max)
            .ok_or_else(|| {
                let detail = format!("distance is {bits}; this service looks up 0 to {max}.");
                Refusal::new(Code::DistanceAboveMax, detail).of_field("distance")
            })?,
    };
    let limit = match options.limit {
        None => defaults.limit,
        Some(limit) => {
            let max = OfferOptions::LIMIT_MAX;
            let within = Some(limit).filter(|limit| (1..=max).contains(limit));
            within.and_then(|limit| usize::try_from(limit).ok()).ok_or_else(|| {
                Refusal::invalid("limit", format!("limit is {limit}; it takes 1 to {max}."))
            })?
        }
    };
    let threshold = least(options, defaults)?.threshold();
    let max_age_s = options.max_age.map(max_age).transpose()?;
    Ok(QueryOptions {
        criteria: Criteria {
            distance,
            threshold,
            max_age_s,
            search: options.search.unwrap_or(defaults.search),
            all_hits: options.counts.unwrap_or(wants_all_hits),
        },
        limit,
        with_metadata: options.include.is_some_and(|parts| parts.metadata),
    })
}

/// The thresholds of a request, within their ranges.
fn least(options: &OfferOptions, defaults: &RequestDefaults) -> Result<Least, Refusal> {
    let similarity = options.min_similarity.unwrap_or(defaults.min_similarity);
    let numbers = options.min_numbers.unwrap_or(defaults.min_numbers);
    for (name, value) in [("min_similarity", similarity), ("min_numbers", numbers)] {
        if !(0.0..=1.0).contains(&value) {
            return Err(Refusal::invalid(name, format!("{name} takes a number, 0 to 1.")));
        }
    }
    if similarity > 0.0 {
        return Ok(Least { similarity, numbers });
    }
    if options.min_numbers.is_some_and(|numbers| numbers > 0.0) {
        let detail = "min_numbers needs a min_similarity above 0: with 0, sketches are not \
                      compared, and numbers are part of them.";
        return Err(Refusal::invalid("min_numbers", detail));
    }
    Ok(Least::default())
}

fn max_age(seconds: u64) -> Result<u32, Refusal> {
    let seconds_max = u32::try_from(seconds).ok().filter(|seconds| *seconds > 0);
    seconds_max.ok_or_else(|| {
        let detail = format!("max_age is {seconds}; it takes whole seconds, 1 to {}.", u32::MAX);
        Refusal::invalid("max_age", detail)
    })
}
