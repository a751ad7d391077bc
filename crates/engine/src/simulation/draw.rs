//! What the commands of a life are drawn from: few ids, few namespaces and few near fingerprints,
//! so that most commands meet.

use nearprint_fingerprint::{BINS, Fingerprint, Sketch};
use nearprint_index::namespace_key::NamespaceKey;

use crate::document::{Document, DocumentId, Expiry, Metadata, Namespace, Packed};
use crate::storage::simulated::Dice;

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
