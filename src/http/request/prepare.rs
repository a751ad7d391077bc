//! Makes a document with its options from the bytes of a request, for every route.
//!
//! Pure and CPU-bound (a few microseconds for a fingerprint, about 4 ns a byte for text); the
//! caller decides on which thread it runs.

use bytes::Bytes;
use nearprint_engine::document::{Document, DocumentId, Metadata};
use nearprint_engine::{Insert, QueryOptions, StoreOptions};
use nearprint_fingerprint::{Distance, Fingerprint, Sketch};
use nearprint_machine::query::Criteria;
use nearprint_text::{Analysis, Explained, Method, charset};
use nearprint_wire::offer::{
    Content, DuplicateAction, ExpiresIn, FieldSet as _, FingerprintOrigin, IdSource, Offer,
    OfferOptions, OfferedId, OfferedMetadata,
};
use xxhash_rust::xxh3::xxh3_128;

use crate::http::options::RequestDefaults;
use crate::http::problem::{Code, Problem, quoted};
use crate::http::reply::agreement::Least;
use crate::http::request::body::{ContentKind, WholeBody};
use crate::http::request::lifetime::Lifetime;
use crate::http::request::types::{Needs, Parameters, RequestFields, RequestKind};

/// The types of the body of a single document, in words for the client.
pub(crate) const TAKES: &str = "application/json, text/plain, text/html or application/xhtml+xml";

/// What a request is read against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) defaults: RequestDefaults,
    /// The time at which it came, in milliseconds since 1970.
    pub(crate) now_ms: u64,
}

/// A document with its options, ready for the engine.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) document: Document,
    /// Distinct features, if they were wanted; `None` for a bare fingerprint.
    pub(crate) features: Option<usize>,
    /// Whether the request wants an explanation; a bare fingerprint has none.
    pub(crate) explain: bool,
    pub(crate) explained: Option<Box<Explained>>,
    pub(crate) options: QueryOptions,
    /// The thresholds in `options`, as the request has them.
    pub(crate) least: Least,
    pub(crate) storing: StoreOptions,
}

impl Prepared {
    /// The command that stores it without a look-up.
    pub(crate) fn into_insert(self) -> Insert {
        Insert { document: self.document, renews: self.storing.renew }
    }
}

/// Reads the body of a single request.
pub(crate) fn single(
    kind: &ContentKind,
    mut body: WholeBody,
    request: &RequestKind,
    parameters: Parameters,
    setting: &Setting,
) -> Result<Prepared, Problem> {
    let Parameters { named, options } = parameters;
    if named.id.is_some() && options.id_from.is_some() {
        let detail = "A document has either id or id_from, not both.";
        return Err(Problem::invalid("id_from", detail));
    }
    let id = named.id.map(OfferedId::Given);
    match kind {
        ContentKind::Json => {
            let mut fields = request.fields(&body.bytes)?;
            // The URL and the body may contradict each other, so a field in both is refused.
            let has_id = id.is_some() || options.id_from.is_some();
            let id_twice = (fields.document.id.is_some() && has_id).then_some("id");
            if let Some(field) = fields.options.given_in_both(&options).or(id_twice) {
                let detail = "The field is in the body and in the query string.";
                return Err(Problem::new(Code::RepeatedField, detail).of_field(field));
            }
            if fields.is_a_copy() {
                fields = fields.into_copy();
                // Or a large page would be in memory twice. Its share stays reserved.
                body.bytes = Bytes::new();
            }
            fields.document.id = fields.document.id.or(id);
            fields.options = fields.options.or(options);
            of_fields(fields, request.needs, setting)
        }
        ContentKind::Text(label) | ContentKind::Html(label) | ContentKind::Xhtml(label) => {
            let html = !matches!(kind, ContentKind::Text(_));
            let text = charset::decode_or_guess(&body.bytes, label.as_deref(), html);
            let content = match kind {
                ContentKind::Xhtml(_) => Content::Html(nearprint_text::declared_as_xml(text)),
                ContentKind::Html(_) => Content::Html(text),
                ContentKind::Text(_)
                | ContentKind::Json
                | ContentKind::Ndjson
                | ContentKind::Packed => Content::Text(text),
            };
            let origin = FingerprintOrigin::default();
            offer(Offer { content, id, origin, options }, request.needs, setting)
        }
        ContentKind::Ndjson => Err(not_a_single("the /batch resource of the same name")),
        ContentKind::Packed => Err(not_a_single("/v1/insert/batch and its like")),
    }
}

/// Reads one line of a batch; `defaults_of_batch` are its query parameters.
pub(crate) fn line(
    json: &[u8],
    request: &RequestKind,
    defaults_of_batch: &OfferOptions,
    setting: &Setting,
) -> Result<Prepared, Problem> {
    let mut fields = request.fields(json)?;
    fields.options = fields.options.or_of_batch(defaults_of_batch);
    of_fields(fields, request.needs, setting)
}

/// A bare fingerprint with its options.
pub(crate) fn bare(
    fingerprint: Fingerprint,
    id: Option<DocumentId>,
    options: OfferOptions,
    setting: &Setting,
) -> Result<Prepared, Problem> {
    let (content, id) = (Content::Fingerprint(fingerprint), id.map(OfferedId::Given));
    let origin = FingerprintOrigin::default();
    offer(Offer { content, id, origin, options }, Needs::QUERY, setting)
}

/// Refuses a recipe other than that of the service.
pub(crate) fn check_recipe(named: Option<&str>, defaults: &RequestDefaults) -> Result<(), Problem> {
    let Some(named) = named else { return Ok(()) };
    let own = defaults.recipe;
    if named.parse() == Ok(own) {
        return Ok(());
    }
    let detail =
        format!("This service compares fingerprints of the recipe {own}, not {}.", quoted(named));
    Err(Problem::new(Code::RecipeMismatch, detail).of_field("recipe"))
}

/// A document from the fields of its JSON object.
pub(crate) fn of_fields(
    fields: RequestFields<'_>,
    needs: Needs,
    setting: &Setting,
) -> Result<Prepared, Problem> {
    let RequestFields { mut document, options } = fields;
    check_recipe(document.recipe.as_deref(), &setting.defaults)?;
    let origin = document.origin();
    let mut contents = document.contents();
    match (contents.next(), contents.next()) {
        (Some(content), None) => {
            offer(Offer { content, id: document.id, origin, options }, needs, setting)
        }
        (None, _) => Err(Problem::new(
            Code::DocumentMissing,
            "A document needs one of text, html, features, vector, fingerprint.",
        )),
        (Some(first), Some(second)) => Err(Problem::new(
            Code::DocumentAmbiguous,
            format!(
                "A document has one of text, html, features, vector, fingerprint; this one has {} and {}.",
                first.field(),
                second.field()
            ),
        )
        .of_field(second.field())),
    }
}

/// The sketch of the text of a fingerprint, which a document in another form makes by itself.
fn sketch_of_fingerprint(
    origin: FingerprintOrigin,
    content: &Content<'_>,
    defaults: &RequestDefaults,
) -> Result<Option<Box<Sketch>>, Problem> {
    let FingerprintOrigin { recipe, sketch } = origin;
    check_recipe(recipe.as_deref(), defaults)?;
    let refused = |detail| Err(Problem::invalid("sketch", detail));
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
pub(crate) fn offer(
    offer: Offer<'_>,
    needs: Needs,
    setting: &Setting,
) -> Result<Prepared, Problem> {
    let Offer { content, id, origin, options } = offer;
    let Setting { defaults, now_ms } = setting;
    // Options first: checking them is cheap, and a wrong one should not cost an analysis.
    let query = query_options(&options, needs.all_hits, defaults)?;
    let least = Least::of(&options, defaults)?;
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
fn checked(metadata: OfferedMetadata, defaults: &RequestDefaults) -> Result<Metadata, Problem> {
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
    Err(Problem::new(Code::MetadataTooLarge, detail).of_field("metadata"))
}

/// An id that may need the fingerprint, which is known last.
enum IdMaker {
    Known(Option<DocumentId>),
    FromFingerprint,
}

impl IdMaker {
    fn new(id: Option<OfferedId>, content: &Content<'_>) -> Result<Self, Problem> {
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
                Err(Problem::invalid("id", detail))
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
pub(crate) fn query_options(
    options: &OfferOptions,
    wants_all_hits: bool,
    defaults: &RequestDefaults,
) -> Result<QueryOptions, Problem> {
    let max = defaults.distance_max;
    let distance = match options.distance {
        None => defaults.distance,
        Some(bits) => u8::try_from(bits)
            .ok()
            .and_then(Distance::new)
            .filter(|distance| *distance <= max)
            .ok_or_else(|| {
                let detail = format!("distance is {bits}; this service looks up 0 to {max}.");
                Problem::new(Code::DistanceAboveMax, detail).of_field("distance")
            })?,
    };
    let limit = match options.limit {
        None => defaults.limit,
        Some(limit) => usize::try_from(limit)
            .ok()
            .filter(|limit| (1..=RequestDefaults::LIMIT_MAX).contains(limit))
            .ok_or_else(|| {
                Problem::invalid("limit", format!("limit is {limit}; it takes 1 to 1000."))
            })?,
    };
    let threshold = Least::of(options, defaults)?.threshold();
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

fn max_age(seconds: u64) -> Result<u32, Problem> {
    let seconds_max = u32::try_from(seconds).ok().filter(|seconds| *seconds > 0);
    seconds_max.ok_or_else(|| {
        let detail = format!("max_age is {seconds}; it takes whole seconds, 1 to {}.", u32::MAX);
        Problem::invalid("max_age", detail)
    })
}

fn not_a_single(place: &str) -> Problem {
    crate::http::request::body::unsupported(format!(
        "This resource takes one document, as {TAKES}; for many there is {place}."
    ))
}
