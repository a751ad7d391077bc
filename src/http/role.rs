//! Who decides what a service is asked: itself, the primary that it follows, or the leader of its
//! cluster.

use std::path::Path;
use std::sync::Arc;

use nearprint_client::RemoteError;
use nearprint_engine::cluster::member::{NodeState, NodeStatus};

use crate::follow::{FollowOptions, Following};
use crate::http::forward::{ForwardTarget, Forwarder};
use crate::http::problem::{Code, Problem};

/// What a service is among others.
#[derive(Debug)]
pub(crate) enum Role {
    /// It decides, and nobody else does.
    Alone,
    /// Its primary decides.
    Follower(FollowerRole),
    /// The leader of its cluster decides, which may be itself.
    Node(ClusterNode),
}

/// A follower, as it speaks to its primary.
#[derive(Debug)]
pub(crate) struct FollowerRole {
    pub(crate) following: Arc<Following>,
    /// How requests that write are passed on, if they are.
    forwarder: Option<Forwarder>,
}

/// A node of a cluster, as it speaks to the others.
#[derive(Debug)]
pub(crate) struct ClusterNode {
    /// Where the others reach it.
    pub(crate) address: Arc<str>,
    forwarder: Forwarder,
}

/// Who decides now.
#[derive(Debug)]
pub(crate) enum Decider<'a> {
    /// This service.
    Here,
    /// Another, to which requests are passed on.
    There(&'a Forwarder, ForwardTarget),
    /// Nobody that this service can reach, or may pass requests on to.
    Nobody(Problem),
}

impl FollowerRole {
    /// For a service that works on this many requests at one time.
    ///
    /// # Errors
    /// [`RemoteError`]: the file of trusted certificates cannot be used.
    pub(crate) fn new(options: FollowOptions, in_flight_max: usize) -> Result<Self, RemoteError> {
        let ca_file = options.ca_file.as_deref();
        let forwarder = options.forward.then(|| Forwarder::new(ca_file, in_flight_max));
        let forwarder = forwarder.transpose()?;
        Ok(Self { following: Arc::new(Following::new(options)), forwarder })
    }

    /// Who decides.
    pub(crate) fn decider(&self) -> Decider<'_> {
        let primary = self.following.primary();
        match &self.forwarder {
            Some(forwarder) => Decider::There(forwarder, ForwardTarget::Primary(primary.into())),
            None => Decider::Nobody(only_primary(primary)),
        }
    }
}

impl ClusterNode {
    /// For a service that works on this many requests at one time. It trusts the certificates of
    /// the file, or those of public authorities without one.
    ///
    /// # Errors
    /// [`RemoteError`]: the file cannot be used.
    pub(crate) fn new(
        address: Arc<str>,
        ca_file: Option<&Path>,
        in_flight_max: usize,
    ) -> Result<Self, RemoteError> {
        Ok(Self { address, forwarder: Forwarder::new(ca_file, in_flight_max)? })
    }

    /// Who decides when the node is so.
    pub(crate) fn decider(&self, status: &NodeStatus) -> Decider<'_> {
        if status.state == NodeState::Leading {
            return Decider::Here;
        }
        if matches!(status.state, NodeState::Halted(_)) {
            let detail = "This node has halted, so it does not know who leads; nothing was changed. \
                          /readyz says why.";
            return Decider::Nobody(Problem::new(Code::NoLeader, detail));
        }
        // An address of its own is left from the time when it led.
        match &status.leader {
            Some(leader) if *leader != self.address => {
                Decider::There(&self.forwarder, ForwardTarget::Leader(Arc::clone(leader)))
            }
            Some(_) | None => Decider::Nobody(no_leader()),
        }
    }
}

/// The reply to a request that has to be sent to the primary.
fn only_primary(primary: &str) -> Problem {
    let detail = format!(
        "This service is a copy that follows {primary} and answers look-ups; nothing was changed. Send \
         this request there, or start the follower with follow.forward = true."
    );
    Problem::new(Code::Follower, detail)
}

/// The reply of a node that knows no leader.
pub(crate) fn no_leader() -> Problem {
    let detail = "No node of the cluster leads now, or this one does not know it yet; nothing was \
                  changed. Look-ups go on.";
    Problem::new(Code::NoLeader, detail)
}

/// What a node does, in a word.
pub(crate) fn state_name(state: &NodeState) -> &'static str {
    match state {
        NodeState::CatchingUp => "catching_up",
        NodeState::Following => "following",
        NodeState::Leading => "leading",
        NodeState::Halted(_) => "halted",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "http://10.0.0.1:7878";
    const OTHER: &str = "http://10.0.0.2:7878";

    fn status(state: NodeState, leader: Option<&str>) -> NodeStatus {
        NodeStatus {
            state,
            leader: leader.map(Arc::from),
            heard_ms: 0,
            lag_ms: 0,
            read: 7,
            ignored: 0,
            log_fault: None,
        }
    }

    #[test]
    fn a_node_passes_on_what_it_does_not_decide_while_it_knows_the_leader() {
        let node = ClusterNode::new(OWN.into(), None, 2).unwrap();
        let decider = |state, leader| match node.decider(&status(state, leader)) {
            Decider::Here => "here".to_owned(),
            Decider::There(_, ForwardTarget::Leader(leader)) => leader.to_string(),
            Decider::There(_, ForwardTarget::Primary(_)) => panic!("a node has no primary"),
            Decider::Nobody(problem) => problem.logged().code.to_owned(),
        };
        assert_eq!(decider(NodeState::Leading, Some(OWN)), "here");
        for state in [NodeState::CatchingUp, NodeState::Following] {
            assert_eq!(decider(state.clone(), Some(OTHER)), OTHER);
            assert_eq!(decider(state.clone(), None), "no_leader");
            assert_eq!(decider(state, Some(OWN)), "no_leader", "it does not ask itself");
        }
        for leader in [Some(OTHER), Some(OWN), None] {
            let halted = NodeState::Halted("the log is another".to_owned());
            assert_eq!(decider(halted, leader), "no_leader");
        }
    }

    #[test]
    fn a_follower_passes_on_only_if_it_is_told_to() {
        for forward in [false, true] {
            let url = OTHER.to_owned();
            let options = FollowOptions { url, token_file: None, ca_file: None, forward };
            let follower = FollowerRole::new(options, 2).unwrap();
            let passes_on = match follower.decider() {
                Decider::There(_, to) => to == ForwardTarget::Primary(OTHER.into()),
                Decider::Nobody(problem) => {
                    assert!(problem.is(Code::Follower) && problem.body().detail.contains(OTHER));
                    false
                }
                Decider::Here => panic!("a follower decides nothing"),
            };
            assert_eq!(passes_on, forward);
        }
    }
}
