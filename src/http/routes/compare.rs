//! `/v1/compare`: compares two documents, given or stored; stores nothing.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use nearprint_engine::document::{DocumentId, Namespace};
use nearprint_service::{Caller, Needs, Prepared, Setting, prepare};
use nearprint_wire::answer::{CompareReply, ComparisonExplanationReply};
use nearprint_wire::offer::{DocumentFields, FieldSet as _, OfferOptions, OfferedId};

use crate::http::problem::{Code, Problem};
use crate::http::reply;
use crate::http::request::caller::caller_of;
use crate::http::request::json;
use crate::http::request::prepare::of_fields;
use crate::http::request::types::{CompareRequest, ComparedFields, Comparison};
use crate::http::service::HttpService;

/// Compare two documents.
///
/// `duplicate` says whether a look-up of one would count the other. Stores nothing. A document that
/// has an `id` and no content is the one that is stored with that id.
#[utoipa::path(post, path = "/v1/compare", tag = "look up",
    request_body = CompareRequest,
    responses((status = 200, description = "How near the two documents are", body = CompareReply)))]
pub(crate) async fn post_compare(
    State(http): State<Arc<HttpService>>,
    request: Request,
) -> Result<Response, Problem> {
    let caller = caller_of(request.extensions());
    let client = &caller.client;
    let takes = "two documents as application/json";
    let body = json::whole_body(&http.bodies, request, takes).await?;
    let service = &http.service;
    let setting = service.setting();
    let bytes = body.bytes.len();
    let work = move || read(&body.bytes, &setting);
    let (options, [a, b]) = service.analyse(client, bytes, work).await??;
    let criteria = prepare::query_options(&options, true, &setting.defaults)?.criteria;
    let given = (&options, &setting);
    let a = a.found(&http, &caller, given).await.map_err(|problem| problem.inside("a"))?;
    let b = b.found(&http, &caller, given).await.map_err(|problem| problem.inside("b"))?;
    let explanation =
        || ComparisonExplanationReply::new(a.explained.as_deref(), b.explained.as_deref());
    let reply = CompareReply {
        explanation: a.explain.then(explanation),
        ..CompareReply::new([&a.document, &b.document], (criteria, a.least))
    };
    Ok(reply::json(service.replies().answer(client, reply, None)?))
}

/// A document of a comparison.
enum Side {
    /// The one in the request.
    Given(Box<Prepared>),
    /// One that is stored.
    Stored(Option<Namespace>, DocumentId),
}

impl Side {
    /// The document, of the store if it has to be found there.
    async fn found(
        self,
        http: &HttpService,
        caller: &Caller,
        (options, setting): (&OfferOptions, &Setting),
    ) -> Result<Prepared, Problem> {
        let (namespace, id) = match self {
            Self::Given(prepared) => return Ok(*prepared),
            Self::Stored(namespace, id) => (namespace, id),
        };
        let found = http.service.document(caller, (namespace.as_ref(), &id)).await;
        let (stored, _) = found.map_err(|refusal| refusal.of_field("id"))?;
        let document = stored.document;
        let bare = prepare::bare(document.fingerprint, None, options.clone(), setting)?;
        Ok(Prepared { document, ..bare })
    }
}

/// The options of both documents, and what the request says of each.
fn read(json: &[u8], setting: &Setting) -> Result<(OfferOptions, [Side; 2]), Problem> {
    let Comparison { pair, options } = Comparison::read(json)?;
    // Checking them is cheap, and a wrong one should not cost an analysis.
    prepare::query_options(&options, true, &setting.defaults)?;
    let a = side(pair.a, "a", &options, setting)?;
    let b = side(pair.b, "b", &options, setting)?;
    Ok((options, [a, b]))
}

fn side(
    document: Option<ComparedFields<'_>>,
    name: &'static str,
    options: &OfferOptions,
    setting: &Setting,
) -> Result<Side, Problem> {
    let missing =
        || Problem::new(Code::DocumentMissing, "A comparison needs two documents, a and b.");
    let ComparedFields(mut fields) = document.ok_or_else(|| missing().of_field(name))?;
    let namespace = fields.options.namespace.take();
    if let Some(id) = id_alone(&fields.document) {
        return Ok(Side::Stored(namespace, id.clone()));
    }
    if namespace.is_some() {
        let detail = "A namespace is that of a stored document, which has an id and nothing else.";
        let unknown = Problem::new(Code::UnknownField, detail).of_field("namespace");
        return Err(unknown.inside(name));
    }
    fields.options = fields.options.or(options.clone());
    let given = of_fields(fields, Needs::QUERY, setting).map_err(|problem| problem.inside(name))?;
    Ok(Side::Given(Box::new(given)))
}

/// The id of a document that has nothing else.
fn id_alone<'f>(fields: &'f DocumentFields<'_>) -> Option<&'f DocumentId> {
    let DocumentFields { text, html, features, vector, fingerprint, recipe, sketch, id } = fields;
    let Some(OfferedId::Given(id)) = id else { return None };
    let has_text = text.is_some() || html.is_some();
    let has_content = has_text || features.is_some() || vector.is_some() || fingerprint.is_some();
    (!has_content && recipe.is_none() && sketch.is_none()).then_some(id)
}
