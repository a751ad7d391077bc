//! `/v1/purge` and `/v1/jobs`: begins a job that removes many documents, shows jobs and cancels
//! them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use nearprint_engine::Job;
use nearprint_engine::document::{Namespace, Sequence};

use crate::http::description::Problems;
use crate::http::problem::{Code, Problem};
use crate::http::reply::jobs::{JobReply, JobsReply};
use crate::http::request::body::{self, ContentKind};
use crate::http::request::json;
use crate::http::request::parameters::{self, NoParameters};
use crate::http::request::reach::NamespaceAccess;
use crate::http::request::selection::{PurgeRequest, last_of_path};
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
    let (head, stream) = request.into_parts();
    let NoParameters {} = parameters::read(head.uri.query())?;
    if body::kind(&head.headers, "application/json")? != ContentKind::Json {
        let detail = "This resource takes application/json.";
        return Err(body::unsupported(detail.to_owned()));
    }
    let body = body::read(&service.bodies, stream).await?;
    let purge = json::read::<PurgeRequest>(&body.bytes)?.purge(&reach)?;
    let job = service.engine.begin_purge(purge).await?;
    Ok((StatusCode::ACCEPTED, Json(job.into())))
}

/// List the jobs, oldest first.
///
/// All that run, and the last 100 that have ended; only those whose namespace the token reaches.
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs",
    responses((status = 200, description = "The jobs", body = JobsReply), Problems))]
pub(crate) async fn get_jobs(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    _: NoParameters,
) -> Json<JobsReply> {
    let jobs = service.engine.jobs().into_iter().filter(|job| reaches(&reach, job));
    Json(JobsReply { jobs: jobs.map(JobReply::from).collect() })
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
    Ok(Json(find(&service, &reach, number_of(&uri)?)?.into()))
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
    let number = number_of(&uri)?;
    find(&service, &reach, number)?;
    service.engine.cancel_job(number).await?;
    Ok(Json(find(&service, &reach, number)?.into()))
}

/// The job with a number, unless the request does not reach its documents.
fn find(service: &Service, reach: &NamespaceAccess, number: Sequence) -> Result<Job, Problem> {
    let mut jobs = service.engine.jobs().into_iter();
    let job = jobs.find(|job| job.number == number && reaches(reach, job));
    job.ok_or_else(|| {
        Problem::new(Code::JobNotFound, "No job has this number. GET /v1/jobs lists them.")
    })
}

fn reaches(reach: &NamespaceAccess, job: &Job) -> bool {
    match &job.purge.reach {
        nearprint_engine::NamespaceFilter::Namespace(namespace) => {
            reach.admits(namespace.as_ref().map(Namespace::as_str))
        }
        nearprint_engine::NamespaceFilter::All => reach.check_all().is_ok(),
    }
}

fn number_of(uri: &Uri) -> Result<Sequence, Problem> {
    let number = last_of_path(uri, "job")?.parse().map(Sequence::new);
    number.map_err(|_| Problem::invalid("job", "The number of a job is a whole number."))
}
