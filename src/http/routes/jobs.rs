//! `/v1/purge` and `/v1/jobs`: begins a job that removes many documents, shows jobs of every kind
//! and cancels them.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use nearprint_service::PageRequest;
use nearprint_wire::answer::{JobReply, JobsReply};
use nearprint_wire::offer::FieldSet;
use percent_encoding::percent_decode_str;

use crate::http::problem::Problem;
use crate::http::request::caller::CalledBy;
use crate::http::request::json;
use crate::http::request::parameters::{self, NoParameters};
use crate::http::request::selection::{
    Cursor, JobInPath, JobsParameters, PurgeRequest, page_limit,
};
use crate::http::service::HttpService;

/// Remove many documents.
///
/// Begins a job, which removes the documents that are stored now, and replies at once.
#[utoipa::path(post, path = "/v1/purge", tag = "jobs",
    request_body = PurgeRequest,
    responses((status = 202, description = "The job", body = JobReply)))]
pub(crate) async fn post_purge(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    request: Request,
) -> Result<(StatusCode, Json<JobReply>), Problem> {
    let body = json::whole_body(&http.bodies, request, "application/json").await?;
    let purge = json::read_without_null::<PurgeRequest>(&body.bytes)?.purge(&caller.namespaces)?;
    Ok((StatusCode::ACCEPTED, Json(http.service.begin_purge(&caller, purge).await?)))
}

/// List the jobs.
///
/// Removals first, then searches for groups, each oldest first: all that have not ended, the last
/// 100 removals that have, and the searches whose results are kept. Only those whose namespace the
/// token reaches.
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs",
    params(JobsParameters),
    responses((status = 200, description = "A page of the jobs", body = JobsReply)))]
pub(crate) async fn get_jobs(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    uri: Uri,
) -> Result<Json<JobsReply>, Problem> {
    let JobsParameters { after, limit } = parameters::read(uri.query())?;
    let limit = limit.map_or(Ok(usize::MAX), |limit| page_limit(Some(limit)))?;
    let page = PageRequest { after: after.as_ref().map(Cursor::text), limit };
    Ok(Json(http.service.jobs(&caller, page)?))
}

/// Show a job.
#[utoipa::path(get, path = "/v1/jobs/{job}", tag = "jobs",
    params(JobInPath),
    responses((status = 200, description = "The job", body = JobReply)))]
pub(crate) async fn get_job(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    uri: Uri,
    _: NoParameters,
) -> Result<Json<JobReply>, Problem> {
    Ok(Json(http.service.job(&caller, &job_of(&uri))?))
}

/// Cancel a job, or remove a search for groups that has ended.
///
/// What a purge has removed stays removed, and a purge that has ended stays as it is. A search for
/// groups that has ended is removed with its result, and the reply shows it as it was. The scope
/// `read` is enough to do this with a search.
#[utoipa::path(delete, path = "/v1/jobs/{job}", tag = "jobs",
    params(JobInPath),
    responses((status = 200, description = "The job", body = JobReply)))]
pub(crate) async fn delete_job(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    uri: Uri,
    _: NoParameters,
) -> Result<Json<JobReply>, Problem> {
    Ok(Json(http.service.end_job(&caller, &job_of(&uri)).await?))
}

/// The body of a request that begins a job and takes no parameters.
pub(crate) async fn read_request<T: for<'v> FieldSet<'v>>(
    http: &HttpService,
    request: Request,
) -> Result<T, Problem> {
    json::read(&json::whole_body(&http.bodies, request, "application/json").await?.bytes)
}

/// Whether a request is about a search for groups, which is a job of this service and of no other,
/// and changes nothing that is stored.
pub(crate) fn is_of_search(http: &HttpService, route: Option<&str>, uri: &Uri) -> bool {
    route == Some("/v1/jobs/{job}") && http.service.is_search(&job_of(uri))
}

/// Where a path such as `/v1/jobs/{job}` has the job.
const JOB_AT: usize = 3;

/// The name of a job in a path; no job has an empty one.
pub(crate) fn job_of(uri: &Uri) -> Cow<'_, str> {
    part_of_path(uri, JOB_AT).unwrap_or_default()
}

/// The part of a path at this place, decoded.
pub(crate) fn part_of_path(uri: &Uri, at: usize) -> Option<Cow<'_, str>> {
    percent_decode_str(uri.path().split('/').nth(at)?).decode_utf8().ok()
}
