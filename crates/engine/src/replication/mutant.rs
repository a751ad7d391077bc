//! The mutants that the simulation must catch. Only tests set one.

/// What a wrong implementation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// A message counts if it has the next sequence.
    NoPrev,
    AnswersOnAcknowledgement,
    JournalsBeforeCounting,
    /// The position is stored as it was read, not as it is durable.
    PositionAheadOfJournal,
    /// The last record that the journal has is enacted again after a restart.
    SkipsOneTooFew,
    /// A deposed leader goes on with what it had decided.
    KeepsMemory,
    /// A group without changes is answered before its message counts.
    NoMessageWithoutChanges,
    /// A follower takes the time from its own clock.
    OwnClock,
    /// What readers see is as far as the leader has decided.
    PublishesAhead,
    /// A reply reads the files that there were when it was decided.
    PinsWhenDecided,
    /// A primary sends what a pack has left, without the removals.
    SendsPacks,
    /// A message where the log begins is taken for one that has counted.
    RejoinsAnywhere,
    /// Records are compared although one copy has packed them.
    ComparesPacks,
}

#[cfg(test)]
std::thread_local! {
    pub(crate) static MUTANT: std::cell::Cell<Option<Mutant>> =
        const { std::cell::Cell::new(None) };
}

#[cfg(test)]
pub(crate) fn is(mutant: Mutant) -> bool {
    MUTANT.get() == Some(mutant)
}

#[cfg(not(test))]
pub(crate) const fn is(_: Mutant) -> bool {
    false
}
