//! What clients asked and were answered, and whether one run of the machine explains it.

use std::collections::BTreeMap;
use std::time::Duration;

/// One check-and-insert.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    /// Its document, which is near those of its family and of no other one.
    pub(crate) id: String,
    pub(crate) family: u64,
    /// When it was sent, and when the answer came.
    pub(crate) began: Duration,
    pub(crate) ended: Duration,
    pub(crate) outcome: Outcome,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is stored, by this change.
    Stored(u64),
    /// It is a duplicate of the document with this id, as of this change.
    Duplicate(u64, String),
    /// Nothing was done.
    Refused,
    /// It may have been done.
    Unknown,
}

impl Outcome {
    fn sequence(&self) -> Option<u64> {
        match self {
            Self::Stored(sequence) | Self::Duplicate(sequence, _) => Some(*sequence),
            Self::Refused | Self::Unknown => None,
        }
    }
}

/// Checks that of each family exactly one was stored, that all others name it, and that who was
/// answered before another asked was decided before it. Returns the ids of the stored documents of
/// the families of which somebody was answered, with all ids of which at most one more is stored.
pub(crate) fn check(operations: &[Operation]) -> Result<Stored, String> {
    let mut families: BTreeMap<u64, Vec<&Operation>> = BTreeMap::new();
    for operation in operations {
        families.entry(operation.family).or_default().push(operation);
    }
    let mut stored = Stored::default();
    for (family, members) in families {
        match winner(&members).map_err(|why| format!("family {family}: {why}"))? {
            Some(winner) => stored.winners.push(winner),
            None => stored.open.push(
                members
                    .iter()
                    .filter(|member| member.outcome == Outcome::Unknown)
                    .map(|member| member.id.clone())
                    .collect(),
            ),
        }
    }
    in_real_time(operations)?;
    Ok(stored)
}

/// What must be stored in the end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    /// These.
    pub(crate) winners: Vec<String>,
    /// Of each of these sets at most one.
    pub(crate) open: Vec<Vec<String>>,
}

/// The stored one of a family, if somebody was told.
fn winner(members: &[&Operation]) -> Result<Option<String>, String> {
    let stored: Vec<_> = members
        .iter()
        .filter_map(|member| match member.outcome {
            Outcome::Stored(sequence) => Some((member.id.as_str(), sequence)),
            Outcome::Duplicate(..) | Outcome::Refused | Outcome::Unknown => None,
        })
        .collect();
    let named = members.iter().filter_map(|member| match &member.outcome {
        Outcome::Duplicate(sequence, of) => Some((of.as_str(), *sequence)),
        Outcome::Stored(_) | Outcome::Refused | Outcome::Unknown => None,
    });
    let mut all = stored.iter().copied().chain(named.clone());
    let Some((first, _)) = all.next() else { return Ok(None) };
    if let Some((other, _)) = all.find(|(id, _)| *id != first) {
        return Err(format!("{first} and {other} are both named as stored"));
    }
    if stored.len() > 1 {
        return Err(format!("{first} was stored {} times", stored.len()));
    }
    let asked = members.iter().find(|member| member.id == first);
    match (stored.first(), asked.map(|asked| &asked.outcome)) {
        (None, None) => return Err(format!("{first} is not of this family")),
        (None, Some(Outcome::Unknown)) => {}
        (None, Some(other)) => return Err(format!("{first} is named, and was answered {other:?}")),
        (Some((_, sequence)), _) => {
            if let Some((_, before)) = named.clone().find(|(_, named)| named < sequence) {
                return Err(format!("{first} was named at {before}, and stored at {sequence}"));
            }
        }
    }
    Ok(Some(first.to_owned()))
}

/// Who was answered before another asked was decided before it, or at the same change.
fn in_real_time(operations: &[Operation]) -> Result<(), String> {
    let answered = || operations.iter().filter(|one| one.outcome.sequence().is_some());
    let mut by_beginning: Vec<_> = answered().collect();
    by_beginning.sort_by_key(|one| one.began);
    let mut by_end: Vec<_> = answered().collect();
    by_end.sort_by_key(|one| one.ended);
    let mut ended = by_end.into_iter().peekable();
    let mut newest: Option<&Operation> = None;
    for one in by_beginning {
        while let Some(before) = ended.next_if(|before| before.ended < one.began) {
            if newest.is_none_or(|newest| newest.outcome.sequence() < before.outcome.sequence()) {
                newest = Some(before);
            }
        }
        if let Some(newest) = newest
            && newest.outcome.sequence() > one.outcome.sequence()
        {
            return Err(format!("{newest:?} had ended before this began: {one:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(id: &str, family: u64, times: [u64; 2], outcome: Outcome) -> Operation {
        let [began, ended] = times.map(Duration::from_millis);
        Operation { id: id.to_owned(), family, began, ended, outcome }
    }

    fn duplicate(sequence: u64, of: &str) -> Outcome {
        Outcome::Duplicate(sequence, of.to_owned())
    }

    #[test]
    fn one_run_is_accepted() {
        let found = check(&[
            operation("a", 1, [0, 5], Outcome::Stored(1)),
            operation("b", 1, [1, 9], duplicate(1, "a")),
            operation("c", 2, [1, 2], Outcome::Unknown),
            operation("d", 2, [6, 7], duplicate(2, "c")),
            operation("e", 3, [6, 7], Outcome::Unknown),
            operation("f", 3, [6, 7], Outcome::Refused),
        ]);
        let (winners, open) = (vec!["a".into(), "c".into()], vec![vec!["e".into()]]);
        assert_eq!(found, Ok(Stored { winners, open }));
    }

    #[test]
    fn what_no_run_explains_is_found() {
        let a = || operation("a", 1, [0, 5], Outcome::Stored(3));
        for (other, why) in [
            (operation("b", 1, [0, 5], Outcome::Stored(4)), "both named"),
            (operation("b", 1, [0, 5], duplicate(4, "c")), "both named"),
            (operation("b", 1, [0, 5], duplicate(2, "a")), "was named at 2"),
            (operation("b", 2, [0, 5], duplicate(4, "a")), "not of this family"),
            (operation("b", 2, [6, 7], Outcome::Stored(2)), "had ended before"),
            (operation("a", 1, [0, 5], Outcome::Stored(3)), "2 times"),
        ] {
            let found = check(&[a(), other]).unwrap_err();
            assert!(found.contains(why), "{found}");
        }
        let refused = operation("a", 1, [0, 5], Outcome::Refused);
        let found = check(&[refused, operation("b", 1, [0, 5], duplicate(4, "a"))]).unwrap_err();
        assert!(found.contains("answered Refused"), "{found}");
    }
}
