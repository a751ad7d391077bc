//! The writes that wait for the writer: those of a client in their order, and one of each client in
//! turn. So a write waits for one of each other client and not for all that they have sent, however
//! long these take: a check-and-insert among thousands of near documents takes milliseconds.

use std::collections::{HashMap, VecDeque};

use crate::api::client::Client;
use crate::write::queued::QueuedWrite;

/// Bounded by the queue room of [`Shared`](crate::shared::Shared).
#[derive(Debug, Default)]
pub(crate) struct WaitingWrites {
    /// By client; no list is empty. What the engine itself writes has none.
    writes: HashMap<Option<Client>, VecDeque<Box<dyn QueuedWrite>>>,
    /// Whose turn is next, each client that has a write once.
    turns: VecDeque<Option<Client>>,
    count: usize,
}

impl WaitingWrites {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn push_back(&mut self, write: Box<dyn QueuedWrite>) {
        self.count += 1;
        let client = write.client();
        if let Some(writes) = self.writes.get_mut(&client) {
            writes.push_back(write);
            return;
        }
        self.turns.push_back(client.clone());
        self.writes.insert(client, VecDeque::from([write]));
    }

    /// The same for several.
    pub(crate) fn extend(&mut self, writes: Vec<Box<dyn QueuedWrite>>) {
        for write in writes {
            self.push_back(write);
        }
    }

    /// Takes the next write if it is wanted.
    pub(crate) fn pop_front_if(
        &mut self,
        is_wanted: impl FnOnce(&dyn QueuedWrite) -> bool,
    ) -> Option<Box<dyn QueuedWrite>> {
        let client = self.turns.front()?;
        let writes = self.writes.get_mut(client)?;
        let write = writes.pop_front_if(|write| is_wanted(&**write))?;
        self.count -= 1;
        if writes.is_empty() {
            self.writes.remove(client);
            self.turns.pop_front();
        } else {
            self.turns.rotate_left(1);
        }
        Some(write)
    }

    /// Puts writes back that were taken last, each before the others of its client.
    pub(crate) fn put_back(&mut self, writes: Vec<Box<dyn QueuedWrite>>) {
        for write in writes.into_iter().rev() {
            let client = write.client();
            self.count += 1;
            self.turns.retain(|other| *other != client);
            self.turns.push_front(client.clone());
            self.writes.entry(client).or_default().push_front(write);
        }
    }

    /// Takes all writes.
    pub(crate) fn take_all(&mut self) -> Vec<Box<dyn QueuedWrite>> {
        std::iter::from_fn(|| self.pop_front_if(|_| true)).collect()
    }
}

#[cfg(test)]
mod tests {
    use nearprint_fingerprint::Fingerprint;
    use nearprint_machine::commands::InsertPacked;
    use nearprint_machine::document::Packed;

    use super::*;
    use crate::write::queued::Queued;

    /// A write of a client, told by its number of changes.
    fn write(client: &str, changes: usize) -> Box<dyn QueuedWrite> {
        let fingerprints = vec![Fingerprint::new(7); changes];
        let packed = Packed { namespace: None, expiry: None, fingerprints };
        let client = (!client.is_empty()).then(|| Client::Token(client.into()));
        Queued::new(InsertPacked { packed }, 0, (client, None), 0).0
    }

    fn waiting(writes: &[(&str, usize)]) -> WaitingWrites {
        let mut waiting = WaitingWrites::default();
        for (client, changes) in writes {
            waiting.push_back(write(client, *changes));
        }
        waiting
    }

    fn changes(writes: &[Box<dyn QueuedWrite>]) -> Vec<usize> {
        writes.iter().map(|write| write.bounds().changes).collect()
    }

    #[test]
    fn clients_take_turns_and_each_keeps_its_order() {
        let mut waiting =
            waiting(&[("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 5), ("", 6), ("b", 7)]);
        assert_eq!((waiting.len(), waiting.is_empty()), (7, false));
        assert_eq!(changes(&waiting.take_all()), [1, 5, 6, 2, 7, 3, 4]);
        assert!(waiting.is_empty() && waiting.writes.is_empty(), "nobody is remembered");
    }

    #[test]
    fn what_is_put_back_comes_first_and_in_its_order() {
        let mut waiting = waiting(&[("a", 1), ("a", 2), ("b", 3), ("a", 4), ("c", 5)]);
        let mut taken = Vec::new();
        while let Some(write) = waiting.pop_front_if(|write| write.bounds().changes != 4) {
            taken.push(write);
        }
        assert_eq!(changes(&taken), [1, 3, 5, 2]);
        let left = taken.split_off(1);
        waiting.put_back(left);
        assert_eq!(waiting.len(), 4);
        assert_eq!(changes(&waiting.take_all()), [3, 5, 2, 4]);
        // Several of one client.
        waiting.put_back(vec![write("a", 1), write("a", 2), write("b", 3)]);
        assert_eq!(changes(&waiting.take_all()), [1, 3, 2]);
    }
}
