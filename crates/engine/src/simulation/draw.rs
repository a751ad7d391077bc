//! What the commands of a life are drawn from: few ids, few namespaces and few near fingerprints,
//! so that most commands meet; and the settings of its engine.

use nearprint_fingerprint::{BINS, Distance, Fingerprint, Sketch};
use nearprint_index::namespace_key::NamespaceKey;
use nearprint_machine::document::{Document, DocumentId, Expiry, Metadata, Namespace, Packed};
use nearprint_storage::simulated::Dice;

use crate::api::options::{Durability, Options};

/// Settings that a directory is created with.
pub(super) fn created(dice: &mut Dice, base: Options) -> Options {
    let distance_max = Distance::new([3, 3, 4, 6, 9][dice.below(5)]).unwrap();
    Options { distance_max, has_labels: dice.below(4) > 0, ..base }
}

/// Settings for one start of a directory: an operator may choose others each time.
pub(super) fn settings(dice: &mut Dice, created: &Options, policies: &[Durability]) -> Options {
    Options {
        durability: policies[dice.below(policies.len())],
        delta_events: [1, 3, 10, 10, 70][dice.below(5)],
        small_segment_max: [1, 24, 24, 300][dice.below(4)],
        journal_file_bytes: [1, 300, 900, 900, 5_000][dice.below(5)],
        ..created.clone()
    }
}

/// How busy a life is.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    /// The most commands of a group.
    pub(super) group: usize,
    /// Of this many steps, ten may be work of the background; the others are groups.
    pub(super) steps: usize,
}

impl Pace {
    pub(super) fn draw(dice: &mut Dice) -> Self {
        Self { group: [1, 5, 5, 30][dice.below(4)], steps: [10, 10, 10, 40][dice.below(4)] }
    }
}

/// The namespaces other than the default one.
pub(super) const NAMESPACES: [&str; 2] = ["one", "two"];

pub(super) fn namespace(dice: &mut Dice) -> Option<Namespace> {
    NAMESPACES.get(dice.below(4)).map(|name| Namespace::new(*name).unwrap())
}

pub(super) fn expiry(dice: &mut Dice, now_ms: u64) -> Option<Expiry> {
    let after = dice.below(6) as u64;
    // There is no expiry in the first second of 1970, to which the clock may be set.
    (dice.below(4) == 0).then(|| Expiry::at((now_ms / 1_000 + after).max(1)).unwrap())
}

pub(super) fn batch(dice: &mut Dice, secret: &[u8; 16], now_ms: u64) -> Packed {
    let (namespace, expiry) = (namespace(dice), expiry(dice, now_ms));
    let count = dice.below(6);
    let fingerprints = (0..=count).map(|_| fingerprint(dice, namespace.as_ref(), secret)).collect();
    Packed { namespace, expiry, fingerprints }
}

/// A fingerprint of a namespace. Half of them are indexed like those of the default namespace.
pub(super) fn fingerprint(
    dice: &mut Dice,
    namespace: Option<&Namespace>,
    secret: &[u8; 16],
) -> Fingerprint {
    let flips = dice.below(5);
    let bits = (0..flips).fold(0, |bits, _| bits ^ 1 << dice.below(64));
    let mask = namespace.map_or(0, |namespace| NamespaceKey::of(namespace, secret).mask);
    Fingerprint::new(bits ^ if dice.below(2) == 0 { mask } else { 0 })
}

pub(super) fn id(dice: &mut Dice) -> DocumentId {
    DocumentId::new(format!("id-{}", dice.below(7))).unwrap()
}

pub(super) fn document(dice: &mut Dice, secret: &[u8; 16], now_ms: u64) -> Document {
    let sketch = (dice.below(2) == 0).then(|| {
        let mut codes = [0; BINS];
        let changed = dice.below(20);
        for (bin, code) in codes.iter_mut().enumerate().take(50) {
            *code = if bin < changed { 2 } else { 1 };
        }
        Box::new(Sketch::from_codes(&codes))
    });
    let namespace = namespace(dice);
    Document {
        id: (dice.below(3) > 0).then(|| id(dice)),
        fingerprint: fingerprint(dice, namespace.as_ref(), secret),
        namespace,
        sketch,
        short: dice.below(5) == 0,
        expiry: expiry(dice, now_ms),
        metadata: (dice.below(5) == 0).then(|| Metadata::new("{\"a\":[1]}").unwrap()),
    }
}
