//! `/v1/groups`: begins jobs that find groups of near-duplicates, and shows what they found.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use nearprint_engine::{Job, JobState, PageOptions, Work};
use nearprint_files::offer::{FieldValue as _, Value};

use crate::http::budget;
use crate::http::cipher::{Kind, Purpose};
use crate::http::problem::{Code, Problem};
use crate::http::reply::groups::{GroupsReply, MembersReply};
use crate::http::reply::jobs::JobReply;
use crate::http::request::parameters;
use crate::http::request::reach::NamespaceAccess;
use crate::http::request::selection::{
    Cursor, GroupInPath, GroupsBody, GroupsPageParameters, JobInPath, page_limit,
};
use crate::http::routes::jobs::{self, part_of_path, read_request};
use crate::http::service::Service;
use crate::http::shares::client_of;

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
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    request: Request,
) -> Result<(StatusCode, Json<JobReply>), Problem> {
    let engine = service.engine_for(request.extensions());
    let request = read_request::<GroupsBody>(&service, request).await?;
    let request = request.request(&service.options.defaults, &reach)?;
    let job = engine.begin_groups(request)?;
    Ok((StatusCode::ACCEPTED, Json(JobReply::new(job, &service.cipher, &reach))))
}

/// Show a job that finds groups, and once it is done, the groups by pages.
#[utoipa::path(get, path = "/v1/groups/{job}", tag = "groups",
    params(JobInPath, GroupsPageParameters),
    responses((status = 200, description = "The job", body = GroupsReply<'_>)))]
pub(crate) async fn get_groups(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    request: Request,
) -> Result<Response, Problem> {
    let parameters: GroupsPageParameters = parameters::read(request.uri().query())?;
    let limit = page_limit(parameters.limit)?;
    let job = find(&service, &reach, request.uri())?;
    let cipher = &service.cipher;
    let list = Purpose::from(Kind::Groups).of_number(job.number);
    let after = Cursor::decrypted(parameters.after.as_ref(), &list, cipher)?;
    let (bytes_max, share) = service.replies.page(&client_of(request.extensions()));
    let options = options(&parameters, limit, bytes_max);
    let page = service.engine.groups_of_job(job.number, after, options).await?;
    let next = page.as_ref().and_then(|page| page.next);
    let next = next.map(|next| cipher.encrypt(&list, next));
    let job = JobReply::new(job, cipher, &reach);
    Ok(budget::page(&GroupsReply::new(job, page.as_ref(), &reach, next), share))
}

/// List the documents of a group, oldest first.
#[utoipa::path(get, path = "/v1/groups/{job}/{group}", tag = "groups",
    params(JobInPath,
        GroupInPath, GroupsPageParameters),
    responses((status = 200, description = "A page", body = MembersReply<'_>)))]
pub(crate) async fn get_group(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    request: Request,
) -> Result<Response, Problem> {
    let parameters: GroupsPageParameters = parameters::read(request.uri().query())?;
    let limit = page_limit(parameters.limit)?;
    let job = find(&service, &reach, request.uri())?;
    let group = group_of(request.uri())?;
    let cipher = &service.cipher;
    let list = Purpose::from(Kind::Members).of_number(job.number).of_number(group);
    let after = Cursor::decrypted(parameters.after.as_ref(), &list, cipher)?;
    if job.state != JobState::Done {
        let detail = "The job is not done. GET /v1/groups/{job} shows its state.";
        let problem = Problem::new(Code::GroupsNotReady, detail);
        // One that was cancelled or has failed never will be.
        return Err(if job.has_ended() { problem.retry_after(None) } else { problem });
    }
    let (bytes_max, share) = service.replies.page(&client_of(request.extensions()));
    let options = options(&parameters, limit, bytes_max);
    let page = service.engine.members_of_group((job.number, group), after, options).await?;
    let page = page.ok_or_else(|| {
        let groups = if let Work::Groups(work) = &job.work { work.groups } else { 0 };
        let detail = format!("The job has found {groups} groups, numbered from 0.");
        Problem::new(Code::GroupsNotFound, detail)
    })?;
    let next = page.next.map(|next| cipher.encrypt(&list, next));
    Ok(budget::page(&MembersReply::new(group, &page, &reach, next), share))
}

fn options(parameters: &GroupsPageParameters, limit: usize, bytes_max: usize) -> PageOptions {
    let with_metadata = parameters.include.is_some_and(|parts| parts.metadata);
    PageOptions { limit, bytes_max, with_metadata }
}

/// The job that a path names, if it finds groups, unless the request does not reach its documents.
fn find(service: &Service, reach: &NamespaceAccess, uri: &Uri) -> Result<Job, Problem> {
    let finds_groups = |job: &Job| matches!(job.work, Work::Groups(_));
    jobs::find(service, reach, uri).filter(finds_groups).ok_or_else(not_found)
}

/// The number of the group that a path such as `/v1/groups/{job}/{group}` names.
fn group_of(uri: &Uri) -> Result<u64, Problem> {
    let number = part_of_path(uri, GROUP_AT);
    let number = number.and_then(|number| u64::read(Value::Parameter(&number)).ok());
    number.ok_or_else(|| Problem::invalid("group", "The number of a group is a whole number."))
}

fn not_found() -> Problem {
    let detail = "No job that finds groups has this name. Such jobs are kept in memory: a restart \
                  ends them, and newer ones take their place (groups.kept_max, \
                  groups.memory_bytes_max). POST /v1/groups begins another.";
    Problem::new(Code::GroupsNotFound, detail)
}
