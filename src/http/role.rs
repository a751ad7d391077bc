//! Who decides what a service is asked: itself, the primary that it follows, or the leader of its
//! cluster.

use std::sync::Arc;

use nearprint_client::RemoteError;
use nearprint_engine::replica::{NodeState, NodeStatus};

use crate::http::forward::{ForwardTarget, Forwarder};
use crate::http::problem::{Code, Problem};
use crate::replicas::{Peers, Replica, ReplicaKind};

/// What a service is among others.
#[derive(Debug)]
pub(crate) enum Role {
    /// It decides, and nobody else does.
    Alone,
    /// It is a copy of others.
    Replica(Box<ReplicaRole>),
}

/// A copy, as it speaks to the others.
#[derive(Debug)]
pub(crate) struct ReplicaRole {
    pub(crate) copies: Copies,
    /// Whom a node names as its seeds, or the primary, and how they are asked.
    pub(crate) peers: Peers,
    /// How requests that write are passed on, if they are.
    forwarder: Option<Forwarder>,
}

/// Whom a service copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Copies {
    /// Its primary, which decides.
    Primary,
    /// The leader of its cluster decides, which may be itself.
    Cluster {
        /// Where the others reach it.
        address: Arc<str>,
    },
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

impl ReplicaRole {
    /// For a service that works on this many requests at one time.
    ///
    /// # Errors
    /// [`RemoteError`]: the file of trusted certificates cannot be used.
    pub(crate) fn new(replica: &Replica, in_flight_max: usize) -> Result<Self, RemoteError> {
        let (copies, forwards) = match &replica.kind {
            ReplicaKind::Follower { forward } => (Copies::Primary, *forward),
            ReplicaKind::Node(node) => {
                (Copies::Cluster { address: node.address.as_str().into() }, true)
            }
        };
        let ca_file = replica.peers.ca_file.as_deref();
        let forwarder = forwards.then(|| Forwarder::new(ca_file, in_flight_max)).transpose()?;
        Ok(Self { copies, peers: replica.peers.clone(), forwarder })
    }

    /// Who decides when the copy is so.
    pub(crate) fn decider(&self, status: &NodeStatus) -> Decider<'_> {
        if status.state == NodeState::Leading {
            return Decider::Here;
        }
        match (&self.copies, self.other_decider(status), &self.forwarder) {
            (Copies::Primary, Some(primary), Some(forwarder)) => {
                Decider::There(forwarder, ForwardTarget::Primary(Arc::clone(primary)))
            }
            (Copies::Primary, primary, _) => {
                Decider::Nobody(only_primary(primary.map_or("another service", |url| &**url)))
            }
            _ if matches!(status.state, NodeState::Halted(_)) => {
                let detail = "This node has halted, so it does not know who leads; nothing was \
                              changed. /readyz says why.";
                Decider::Nobody(Problem::new(Code::NoLeader, detail))
            }
            (Copies::Cluster { .. }, Some(leader), Some(forwarder)) => {
                Decider::There(forwarder, ForwardTarget::Leader(Arc::clone(leader)))
            }
            (Copies::Cluster { .. }, _, _) => Decider::Nobody(no_leader()),
        }
    }

    /// The address of the other service that decides when the copy is so; `None` if this one does,
    /// or knows of none.
    pub(crate) fn other_decider<'s>(&self, status: &'s NodeStatus) -> Option<&'s Arc<str>> {
        match (&self.copies, &status.state) {
            (Copies::Primary, _) => status.leader.as_ref(),
            (Copies::Cluster { .. }, NodeState::Leading | NodeState::Halted(_)) => None,
            // An address of its own is left from the time when it led.
            (Copies::Cluster { address }, NodeState::CatchingUp | NodeState::Following) => {
                status.leader.as_ref().filter(|leader| *leader != address)
            }
        }
    }

    /// Whether it passes on what it does not decide.
    pub(crate) const fn forwards(&self) -> bool {
        self.forwarder.is_some()
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
            is_connected: true,
            is_outdated: false,
            heard_ms: 0,
            lag_ms: 0,
            read: 7,
            ignored: 0,
            ..NodeStatus::default()
        }
    }

    #[test]
    fn a_node_passes_on_what_it_does_not_decide_while_it_knows_the_leader() {
        let forwarder = Some(Forwarder::new(None, 2).unwrap());
        let copies = Copies::Cluster { address: OWN.into() };
        let node = ReplicaRole { copies, peers: Peers::default(), forwarder };
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
    fn a_node_names_another_that_decides_only_while_it_knows_it() {
        let copies = Copies::Cluster { address: OWN.into() };
        let node = ReplicaRole { copies, peers: Peers::default(), forwarder: None };
        let names = |state, leader| {
            let status = status(state, leader);
            node.other_decider(&status).map(ToString::to_string)
        };
        for state in [NodeState::CatchingUp, NodeState::Following] {
            assert_eq!(names(state.clone(), Some(OTHER)).as_deref(), Some(OTHER));
            assert_eq!([names(state.clone(), Some(OWN)), names(state, None)], [None, None]);
        }
        assert_eq!(names(NodeState::Leading, Some(OWN)), None);
        assert_eq!(names(NodeState::Halted("the log is another".to_owned()), Some(OTHER)), None);
    }

    #[test]
    fn a_follower_passes_on_only_if_it_is_told_to() {
        let halted = NodeState::Halted("another history".to_owned());
        for forward in [false, true] {
            let forwarder = forward.then(|| Forwarder::new(None, 2).unwrap());
            let follower =
                ReplicaRole { copies: Copies::Primary, peers: Peers::default(), forwarder };
            for state in [NodeState::CatchingUp, NodeState::Following, halted.clone()] {
                let passes_on = match follower.decider(&status(state, Some(OTHER))) {
                    Decider::There(_, to) => to == ForwardTarget::Primary(OTHER.into()),
                    Decider::Nobody(problem) => {
                        let names_it = problem.body().detail.contains(OTHER);
                        assert!(problem.is(Code::Follower) && names_it);
                        false
                    }
                    Decider::Here => panic!("a follower decides nothing"),
                };
                assert_eq!(passes_on, forward);
            }
        }
    }
}
