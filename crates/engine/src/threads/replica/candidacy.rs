//! Whether a node could lead, and why not.

use crate::api::error::Refused;
use crate::api::replies::Readiness;
use crate::replication::chain::Fitness;
use crate::replication::clocks::{ComparedClock, Heard};
use crate::shared::Shared;
use crate::threads::replica::node::Node;

/// What the writer knows of its node as one that could lead.
#[derive(Debug, Default)]
pub(crate) struct Candidacy {
    clock: ComparedClock,
    /// Why it does not try to lead, as it was told last.
    told: Option<String>,
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

    /// Whether the node could lead, and why not, or only if nobody else does.
    pub(crate) fn fitness(&self, node: &Node, shared: &Shared) -> (Fitness, Option<String>) {
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

    /// Tells once why the node does not try to lead although nobody does.
    pub(crate) fn tell(&mut self, lead_fault: Option<String>, nobody_leads: bool) {
        if nobody_leads
            && let Some(why) = &lead_fault
            && self.told != lead_fault
        {
            tracing::warn!(why, "nobody leads, and this node must not or waits for others");
        }
        if nobody_leads || lead_fault.is_none() {
            self.told = lead_fault;
        }
    }
}
