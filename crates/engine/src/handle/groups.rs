//! Lists of the groups that a job has found, and of their members.

use crate::api::blocking::off_async;
use crate::api::error::Refused;
use crate::api::replies::{Page, PageOptions};
use crate::handle::Engine;
use crate::read::groups::{GroupInfo, GroupPage, groups, members};

impl Engine {
    /// A page of the groups that a job has found, the largest first, from the one with this number
    /// on; `None` if the job is not done or not kept. Reads a record for each group.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub async fn groups_of_job(
        &self,
        number: u64,
        from: u64,
        options: impl Into<PageOptions>,
    ) -> Result<Option<Page<GroupInfo>>, Refused> {
        let (run, options) = (self.shared.groups.run(number), options.into());
        let state = self.shared.published.load_full();
        off_async(move || {
            let Some(found) = run.as_ref().and_then(|run| run.found.get()) else { return Ok(None) };
            groups(&state, found, from, options).map(Some)
        })
        .await
    }

    /// A page of the documents of a group, oldest first, those after the first `after`; `None` if
    /// there is no such group. Reads their records.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub async fn members_of_group(
        &self,
        (number, group): (u64, u64),
        after: u64,
        options: impl Into<PageOptions>,
    ) -> Result<Option<GroupPage>, Refused> {
        let (run, options) = (self.shared.groups.run(number), options.into());
        let state = self.shared.published.load_full();
        off_async(move || {
            let Some(found) = run.as_ref().and_then(|run| run.found.get()) else { return Ok(None) };
            let at = usize::try_from(group).unwrap_or(usize::MAX);
            let group = found.groups.all().get(at);
            group.map(|group| members(&state, found, group, (after, options))).transpose()
        })
        .await
    }
}
