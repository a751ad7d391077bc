//! `/v1/groups`: begins jobs that find groups of near-duplicates, and shows what they found.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use nearprint_service::{answers, budget};
use nearprint_wire::answer::{GroupsReply, JobReply, MembersReply};
use nearprint_wire::offer::{FieldValue as _, Value};

use crate::http::problem::Problem;
use crate::http::reply;
use crate::http::request::caller::CalledBy;
use crate::http::request::parameters;
use crate::http::request::selection::{GroupInPath, GroupsBody, GroupsPageParameters, JobInPath};
use crate::http::routes::jobs::{job_of, part_of_path, read_request};
use crate::http::service::HttpService;

/// Where a path such as `/v1/groups/{job}/{group}` has the group.
const GROUP_AT: usize = 4;

/// Find groups of near-duplicates.
///
/// Begins a job over the documents that are stored now, and replies at once. Two documents are in
/// one group if a chain of near-duplicates leads from one to the other.
#[utoipa::path(post, path = "/v1/groups", tag = "groups",
    request_body = GroupsBody,
    responses((status = 202, description = "The job", body = JobReply)))]
pub(crate) async fn post_groups(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    request: Request,
) -> Result<(StatusCode, Json<JobReply>), Problem> {
    let request = read_request::<GroupsBody>(&http, request).await?;
    let request = request.request(&http.service, &caller.namespaces)?;
    Ok((StatusCode::ACCEPTED, Json(http.service.begin_groups(&caller, request)?)))
}

/// Show a job that finds groups, and once it is done, the groups by pages.
#[utoipa::path(get, path = "/v1/groups/{job}", tag = "groups",
    params(JobInPath, GroupsPageParameters),
    responses((status = 200, description = "The job", body = GroupsReply<'_>)))]
pub(crate) async fn get_groups(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    request: Request,
) -> Result<Response, Problem> {
    let parameters: GroupsPageParameters = parameters::read(request.uri().query())?;
    let page = (parameters.page()?, parameters.with_metadata());
    let name = job_of(request.uri());
    let (job, listed) = http.service.groups(&caller, &name, page).await?;
    let reach = &caller.namespaces;
    Ok(reply::json(match listed {
        None => budget::page(&answers::groups(job, None, None, reach), None),
        Some(listed) => {
            let reply = answers::groups(job, Some(&listed.page), listed.next, reach);
            budget::page(&reply, listed.share)
        }
    }))
}

/// List the documents of a group, oldest first.
#[utoipa::path(get, path = "/v1/groups/{job}/{group}", tag = "groups",
    params(JobInPath,
        GroupInPath, GroupsPageParameters),
    responses((status = 200, description = "A page", body = MembersReply<'_>)))]
pub(crate) async fn get_group(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    request: Request,
) -> Result<Response, Problem> {
    let parameters: GroupsPageParameters = parameters::read(request.uri().query())?;
    let page = (parameters.page()?, parameters.with_metadata());
    let (name, group) = (job_of(request.uri()), group_of(request.uri())?);
    let listed = http.service.members(&caller, (&name, group), page).await?;
    let reply = answers::members(group, &listed.page, listed.next, &caller.namespaces);
    Ok(reply::json(budget::page(&reply, listed.share)))
}

/// The number of the group that a path such as `/v1/groups/{job}/{group}` names.
fn group_of(uri: &Uri) -> Result<u64, Problem> {
    let number = part_of_path(uri, GROUP_AT);
    let number = number.and_then(|number| u64::read(Value::Parameter(&number)).ok());
    number.ok_or_else(|| Problem::invalid("group", "The number of a group is a whole number."))
}
