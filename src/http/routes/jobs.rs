//! `/v1/purge` and `/v1/jobs`: begins a job that removes many documents, shows jobs of every kind and
//! cancels them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use nearprint_engine::document::Namespace;
use nearprint_engine::{Job, JobOwner, NamespaceFilter};
use nearprint_files::offer::{FieldSet, FieldValue as _, Value};
use percent_encoding::percent_decode_str;

use crate::http::description::Problems;
use crate::http::problem::{Code, Problem};
use crate::http::reply::jobs::{JobReply, JobsReply};
use crate::http::request::json;
use crate::http::request::parameters::{self, NoParameters};
use crate::http::request::reach::NamespaceAccess;
use crate::http::request::selection::{Cursor, JobsParameters, PurgeRequest, page_limit};
use crate::http::service::Service;

/// Remove many documents.
///
/// Begins a job, which removes the documents that are stored now, and replies at once.
#[utoipa::path(post, path = "/v1/purge", tag = "jobs",
    request_body = PurgeRequest,
    responses((status = 202, description = "The job", body = JobReply), Problems))]
pub(crate) async fn post_purge(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    request: Request,
) -> Result<(StatusCode, Json<JobReply>), Problem> {
    let owner = owner(&request);
    let body = json::whole_body(&service.bodies, request, "application/json").await?;
    let purge = json::read_without_null::<PurgeRequest>(&body.bytes)?.purge(&reach)?;
    let job = service.engine.begin_purge_of(owner, purge).await?;
    Ok((StatusCode::ACCEPTED, Json(job.into())))
}

/// List the jobs by their numbers.
///
/// Removals first, then searches for groups, each oldest first: all that have not ended, the last 100
/// removals that have, and the searches whose results are kept. Only those whose namespace the token
/// reaches.
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs",
    params(JobsParameters),
    responses((status = 200, description = "A page of the jobs", body = JobsReply), Problems))]
pub(crate) async fn get_jobs(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    uri: Uri,
) -> Result<Json<JobsReply>, Problem> {
    list(service.engine.jobs(), &reach, &uri)
}

/// Show a job.
#[utoipa::path(get, path = "/v1/jobs/{job}", tag = "jobs",
    params(("job" = u64, Path, description = "its number")),
    responses((status = 200, description = "The job", body = JobReply), Problems))]
pub(crate) async fn get_job(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    uri: Uri,
    _: NoParameters,
) -> Result<Json<JobReply>, Problem> {
    let [number] = numbers_of(&uri)?;
    Ok(Json(find(&service, &reach, number).ok_or_else(not_found)?.into()))
}

/// Cancel a job.
///
/// What it has removed stays removed. Cancelling a job that has ended changes nothing.
#[utoipa::path(delete, path = "/v1/jobs/{job}", tag = "jobs",
    params(("job" = u64, Path, description = "its number")),
    responses((status = 200, description = "The job", body = JobReply), Problems))]
pub(crate) async fn delete_job(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    uri: Uri,
    _: NoParameters,
) -> Result<Json<JobReply>, Problem> {
    let [number] = numbers_of(&uri)?;
    find(&service, &reach, number).ok_or_else(not_found)?;
    service.engine.cancel_job(number).await?;
    Ok(Json(find(&service, &reach, number).ok_or_else(not_found)?.into()))
}

/// Whose job a request begins: that of its token.
pub(crate) fn owner(request: &Request) -> Option<JobOwner> {
    request.extensions().get().cloned()
}

/// The body of a request that begins a job and takes no parameters.
pub(crate) async fn read_request<T: for<'v> FieldSet<'v>>(
    service: &Service,
    request: Request,
) -> Result<T, Problem> {
    json::read(&json::whole_body(&service.bodies, request, "application/json").await?.bytes)
}

/// The page that a request asks for of those jobs that it reaches.
pub(crate) fn list(
    jobs: Vec<Job>,
    reach: &NamespaceAccess,
    uri: &Uri,
) -> Result<Json<JobsReply>, Problem> {
    let JobsParameters { after, limit } = parameters::read(uri.query())?;
    let limit = limit.map_or(Ok(usize::MAX), |limit| page_limit(Some(limit)))?;
    let after = after.map_or(0, |cursor| cursor.0);
    let mut jobs = jobs.into_iter().filter(|job| job.number > after && reaches(reach, job));
    let page: Vec<JobReply> = jobs.by_ref().take(limit).map(JobReply::from).collect();
    let next = jobs.next().and(page.last()).map(|last| Cursor(last.job));
    Ok(Json(JobsReply { jobs: page, next }))
}

/// The job with a number, unless the request does not reach its documents.
pub(crate) fn find(service: &Service, reach: &NamespaceAccess, number: u64) -> Option<Job> {
    service.engine.job(number).filter(|job| reaches(reach, job))
}

fn not_found() -> Problem {
    Problem::new(Code::JobNotFound, "No job has this number. GET /v1/jobs lists them.")
}

fn reaches(reach: &NamespaceAccess, job: &Job) -> bool {
    match job.reach() {
        NamespaceFilter::Namespace(name) => reach.admits(name.as_ref().map(Namespace::as_str)),
        NamespaceFilter::All => reach.check_all().is_ok(),
    }
}

/// The numbers after `/v1/jobs` or `/v1/groups`: of the job and the group.
pub(crate) fn numbers_of<const N: usize>(uri: &Uri) -> Result<[u64; N], Problem> {
    let mut parts = uri.path().split('/').skip(3);
    let mut numbers = [0; N];
    for (number, name) in numbers.iter_mut().zip(["job", "group"]) {
        let part = parts.next().unwrap_or_default();
        let part = percent_decode_str(part).decode_utf8().ok();
        let parsed = part.and_then(|part| u64::read(Value::Parameter(&part)).ok());
        *number = parsed.ok_or_else(|| {
            Problem::invalid(name, format!("The number of a {name} is a whole number."))
        })?;
    }
    Ok(numbers)
}
