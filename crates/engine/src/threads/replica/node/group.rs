//! Which writes are sent together.

use crate::replication::message::{ROOM_BYTES, room_of};
use crate::write::command::Bounds;

/// Whether a group has room for another write with such bounds: writes together have at most so
/// many changes, the last one aside, and fit a message. Each write alone does.
pub(crate) fn room_in_group(changes_max: usize) -> impl FnMut(&Bounds) -> bool {
    let (mut changes, mut room) = (0, 0);
    move |bounds| {
        let (is_first, is_full) = (room == 0, changes >= changes_max);
        changes += bounds.changes;
        room += room_of(bounds.records, bounds.payload_bytes);
        is_first || (!is_full && room <= ROOM_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use nearprint_fingerprint::Fingerprint;
    use nearprint_machine::change::PACKED_MAX;
    use nearprint_machine::commands::InsertPacked;
    use nearprint_machine::document::Packed;

    use super::*;
    use crate::write::queued::Queued;
    use crate::write::queued::QueuedWrite;

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
}
