//! Jobs: removals of many documents, and searches for groups.

use nearprint_engine::document::Namespace;
use nearprint_engine::{
    GroupInfo, GroupPage, GroupsRequest, Job, JobState, NamespaceFilter, Page, PageOptions, Purge,
    Work,
};
use nearprint_wire::answer::{JobReply, JobsReply};
use nearprint_wire::code::Code;
use nearprint_wire::offer::OfferOptions;

use crate::answers;
use crate::callers::AllowedNamespaces;
use crate::callers::Caller;
use crate::cipher::{CursorKind, Purpose};
use crate::listing::{ListedPage, PageRequest};
use crate::prepare;
use crate::refusal::Refusal;
use crate::service::Service;

impl Service {
    /// Begins to remove documents.
    ///
    /// # Errors
    /// The engine refuses.
    pub async fn begin_purge(&self, caller: &Caller, purge: Purge) -> Result<JobReply, Refusal> {
        let job = self.engine_for(caller).begin_purge(purge).await?;
        Ok(self.shown(job, caller))
    }

    /// A search for groups by these options of look-ups, of at least `min_size` documents, which is
    /// 2 if it is not said.
    ///
    /// # Errors
    /// An option has a value that it does not take.
    pub fn groups_request(
        &self,
        options: &OfferOptions,
        namespaces: NamespaceFilter,
        min_size: Option<u64>,
    ) -> Result<GroupsRequest, Refusal> {
        let defaults = &self.options().defaults;
        let criteria = prepare::query_options(options, true, defaults)?.criteria;
        let min_size = min_size.unwrap_or(2);
        let checked = u32::try_from(min_size).ok().filter(|size| *size > 0);
        let size_min = checked.ok_or_else(|| {
            let detail = format!("min_size is {min_size}; it takes 1 to {}.", u32::MAX);
            Refusal::invalid("min_size", detail)
        })?;
        Ok(GroupsRequest { reach: namespaces, criteria, size_min })
    }

    /// Begins to find groups.
    ///
    /// # Errors
    /// The engine refuses.
    pub fn begin_groups(
        &self,
        caller: &Caller,
        request: GroupsRequest,
    ) -> Result<JobReply, Refusal> {
        let job = self.engine_for(caller).begin_groups(request)?;
        Ok(self.shown(job, caller))
    }

    /// A page of the jobs that a caller reaches, removals first; all without a limit.
    ///
    /// # Errors
    /// The cursor is not that of another page of this list.
    pub fn jobs(
        &self,
        caller: &Caller,
        PageRequest { after, limit }: PageRequest<'_>,
    ) -> Result<JobsReply, Refusal> {
        let list = Purpose::from(CursorKind::Jobs);
        let after: u64 = self.cipher.after(after, &list)?;
        let is_listed = |job: &Job| job.number > after && reaches(&caller.namespaces, job);
        let mut jobs = self.engine.jobs().into_iter().filter(is_listed);
        let page: Vec<Job> = jobs.by_ref().take(limit).collect();
        let next = jobs.next().and(page.last()).map(|last| self.cipher.encrypt(&list, last.number));
        Ok(JobsReply { jobs: page.into_iter().map(|job| self.shown(job, caller)).collect(), next })
    }

    /// The job with a name, unless the caller does not reach its documents.
    ///
    /// # Errors
    /// There is none.
    pub fn job(&self, caller: &Caller, name: &str) -> Result<JobReply, Refusal> {
        let job = self.find_job(&caller.namespaces, name).ok_or_else(job_not_found)?;
        Ok(self.shown(job, caller))
    }

    /// Cancels a job. A purge that has ended stays as it is; a search for groups that has ended is
    /// removed with its result.
    ///
    /// # Errors
    /// There is none, or the engine refuses.
    pub async fn end_job(&self, caller: &Caller, name: &str) -> Result<JobReply, Refusal> {
        let job = self.find_job(&caller.namespaces, name).ok_or_else(job_not_found)?;
        let was_cancelled = self.engine.cancel_job(job.number).await?;
        let job = if !was_cancelled && finds_groups(&job) {
            self.engine.remove_groups(job.number)
        } else {
            self.engine.job(job.number)
        };
        Ok(self.shown(job.ok_or_else(job_not_found)?, caller))
    }

    /// A job that finds groups, and once it is done, a page of them.
    ///
    /// # Errors
    /// There is no such job, or the cursor is not that of another page of its groups.
    pub async fn groups(
        &self,
        caller: &Caller,
        name: &str,
        (page, with_metadata): (PageRequest<'_>, bool),
    ) -> Result<(JobReply, Option<ListedPage<Page<GroupInfo>>>), Refusal> {
        let job = self.find_groups(caller, name)?;
        let list = Purpose::from(CursorKind::Groups).of_number(job.number);
        let after: u64 = self.cipher.after(page.after, &list)?;
        let (bytes_max, share) = self.replies().page(&caller.client);
        let options = PageOptions { limit: page.limit, bytes_max, with_metadata };
        let page = self.engine.groups_of_job(job.number, after, options).await?;
        let listed = page.map(|page| {
            let next = page.next.map(|next| self.cipher.encrypt(&list, next));
            ListedPage { page, next, share }
        });
        Ok((self.shown(job, caller), listed))
    }

    /// A page of the documents of a group that a job has found.
    ///
    /// # Errors
    /// There is no such job or group, the job is not done, or the cursor is not that of another
    /// page of this group.
    pub async fn members(
        &self,
        caller: &Caller,
        (name, group): (&str, u64),
        (page, with_metadata): (PageRequest<'_>, bool),
    ) -> Result<ListedPage<GroupPage>, Refusal> {
        let job = self.find_groups(caller, name)?;
        let list = Purpose::from(CursorKind::Members).of_number(job.number).of_number(group);
        let after: u64 = self.cipher.after(page.after, &list)?;
        if job.state != JobState::Done {
            let detail = "The job is not done. GET /v1/groups/{job} shows its state.";
            let refusal = Refusal::new(Code::GroupsNotReady, detail);
            // One that was cancelled or has failed never will be.
            return Err(if job.has_ended() { refusal.retry_after(None) } else { refusal });
        }
        let (bytes_max, share) = self.replies().page(&caller.client);
        let options = PageOptions { limit: page.limit, bytes_max, with_metadata };
        let page = self.engine.members_of_group((job.number, group), after, options).await?;
        let page = page.ok_or_else(|| {
            let groups = if let Work::Groups(work) = &job.work { work.groups } else { 0 };
            let detail = format!("The job has found {groups} groups, numbered from 0.");
            Refusal::new(Code::GroupsNotFound, detail)
        })?;
        let next = page.next.map(|next| self.cipher.encrypt(&list, next));
        Ok(ListedPage { page, next, share })
    }

    /// Whether the job with this name is a search for groups, which is a job of this service and of
    /// no other.
    pub fn is_search(&self, name: &str) -> bool {
        self.find_job(&AllowedNamespaces::ALL, name).as_ref().is_some_and(finds_groups)
    }

    fn find_job(&self, reach: &AllowedNamespaces, name: &str) -> Option<Job> {
        let number = self.cipher.decrypt(&CursorKind::Job.into(), name)?;
        let job = self.engine.job(number.try_into().ok()?)?;
        reaches(reach, &job).then_some(job)
    }

    fn find_groups(&self, caller: &Caller, name: &str) -> Result<Job, Refusal> {
        let job = self.find_job(&caller.namespaces, name);
        job.filter(finds_groups).ok_or_else(groups_not_found)
    }

    fn shown(&self, job: Job, caller: &Caller) -> JobReply {
        answers::job(job, &self.cipher, &caller.namespaces)
    }
}

fn finds_groups(job: &Job) -> bool {
    matches!(job.work, Work::Groups(_))
}

fn reaches(reach: &AllowedNamespaces, job: &Job) -> bool {
    match job.work.reach() {
        NamespaceFilter::Namespace(name) => reach.admits(name.as_ref().map(Namespace::as_str)),
        NamespaceFilter::All => !reach.is_limited(),
    }
}

fn job_not_found() -> Refusal {
    Refusal::new(Code::JobNotFound, "No job has this name. GET /v1/jobs lists them.")
}

fn groups_not_found() -> Refusal {
    let detail = "No job that finds groups has this name. Such jobs are kept in memory: a restart \
                  ends them, and newer ones take their place (groups.memory_bytes_max). POST /v1/groups begins another.";
    Refusal::new(Code::GroupsNotFound, detail)
}
