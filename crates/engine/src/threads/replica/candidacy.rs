//! Whether a node could lead, and why not.

use crate::api::error::Refused;
use crate::api::replies::Readiness;
use crate::replication::chain::Fitness;
use crate::replication::clocks::{ComparedClock, Heard};
use crate::shared::Shared;
use crate::threads::replica::log_thread::is_alike;
use crate::threads::replica::node::Node;

/// What the writer knows of its node as one that could lead.
#[derive(Debug, Default)]
pub(crate) struct Candidacy {
    clock: ComparedClock,
    /// Why it must not lead, or only if nobody else does.
    fault: Option<String>,
    /// That was told.
    is_told: bool,
}

impl Candidacy {
    /// Hears what the clocks of the log and of a leader that is not this node have just said.
    pub(crate) fn hear(&mut self, log_ms: Option<u64>, leader_ms: Option<u64>) {
        self.clock.log = log_ms.map(Heard::now);
        if let Some(leader_ms) = leader_ms {
            self.clock.leader = Some(Heard::now(leader_ms));
        }
    }

    pub(crate) fn log_clock(&self) -> Option<Heard> {
        self.clock.log
    }

    /// Whether the node could lead now.
    pub(crate) fn fitness(&mut self, node: &Node, shared: &Shared) -> Fitness {
        let (fitness, fault) = self.compare(node, shared);
        let is_same = |(now, before): (&String, &String)| is_alike(now, before);
        self.is_told &= fault.as_ref().zip(self.fault.as_ref()).is_some_and(is_same);
        self.fault = fault;
        fitness
    }

    /// Why it could not, or only if nobody else leads, as of the last call of [`Self::fitness`].
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Tells once why the node does not try to lead although nobody leads.
    pub(crate) fn tell(&mut self) {
        if let Some(why) = &self.fault
            && !std::mem::replace(&mut self.is_told, true)
        {
            tracing::warn!(why, "nobody leads, and this node does not, or lets others try first");
        }
    }

    fn compare(&self, node: &Node, shared: &Shared) -> (Fitness, Option<String>) {
        let unfit = |why: String| (Fitness::Unfit, Some(why));
        let full = |refused: &Refused| (Fitness::Full, Some(refused.to_string()));
        if let Some(why) = node.lead_fault() {
            return unfit(why.to_owned());
        }
        if shared.membership().is_standing_back() {
            return unfit("it was asked to leave the lead to another".to_owned());
        }
        if let Some(why) = self.clock.fault() {
            return unfit(why);
        }
        match shared.readiness() {
            Readiness::Ready => (Fitness::Fit, None),
            Readiness::DiskFull => full(&Refused::DiskFull),
            Readiness::MemoryFull => full(&Refused::MemoryFull),
            Readiness::DirectoryUnusable => unfit(Refused::DirectoryUnusable.to_string()),
            Readiness::Stopping => unfit(Refused::Stopping.to_string()),
            Readiness::Failed => unfit(Refused::Failed.to_string()),
        }
    }
}
