//! A counter with a maximum.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How much of a bounded resource is taken.
#[derive(Debug, Default)]
pub(crate) struct BoundedCounter(AtomicUsize);

impl BoundedCounter {
    /// Takes `amount` if the level stays at `max` or below.
    pub(crate) fn take(&self, amount: usize, max: usize) -> bool {
        // Relaxed: no other memory depends on the number.
        let before = self.0.fetch_add(amount, Ordering::Relaxed);
        let fits = before.saturating_add(amount) <= max;
        if !fits {
            self.give_back(amount);
        }
        fits
    }

    /// How much is taken.
    pub(crate) fn now(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn give_back(&self, amount: usize) {
        self.0.fetch_sub(amount, Ordering::Relaxed);
    }
}
