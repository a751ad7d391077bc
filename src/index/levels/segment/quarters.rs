//! A segment in quarters, and quarters as a segment ([`crate::index::tables::table::split`]).
//!
//! Lines and postings share their memory on the way into quarters; ids are copied. On the way back postings are
//! copied as well, when nothing of what was merged is there any more.

use std::sync::OnceLock;

use crate::index::levels::ids::IdTable;
use crate::index::levels::posting::{Posting, Postings};
use crate::index::levels::segment::{Group, Segment, by_number};
use crate::index::levels::sorted::Sorted;
use crate::index::plan::head;
use crate::index::tables::partition::{QUARTERS, Quarter};
use crate::index::tables::table::split::Places;
use crate::index::tables::table::{Number, Table};

/// Groups with their later postings, as they are gathered.
type Gathered = (Vec<Group>, Vec<Posting>);

impl Segment {
    /// Its quarters, in order: together they say what it says. `None` where its table has none.
    pub fn in_quarters(&self) -> Option<[Self; QUARTERS]> {
        let (tables, places) = self.table()?.in_quarters()?;
        let order = self.sorted.order();
        let of_value = |value| Quarter::of(head(order.key(value)));
        let mut gathered: [Gathered; QUARTERS] = Default::default();
        for (at, group) in self.groups.iter().enumerate() {
            let (quarter, number) = places.in_quarter(group.number);
            let later = self.later_of(at).map(|at| self.later.get(at));
            gather(&mut gathered[quarter], Group { number, ..*group }, later);
        }
        let (mut gathered, mut quarters) = (gathered.into_iter(), Quarter::ALL.into_iter());
        let mut segments = tables.map(|table| {
            let quarter = quarters.next().expect("a table each");
            let [(own, _), (behind, _)] = places.runs(quarter.index());
            let oldest = self.oldest.part(own, behind);
            let (groups, later) = gathered.next().expect("as many");
            let (groups, later) = by_number(groups, &later);
            let removals =
                self.removals.iter().filter(|removal| of_value(removal.value) == quarter);
            let resets = self.resets.iter().filter(|reset| of_value(reset.value) == quarter);
            Self {
                sorted: Sorted::Large(table),
                oldest,
                groups,
                later,
                ids: IdTable::default(),
                removals: removals.copied().collect(),
                resets: resets.copied().collect(),
                added: OnceLock::new(),
            }
        });
        self.hand_on_ids(&places, &mut segments);
        // What each adds is not known, their sum is.
        if let Some(mut added) = self.known_added() {
            for segment in &segments {
                segment.added(|| std::mem::take(&mut added));
            }
        }
        Some(segments)
    }

    /// The segment whose quarters these are.
    ///
    /// # Panics
    /// When they are not, in order.
    pub fn joined(quarters: [&Self; QUARTERS]) -> Self {
        let tables = quarters.map(|quarter| quarter.table().expect("a quarter is large"));
        let (table, places) = Table::joined(tables);
        let commons = quarters.map(|quarter| quarter.oldest.common());
        let common = commons
            .into_iter()
            .reduce(crate::index::levels::segment::Common::and)
            .expect("there are quarters");
        let mut oldest = Postings::new(common, table.numbers());
        let mut gathered = Gathered::default();
        for (at, quarter) in quarters.into_iter().enumerate() {
            for (to, from) in places.runs(at) {
                let from = from as Number..from + to.len() as Number;
                oldest.copy(&quarter.oldest, from, to.start);
            }
            for (of, group) in quarter.groups.iter().enumerate() {
                let later = quarter.later_of(of).map(|of| quarter.later.get(of));
                let number = places.in_whole(at, group.number);
                gather(&mut gathered, Group { number, ..*group }, later);
            }
        }
        let (groups, later) = by_number(gathered.0, &gathered.1);
        let mut segment = Self {
            sorted: Sorted::Large(table),
            oldest,
            groups,
            later,
            ids: IdTable::default(),
            removals: quarters.iter().flat_map(|quarter| &quarter.removals).copied().collect(),
            resets: quarters.iter().flat_map(|quarter| &quarter.resets).copied().collect(),
            added: OnceLock::new(),
        };
        segment.ids = segment.ids_of(&places, quarters);
        let added = quarters.iter().map(|quarter| quarter.known_added()).sum::<Option<i64>>();
        if let Some(added) = added {
            segment.added(|| added);
        }
        segment
    }

    fn table(&self) -> Option<&Table> {
        match &self.sorted {
            Sorted::Large(table) => Some(table),
            Sorted::Small(_) => None,
        }
    }

    /// Gives its quarters its ids.
    fn hand_on_ids(&self, places: &Places, quarters: &mut [Self; QUARTERS]) {
        let numbers = self.sorted.numbers() as u32;
        let of_later = |number, quarters: &[Self; QUARTERS]| {
            let (value, posting) = self.document(number);
            let at = Quarter::of(head(self.sorted.order().key(value))).index();
            Some((at, quarters[at].number_of(value, posting.sequence)?))
        };
        let place = |number: u32, quarters: &[Self; QUARTERS]| {
            if number < numbers {
                Some(places.in_quarter(number))
            } else {
                of_later(number, quarters)
            }
        };
        let mut counts = [0; QUARTERS];
        for (at, _) in self.ids.iter().filter_map(|(_, number)| place(number, quarters)) {
            counts[at] += 1;
        }
        let mut tables = counts.map(IdTable::with_capacity);
        for (key, number) in self.ids.iter() {
            if let Some((at, number)) = place(number, quarters) {
                tables[at].push(key, number);
            }
        }
        for (quarter, ids) in quarters.iter_mut().zip(tables) {
            quarter.ids = ids;
        }
    }

    /// The ids of its quarters, by key.
    fn ids_of(&self, places: &Places, quarters: [&Self; QUARTERS]) -> IdTable {
        let mut ids =
            IdTable::with_capacity(quarters.iter().map(|quarter| quarter.ids.len()).sum());
        let mut sources = quarters.map(|quarter| quarter.ids.iter().peekable());
        loop {
            let next =
                sources.iter_mut().enumerate().filter_map(|(at, ids)| Some((ids.peek()?.0, at)));
            let Some((key, at)) = next.min() else { return ids };
            let Some((_, number)) = sources[at].next() else { return ids };
            let number = if (number as usize) < quarters[at].sorted.numbers() {
                Some(places.in_whole(at, number))
            } else {
                let (value, posting) = quarters[at].document(number);
                self.number_of(value, posting.sequence)
            };
            if let Some(number) = number {
                ids.push(key, number);
            }
        }
    }
}

/// Adds a group and its later postings.
fn gather(gathered: &mut Gathered, group: Group, later: impl Iterator<Item = Posting>) {
    let (groups, postings) = gathered;
    groups.push(Group { start: postings.len() as u32, ..group });
    postings.extend(later);
}
