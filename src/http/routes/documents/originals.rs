//! `GET /v1/originals`: the documents with the most duplicates.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use nearprint_engine::document::Sequence;
use nearprint_engine::{ListPlace, OriginalsOrder, OriginalsQuery};

use crate::http::budget;
use crate::http::cipher::{Cipher, Kind, Purpose};
use crate::http::problem::Problem;
use crate::http::reply::documents::{OriginalsReply, Showing};
use crate::http::request::parameters;
use crate::http::request::reach::NamespaceAccess;
use crate::http::request::selection::{
    Cursor, OriginalsParameters, SelectionParts, namespaces, page_limit,
};
use crate::http::service::Service;
use crate::http::shares::client_of;

/// List the documents with the most duplicates.
///
/// Those that a check-and-insert named as the original of a duplicate. The counts are approximate
/// after a crash, which loses what was counted since the last snapshot.
#[utoipa::path(get, path = "/v1/originals", tag = "documents",
    params(OriginalsParameters),
    responses((status = 200, description = "A page", body = OriginalsReply<'_>)))]
pub(crate) async fn get_originals(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    request: Request,
) -> Result<Response, Problem> {
    let parameters: OriginalsParameters = parameters::read(request.uri().query())?;
    let limit = page_limit(parameters.limit)?;
    let order = parameters.order.unwrap_or(OriginalsOrder::Duplicates);
    let chosen = namespaces(parameters.namespace, parameters.all_namespaces, &reach)?;
    let by = match order {
        OriginalsOrder::Duplicates => "duplicates",
        OriginalsOrder::Recent => "recent",
    };
    let list = Purpose::from(Kind::Originals).of_namespaces(&chosen).with(Some(by));
    let after = parameters.after.map(|after| place(&after, &list, &service.cipher)).transpose()?;
    let parts = SelectionParts::from(parameters.include);
    let (bytes_max, share) = service.replies.page(&client_of(request.extensions()));
    let query = OriginalsQuery { reach: chosen, order, after };
    let engine = service.engine_for(request.extensions());
    let page = engine.originals(query, parts.page(limit, bytes_max)).await?;
    let recipe = service.options.defaults.recipe;
    let next = page.next.map(|place| service.cipher.encrypt(&list, value(place)));
    let showing = Showing { parts, recipe, reach };
    Ok(budget::page(&OriginalsReply::new(&page, &showing, next), share))
}

/// The place at which a page begins.
fn place(after: &Cursor, list: &Purpose, cipher: &Cipher) -> Result<ListPlace, Problem> {
    let value: u128 = Cursor::decrypted(Some(after), list, cipher)?;
    Ok(((value >> u64::BITS) as u32, Sequence::new(value as u64)))
}

/// A place as one value.
fn value((number, sequence): ListPlace) -> u128 {
    u128::from(number) << u64::BITS | u128::from(sequence.get())
}
