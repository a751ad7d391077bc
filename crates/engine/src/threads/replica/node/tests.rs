//! Which writes are sent together.

use nearprint_fingerprint::Fingerprint;
use nearprint_machine::change::PACKED_MAX;
use nearprint_machine::commands::InsertPacked;
use nearprint_machine::document::Packed;

use super::*;
use crate::write::queued::Queued;

fn writes(sizes: &[usize]) -> Vec<Box<dyn QueuedWrite>> {
    let write = |size: &usize| -> Box<dyn QueuedWrite> {
        let fingerprints = vec![Fingerprint::new(7); *size];
        let packed = Packed { namespace: None, expiry: None, fingerprints };
        Queued::new(InsertPacked { packed }, 0, (None, None), 0).0
    };
    sizes.iter().map(write).collect()
}

#[test]
fn a_group_is_what_fits_a_message() {
    let length = |sizes: &[usize], max| {
        let writes = writes(sizes);
        writes.iter().map(|write| write.bounds()).take_while(room_in_group(max)).count()
    };
    assert_eq!(length(&[PACKED_MAX; 5], usize::MAX), 3);
    assert_eq!(length(&[PACKED_MAX; 5], 1), 1);
    assert_eq!(length(&[1; 5], 3), 3);
    assert_eq!(length(&[2; 5], 3), 2, "the one that exceeds the limit is the last one");
    assert_eq!((length(&[1; 5], 9), length(&[], 9)), (5, 0));
    assert_eq!(length(&[1; 5], 0), 1, "a group is never empty");
}
