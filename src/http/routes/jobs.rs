//! `/v1/purge` and `/v1/jobs`: begins a job that removes many documents, shows jobs of every kind
//! and cancels them.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use nearprint_engine::document::Namespace;
use nearprint_engine::{Job, NamespaceFilter, Work};
use nearprint_files::offer::FieldSet;
use percent_encoding::percent_decode_str;

use crate::http::cipher::{Kind, Purpose};
use crate::http::problem::{Code, Problem};
use crate::http::reply::jobs::{JobReply, JobsReply};
use crate::http::request::json;
use crate::http::request::parameters::{self, NoParameters};
use crate::http::request::reach::NamespaceAccess;
use crate::http::request::selection::{
    Cursor, JobInPath, JobsParameters, PurgeRequest, page_limit,
};
use crate::http::service::Service;

/// Remove many documents.
///
/// Begins a job, which removes the documents that are stored now, and replies at once.
#[utoipa::path(post, path = "/v1/purge", tag = "jobs",
    request_body = PurgeRequest,
    responses((status = 202, description = "The job", body = JobReply)))]
pub(crate) async fn post_purge(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    request: Request,
) -> Result<(StatusCode, Json<JobReply>), Problem> {
    let engine = service.engine_for(request.extensions());
    let body = json::whole_body(&service.bodies, request, "application/json").await?;
    let purge = json::read_without_null::<PurgeRequest>(&body.bytes)?.purge(&reach)?;
    let job = engine.begin_purge(purge).await?;
    Ok((StatusCode::ACCEPTED, Json(JobReply::new(job, &service.cipher, &reach))))
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
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    uri: Uri,
) -> Result<Json<JobsReply>, Problem> {
    let JobsParameters { after, limit } = parameters::read(uri.query())?;
    let limit = limit.map_or(Ok(usize::MAX), |limit| page_limit(Some(limit)))?;
    let cipher = &service.cipher;
    let list = Purpose::from(Kind::Jobs).with(Some(uri.path()));
    let after: u64 = Cursor::decrypted(after.as_ref(), &list, cipher)?;
    let jobs = service.engine.jobs().into_iter();
    let mut jobs = jobs.filter(|job| job.number > after && reaches(&reach, job));
    let page: Vec<Job> = jobs.by_ref().take(limit).collect();
    let next = jobs.next().and(page.last()).map(|last| cipher.encrypt(&list, last.number));
    let jobs = page.into_iter().map(|job| JobReply::new(job, cipher, &reach)).collect();
    Ok(Json(JobsReply { jobs, next }))
}

/// Show a job.
#[utoipa::path(get, path = "/v1/jobs/{job}", tag = "jobs",
    params(JobInPath),
    responses((status = 200, description = "The job", body = JobReply)))]
pub(crate) async fn get_job(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    uri: Uri,
    _: NoParameters,
) -> Result<Json<JobReply>, Problem> {
    let job = find(&service, &reach, &uri).ok_or_else(not_found)?;
    Ok(Json(JobReply::new(job, &service.cipher, &reach)))
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
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    uri: Uri,
    _: NoParameters,
) -> Result<Json<JobReply>, Problem> {
    let Job { number, work, .. } = find(&service, &reach, &uri).ok_or_else(not_found)?;
    let was_cancelled = service.engine.cancel_job(number).await?;
    let job = if !was_cancelled && matches!(work, Work::Groups(_)) {
        service.engine.remove_groups(number)
    } else {
        service.engine.job(number)
    };
    Ok(Json(JobReply::new(job.ok_or_else(not_found)?, &service.cipher, &reach)))
}

/// The body of a request that begins a job and takes no parameters.
pub(crate) async fn read_request<T: for<'v> FieldSet<'v>>(
    service: &Service,
    request: Request,
) -> Result<T, Problem> {
    json::read(&json::whole_body(&service.bodies, request, "application/json").await?.bytes)
}

/// The job that a path names, unless the request does not reach its documents.
pub(crate) fn find(service: &Service, reach: &NamespaceAccess, uri: &Uri) -> Option<Job> {
    let number = service.cipher.decrypt(&Kind::Job.into(), &part_of_path(uri, JOB_AT)?)?;
    let job = service.engine.job(number.try_into().ok()?)?;
    reaches(reach, &job).then_some(job)
}

/// Whether a request is about a search for groups, which is a job of this service and of no other,
/// and changes nothing that is stored.
pub(crate) fn is_of_search(service: &Service, route: Option<&str>, uri: &Uri) -> bool {
    let is_search = |job: Job| matches!(job.work, Work::Groups(_));
    route == Some("/v1/jobs/{job}")
        && find(service, &NamespaceAccess::ALL, uri).is_some_and(is_search)
}

fn not_found() -> Problem {
    Problem::new(Code::JobNotFound, "No job has this name. GET /v1/jobs lists them.")
}

fn reaches(reach: &NamespaceAccess, job: &Job) -> bool {
    match job.work.reach() {
        NamespaceFilter::Namespace(name) => reach.admits(name.as_ref().map(Namespace::as_str)),
        NamespaceFilter::All => reach.check_all().is_ok(),
    }
}

/// Where a path such as `/v1/jobs/{job}` has the job.
const JOB_AT: usize = 3;

/// The part of a path at this place, decoded.
pub(crate) fn part_of_path(uri: &Uri, at: usize) -> Option<Cow<'_, str>> {
    percent_decode_str(uri.path().split('/').nth(at)?).decode_utf8().ok()
}
