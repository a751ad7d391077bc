//! Makes a document with its options from the bytes of a request: the body of one document, or a
//! line of a batch.

use bytes::Bytes;
use nearprint_service::prepare::{check_recipe, offer};
use nearprint_service::{Needs, Prepared, Setting};
use nearprint_text::charset;
use nearprint_wire::offer::{
    Content, FieldSet as _, FingerprintOrigin, Offer, OfferOptions, OfferedId,
};

use crate::http::problem::{Code, Problem};
use crate::http::request::body::{ContentKind, WholeBody};
use crate::http::request::types::{Parameters, RequestFields, RequestKind};

/// The types of the body of a single document, in words for the client.
pub(crate) const TAKES: &str = "application/json, text/plain, text/html or application/xhtml+xml";

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
            Ok(offer(Offer { content, id, origin, options }, request.needs, setting)?)
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
            Ok(offer(Offer { content, id: document.id, origin, options }, needs, setting)?)
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

fn not_a_single(place: &str) -> Problem {
    crate::http::request::body::unsupported(format!(
        "This resource takes one document, as {TAKES}; for many there is {place}."
    ))
}
