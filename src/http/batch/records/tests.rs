//! Records expand to the lines of their replies.

use proptest::prelude::*;

use super::*;

const RECIPE: Recipe = Recipe::Np2;

fn document() -> impl Strategy<Value = HitDocumentReply<'static>> {
    let id = proptest::option::of("\\PC{0,20}".prop_map(Cow::from));
    (id, any::<u64>(), any::<Option<u32>>()).prop_map(|(id, stored_at_ms, expires_at)| {
        HitDocumentReply { id, stored_at_ms, expires_at, metadata: None }
    })
}

fn share() -> impl Strategy<Value = Option<f64>> {
    proptest::option::of((0..=10_000_usize).prop_map(share_of))
}

fn previous() -> impl Strategy<Value = Option<PreviousReply>> {
    let previous = (any::<u8>(), share(), share(), any::<u64>());
    proptest::option::of(previous.prop_map(|(distance, similarity, numbers, stored_at_ms)| {
        PreviousReply { distance, similarity, numbers, stored_at_ms }
    }))
}

fn hit() -> impl Strategy<Value = HitReply<'static>> {
    let verified = (share(), share(), any::<Option<bool>>());
    let documents = proptest::collection::vec(document(), 0..4);
    (any::<(u64, u8, u64, bool)>(), verified, documents).prop_map(
        |((bits, distance, document_count, at_least), verified, documents)| {
            let (similarity, numbers, confirmed) = verified;
            HitReply {
                fingerprint: Hex(bits),
                distance,
                similarity,
                numbers,
                confirmed,
                documents,
                document_count,
                document_count_is_at_least: at_least,
                differing_bits: None,
            }
        },
    )
}

fn found() -> impl Strategy<Value = Found<Vec<HitReply<'static>>>> {
    let hits = proptest::collection::vec(hit(), 0..4);
    (hits, any::<[bool; 3]>(), 0..20_000_usize, proptest::option::of(0..9_usize)).prop_map(
        |(hits, [duplicate, truncated, numbers_differ], hit_count, unverified_matches)| Found {
            duplicate,
            numbers_differ,
            hits,
            hit_count,
            truncated,
            unverified_matches,
        },
    )
}

/// Appends the record of a reply to `records` and its line to `lines`.
fn add(records: &mut ReplyRecords, lines: &mut Vec<u8>, reply: &(impl PackedReply + Serialize)) {
    assert!(records.push(reply));
    lines.extend_from_slice(&line_of(reply));
}

fn expanded(mut records: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    while !records.is_empty() {
        records = expand_first(records, RECIPE, &mut out);
    }
    out.to_vec()
}

proptest! {
    /// The oracle is the JSON that is made without packing.
    #[test]
    fn a_record_expands_to_the_line_of_its_reply(
        (bits, short, stored) in any::<(u64, bool, bool)>(),
        sequence in proptest::option::of(1..u64::MAX),
        outcome in proptest::sample::select(OUTCOMES.to_vec()),
        features in proptest::option::of(0..99_999_usize),
        (first, second, is_plain) in (found(), found(), any::<bool>()),
        (previous, replaced) in (previous(), previous()),
    ) {
        let (mut records, mut lines) = (ReplyRecords::default(), Vec::new());
        let fingerprint = Hex(bits);
        add(&mut records, &mut lines, &InsertReply {
            fingerprint, short, outcome, stored, sequence, previous,
        });
        let Found {
            mut duplicate, mut numbers_differ, mut hits, mut hit_count, mut truncated,
            mut unverified_matches,
        } = first;
        if is_plain {
            (duplicate, numbers_differ, truncated, hit_count) = (false, false, false, 0);
            (hits, unverified_matches) = (Vec::new(), None);
        }
        add(&mut records, &mut lines, &CheckAndInsertReply {
            outcome, stored, sequence, fingerprint, short, duplicate, numbers_differ, hits,
            hit_count, truncated, unverified_matches, previous: replaced,
        });
        let Found { duplicate, hits, hit_count, truncated, unverified_matches, .. } = second;
        add(&mut records, &mut lines, &QueryReply {
            fingerprint, short, duplicate, hits, hit_count, truncated, unverified_matches,
            explanation: None,
        });
        let recipe = RECIPE.to_string();
        add(&mut records, &mut lines, &FingerprintReply {
            fingerprint, recipe, features, short, explanation: None,
        });
        records.push_bytes(b"as it is");
        lines.extend_from_slice(b"as it is");
        prop_assert_eq!(
            String::from_utf8(expanded(&records.bytes)).unwrap(),
            String::from_utf8(lines).unwrap()
        );
    }
}

#[test]
fn a_plain_outcome_takes_at_most_thirteen_bytes_up_to_a_quarter_of_a_billion_changes() {
    let mut records = ReplyRecords::default();
    let (outcome, sequence) = (Outcome::AlreadyPresent, Some((1 << 28) - 1));
    let (fingerprint, short, stored) = (Hex(u64::MAX), false, true);
    let previous = None;
    let reply = InsertReply { fingerprint, short, outcome, stored, sequence, previous };
    assert!(records.push(&reply));
    assert_eq!(records.bytes.len(), 13);
}

#[test]
fn a_long_reply_and_one_with_metadata_have_no_record_and_leave_no_trace() {
    let document = |id: String, metadata| HitDocumentReply {
        id: Some(id.into()),
        stored_at_ms: 1,
        expires_at: None,
        metadata,
    };
    let metadata = serde_json::value::RawValue::from_string("{}".to_owned()).unwrap();
    for document in [
        document("x".repeat(PACKED_BYTES_MAX), None),
        document("x".to_owned(), Some(Cow::Owned(metadata))),
    ] {
        let hit = HitReply {
            fingerprint: Hex(1),
            distance: 0,
            similarity: None,
            numbers: None,
            confirmed: None,
            documents: vec![document],
            document_count: 1,
            document_count_is_at_least: false,
            differing_bits: None,
        };
        let reply = QueryReply {
            fingerprint: Hex(1),
            short: false,
            duplicate: true,
            hits: vec![hit],
            hit_count: 1,
            truncated: false,
            unverified_matches: None,
            explanation: None,
        };
        let mut records = ReplyRecords::default();
        records.push_bytes(b"before");
        let before = records.bytes.clone();
        assert!(!records.push(&reply));
        assert_eq!(records.bytes, before);
    }
}
