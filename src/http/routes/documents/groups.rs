//! `/v1/groups`: begins jobs that find groups of near-duplicates, shows what they found, and removes
//! them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use nearprint_engine::document::Namespace;
use nearprint_engine::{GroupsJob, GroupsState, PageOptions};

use crate::http::description::Problems;
use crate::http::problem::{Code, Problem};
use crate::http::reply::groups::{GroupsJobReply, GroupsJobsReply, GroupsReply, MembersReply};
use crate::http::request::body::{self, ContentKind};
use crate::http::request::json;
use crate::http::request::parameters::{self, NoParameters};
use crate::http::request::reach::NamespaceAccess;
use crate::http::request::selection::{GroupsBody, GroupsPageParameters, page_limit};
use crate::http::service::Service;

/// Find groups of near-duplicates.
///
/// Begins a job over the documents that are stored now, and replies at once. Two documents are in one
/// group if a chain of near-duplicates leads from one to the other.
#[utoipa::path(post, path = "/v1/groups", tag = "groups",
    request_body = GroupsBody,
    responses((status = 202, description = "The job", body = GroupsJobReply), Problems))]
pub(crate) async fn post_groups(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    request: Request,
) -> Result<(StatusCode, Json<GroupsJobReply>), Problem> {
    let (head, stream) = request.into_parts();
    let NoParameters {} = parameters::read(head.uri.query())?;
    if body::kind(&head.headers, "application/json")? != ContentKind::Json {
        let detail = "This resource takes application/json.";
        return Err(body::unsupported(detail.to_owned()));
    }
    let body = body::read(&service.bodies, stream).await?;
    let request = json::read::<GroupsBody>(&body.bytes)?;
    let request = request.request(&service.options.defaults, &reach)?;
    let job = service.engine.begin_groups(request)?;
    Ok((StatusCode::ACCEPTED, Json(job.into())))
}

/// List the jobs that find groups, oldest first.
///
/// Only those whose namespace the token reaches.
#[utoipa::path(get, path = "/v1/groups", tag = "groups",
    responses((status = 200, description = "The jobs", body = GroupsJobsReply), Problems))]
pub(crate) async fn get_groups_jobs(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    _: NoParameters,
) -> Json<GroupsJobsReply> {
    let jobs = service.engine.groups_jobs().into_iter().filter(|job| reaches(&reach, job));
    Json(GroupsJobsReply { jobs: jobs.map(GroupsJobReply::from).collect() })
}

/// Show a job that finds groups, and once it is done, the groups by pages.
#[utoipa::path(get, path = "/v1/groups/{job}", tag = "groups",
    params(("job" = u64, Path, description = "its number"), GroupsPageParameters),
    responses((status = 200, description = "The job", body = GroupsReply<'_>), Problems))]
pub(crate) async fn get_groups(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    request: Request,
) -> Result<Response, Problem> {
    let parameters: GroupsPageParameters = parameters::read(request.uri().query())?;
    let limit = page_limit(parameters.limit)?;
    let [number] = numbers_of(request.uri())?;
    let job = find(&service, &reach, number)?;
    let (bytes_max, share) = service.replies.page();
    let (after, options) = page(&parameters, limit, bytes_max);
    let page = service.engine.groups_of_job(number, after, options).await?;
    Ok(service.replies.answer_page(&GroupsReply::new(job, page.as_ref()), share))
}

/// List the documents of a group, oldest first.
#[utoipa::path(get, path = "/v1/groups/{job}/{group}", tag = "groups",
    params(("job" = u64, Path, description = "the number of the job"),
        ("group" = u64, Path, description = "the number of the group"), GroupsPageParameters),
    responses((status = 200, description = "A page", body = MembersReply<'_>), Problems))]
pub(crate) async fn get_group(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    request: Request,
) -> Result<Response, Problem> {
    let parameters: GroupsPageParameters = parameters::read(request.uri().query())?;
    let limit = page_limit(parameters.limit)?;
    let [number, group] = numbers_of(request.uri())?;
    let job = find(&service, &reach, number)?;
    if job.state != GroupsState::Done {
        let detail = "The job is not done. GET /v1/groups/{job} shows its state.";
        return Err(Problem::new(Code::GroupsNotReady, detail));
    }
    let (bytes_max, share) = service.replies.page();
    let (after, options) = page(&parameters, limit, bytes_max);
    let page = service.engine.members_of_group((number, group), after, options).await?;
    let page = page.ok_or_else(|| {
        let detail = format!("The job has found {} groups, numbered from 0.", job.groups);
        Problem::new(Code::GroupsNotFound, detail)
    })?;
    Ok(service.replies.answer_page(&MembersReply::new(group, &page), share))
}

/// Remove a job that finds groups, with its result.
///
/// A job that waits or runs is cancelled.
#[utoipa::path(delete, path = "/v1/groups/{job}", tag = "groups",
    params(("job" = u64, Path, description = "its number")),
    responses((status = 200, description = "The job as it was", body = GroupsJobReply), Problems))]
pub(crate) async fn delete_groups(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    uri: Uri,
    _: NoParameters,
) -> Result<Json<GroupsJobReply>, Problem> {
    let [number] = numbers_of(&uri)?;
    find(&service, &reach, number)?;
    let removed = service.engine.remove_groups_job(number).ok_or_else(not_found)?;
    Ok(Json(removed.into()))
}

fn page(parameters: &GroupsPageParameters, limit: usize, bytes_max: usize) -> (u64, PageOptions) {
    let with_metadata = parameters.include.is_some_and(|parts| parts.metadata);
    let after = parameters.after.map_or(0, |cursor| cursor.0);
    (after, PageOptions { limit, bytes_max, with_metadata })
}

/// The job with a number, unless the request does not reach its documents.
fn find(service: &Service, reach: &NamespaceAccess, number: u64) -> Result<GroupsJob, Problem> {
    let job = service.engine.groups_job(number);
    job.filter(|job| reaches(reach, job)).ok_or_else(not_found)
}

fn not_found() -> Problem {
    let detail = "No job that finds groups has this number. Such jobs are kept in memory: a restart \
                  ends them, and newer ones take their place (groups.kept_max, \
                  groups.memory_bytes_max). POST /v1/groups begins another.";
    Problem::new(Code::GroupsNotFound, detail)
}

fn reaches(reach: &NamespaceAccess, job: &GroupsJob) -> bool {
    match &job.request.reach {
        nearprint_engine::NamespaceFilter::Namespace(namespace) => {
            reach.admits(namespace.as_ref().map(Namespace::as_str))
        }
        nearprint_engine::NamespaceFilter::All => reach.check_all().is_ok(),
    }
}

/// The numbers after `/v1/groups`: of the job and the group.
fn numbers_of<const N: usize>(uri: &Uri) -> Result<[u64; N], Problem> {
    let parts: Vec<&str> = uri.path().split('/').skip(3).collect();
    let names = ["job", "group"];
    let mut numbers = [0; N];
    for ((number, name), at) in numbers.iter_mut().zip(names).zip(0_usize..) {
        let parsed = parts.get(at).and_then(|part| part.parse().ok());
        *number = parsed.ok_or_else(|| {
            Problem::invalid(name, format!("The number of a {name} is a whole number."))
        })?;
    }
    Ok(numbers)
}
