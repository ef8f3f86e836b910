//! Which devices the indices of a scheduler's list may mean, narrowed by what is proved.
//!
//! A unit is what such a list counts: a device without slices, or a slice. Every index means one unit, and no two the same.

use std::collections::BTreeSet;
use std::ops::BitOr;

use gtop_model::ProvedIndices;

/// Units, one bit each.
pub(super) type UnitSet = u128;

pub(super) const MAX_UNITS: usize = ProvedIndices::MAX_UNITS;
/// Stands for all devices that the driver does not show.
const HIDDEN: UnitSet = 1 << MAX_UNITS;

/// For each index of the list, the units that it may mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeviceMap {
    candidates: Vec<UnitSet>,
    /// Number of units.
    units: usize,
}

/// Something proved: what a set of indices means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListProof {
    pub(super) indices: BTreeSet<usize>,
    pub(super) units: UnitSet,
    pub(super) kind: ProofKind,
}

/// How what is proved bounds the meaning of a set of indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProofKind {
    /// The units are all of them, but for those that the driver does not show.
    Exactly,
    /// They mean these units, and perhaps more.
    AtLeast,
    /// They mean no others.
    AtMost,
}

/// What an entry of a list means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meant {
    /// The unit with this position.
    Unit(usize),
    /// A device that the driver does not show.
    NotShown,
    /// Any unit that no other entry means, or a device that the driver does not show.
    Unknown,
}

/// What a set of indices means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Meaning {
    /// Units that are certainly meant.
    pub(super) certain: UnitSet,
    /// Units that may be meant, the certain ones included.
    pub(super) possible: UnitSet,
}

impl Meant {
    /// Returns the position of the unit that is certainly meant.
    pub(super) const fn unit(self) -> Option<usize> {
        if let Self::Unit(unit) = self { Some(unit) } else { None }
    }
}

impl DeviceMap {
    /// Returns a map of which nothing is known. With `may_hide`, an index may mean a device that the driver does not show.
    pub(super) fn unknown(indices: usize, units: usize, may_hide: bool) -> Option<Self> {
        let is_hiding = may_hide || indices > units;
        let visible = if units > MAX_UNITS { return None } else { (1 << units) - 1 };
        let all = if is_hiding { visible | HIDDEN } else { visible };
        (indices <= MAX_UNITS).then(|| Self { candidates: vec![all; indices], units })
    }

    /// Returns the number of indices.
    pub(super) fn len(&self) -> usize {
        self.candidates.len()
    }

    /// Learns what a list means by an index. Returns false if that contradicts what is known.
    pub(super) fn set(&mut self, index: usize, meant: Meant) -> bool {
        let Some(known) = self.candidates.get_mut(index) else { return false };
        match meant {
            Meant::Unit(unit) => *known &= 1 << unit,
            Meant::NotShown => *known = HIDDEN,
            Meant::Unknown => *known |= HIDDEN,
        }
        *known != 0
    }

    /// Learns what is proved. Returns false if that contradicts what is known.
    pub(super) fn learn(&mut self, proof: &ListProof) -> bool {
        let ListProof { indices, units, kind } = proof;
        let count = count_ones(*units);
        let is_hiding = self.candidates.iter().any(|known| known & HIDDEN != 0);
        let is_possible = match kind {
            ProofKind::Exactly => count == indices.len() || (is_hiding && count < indices.len()),
            ProofKind::AtLeast => count <= indices.len(),
            ProofKind::AtMost => count >= indices.len() || is_hiding,
        };
        if !is_possible {
            return false;
        }
        let is_whole = *kind != ProofKind::AtMost && count == indices.len();
        for (index, known) in self.candidates.iter_mut().enumerate() {
            match (indices.contains(&index), kind) {
                (true, _) if is_whole => *known &= units,
                (true, ProofKind::Exactly | ProofKind::AtMost) => *known &= units | HIDDEN,
                (false, ProofKind::Exactly | ProofKind::AtLeast) => *known &= !units,
                (true, ProofKind::AtLeast) | (false, ProofKind::AtMost) => {}
            }
        }
        self.narrow()
    }

    /// Draws conclusions until none is left: what one index means, no other does. Returns false on a contradiction.
    pub(super) fn narrow(&mut self) -> bool {
        loop {
            let before = self.candidates.clone();
            for index in 0..self.candidates.len() {
                let known = self.candidates.get(index).copied().unwrap_or_default();
                if count_ones(known) == 1 && known != HIDDEN {
                    for (other, candidates) in self.candidates.iter_mut().enumerate() {
                        *candidates &= if other == index { known } else { !known };
                    }
                }
            }
            if self.is_one_to_one() {
                for unit in (0..self.units).map(|unit| 1 << unit) {
                    let mut meaning =
                        self.candidates.iter_mut().filter(|known| **known & unit != 0);
                    if let (Some(only), None) = (meaning.next(), meaning.next()) {
                        *only = unit;
                    }
                }
            }
            if self.candidates.contains(&0) {
                return false;
            }
            if self.candidates == before {
                return true;
            }
        }
    }

    /// Learns what another map knows. Returns false on a contradiction.
    pub(super) fn intersect(&mut self, other: &Self) -> bool {
        for (known, more) in self.candidates.iter_mut().zip(&other.candidates) {
            *known &= more;
        }
        self.len() == other.len() && self.narrow()
    }

    /// Returns true if each unit is meant by an index.
    fn is_one_to_one(&self) -> bool {
        self.candidates.len() == self.units
            && self.candidates.iter().all(|known| known & HIDDEN == 0)
    }

    /// Returns what a set of indices means.
    pub(super) fn meaning(&self, indices: &BTreeSet<usize>) -> Meaning {
        let (mut all, mut single, mut others) = (0, 0, 0);
        for (index, known) in self.candidates.iter().enumerate() {
            if !indices.contains(&index) {
                others |= known;
                continue;
            }
            all |= known;
            single |= if count_ones(*known) == 1 { *known } else { 0 };
        }
        let certain = if count_ones(all) == indices.len() && all & HIDDEN == 0 {
            all
        } else if self.is_one_to_one() {
            all & !others
        } else {
            single
        };
        Meaning { certain: certain & !HIDDEN, possible: all & !HIDDEN }
    }

    /// Returns true if each index may mean the unit at its place, where there is one.
    pub(super) fn allows(&self, meant: &[Option<usize>]) -> bool {
        meant.iter().enumerate().all(|(index, unit)| {
            let known = self.candidates.get(index).copied().unwrap_or_default();
            unit.is_none_or(|unit| known & (1 << unit) != 0)
        })
    }

    /// Returns true if the meaning of each index is known.
    pub(super) fn is_complete(&self) -> bool {
        self.candidates.iter().all(|known| count_ones(*known) == 1)
    }

    /// Returns true if something is known of an index.
    pub(super) fn is_narrowed(&self) -> bool {
        let first = self.candidates.first();
        self.candidates.iter().any(|known| Some(known) != first)
            || first.is_some_and(|known| count_ones(*known) < self.units)
    }

    /// Returns the units that each index may mean, by position; [`MAX_UNITS`] stands for a device that the driver does not
    /// show.
    pub(super) fn meanings(&self) -> Vec<Vec<u32>> {
        let meanings = self.candidates.iter().map(|known| {
            let bits = (0..=MAX_UNITS).filter(|unit| known & (1 << unit) != 0);
            bits.filter_map(|unit| u32::try_from(unit).ok()).collect()
        });
        meanings.collect()
    }

    /// Returns a map of such meanings; `None` if there are none, or they are impossible.
    pub(super) fn of_meanings(meanings: &[Vec<u32>], units: usize) -> Option<Self> {
        let all = Self::unknown(meanings.len(), units, true)?.candidates;
        let known = meanings.iter().map(|positions| {
            let positions = positions.iter().filter_map(|unit| usize::try_from(*unit).ok());
            union(positions.filter(|unit| *unit <= MAX_UNITS).map(|unit| 1 << unit))
        });
        let candidates: Vec<UnitSet> = known.collect();
        let mut bounded = candidates.iter().zip(&all);
        let are_valid =
            !all.is_empty() && bounded.all(|(known, all)| *known != 0 && known & !all == 0);
        are_valid.then_some(Self { candidates, units })
    }
}

/// Returns the units of all these sets.
pub(super) fn union(sets: impl IntoIterator<Item = UnitSet>) -> UnitSet {
    sets.into_iter().fold(0, BitOr::bitor)
}

/// Returns the number of units.
pub(super) fn count_ones(units: UnitSet) -> usize {
    usize::try_from(units.count_ones()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proof(indices: &[usize], units: UnitSet, kind: ProofKind) -> ListProof {
        ListProof { indices: indices.iter().copied().collect(), units, kind }
    }

    fn meaning(map: &DeviceMap, indices: &[usize]) -> (UnitSet, UnitSet) {
        let Meaning { certain, possible } = map.meaning(&indices.iter().copied().collect());
        (certain, possible)
    }

    fn map(indices: usize, units: usize) -> DeviceMap {
        DeviceMap::unknown(indices, units, false).unwrap()
    }

    #[test]
    fn a_job_with_all_devices_teaches_nothing_and_is_known_all_the_same() {
        let mut map = map(4, 4);
        assert!(map.learn(&proof(&[0, 1, 2, 3], 0b1111, ProofKind::Exactly)));
        assert_eq!(meaning(&map, &[0, 1, 2, 3]), (0b1111, 0b1111));
        assert_eq!(meaning(&map, &[0]), (0, 0b1111));
    }

    #[test]
    fn proofs_about_sets_are_cut_against_each_other() {
        let mut map = map(4, 4);
        assert!(map.learn(&proof(&[0, 1], 0b1010, ProofKind::Exactly)));
        assert_eq!(meaning(&map, &[0, 1]), (0b1010, 0b1010));
        assert_eq!(meaning(&map, &[2, 3]), (0b0101, 0b0101));
        assert!(map.learn(&proof(&[1, 2], 0b0011, ProofKind::Exactly)));
        for (index, unit) in [(0, 0b1000), (1, 0b0010), (2, 0b0001), (3, 0b0100)] {
            assert_eq!(meaning(&map, &[index]), (unit, unit), "{index}");
        }
        assert!(map.is_complete());
    }

    #[test]
    fn some_of_the_devices_of_a_job_belong_to_no_other_index() {
        let mut map = map(4, 4);
        assert!(map.learn(&proof(&[0, 1], 0b0001, ProofKind::AtLeast)));
        assert_eq!(meaning(&map, &[0, 1]), (0b0001, 0b1111));
        assert_eq!(meaning(&map, &[2, 3]), (0, 0b1110));
        // All that are shown of a job of two are as many as it has.
        assert!(map.learn(&proof(&[0, 1], 0b0011, ProofKind::AtLeast)));
        assert_eq!(meaning(&map, &[2, 3]), (0b1100, 0b1100));
    }

    #[test]
    fn what_cannot_be_is_a_contradiction() {
        let refused = |proofs: &[ListProof]| {
            let mut map = map(4, 4);
            proofs.iter().map(|proof| map.learn(proof)).collect::<Vec<_>>()
        };
        assert_eq!(refused(&[proof(&[0], 0b11, ProofKind::AtLeast)]), [false]);
        assert_eq!(refused(&[proof(&[0, 1], 0b1, ProofKind::Exactly)]), [false]);
        assert_eq!(
            refused(&[proof(&[0], 0b1, ProofKind::Exactly), proof(&[1], 0b1, ProofKind::AtLeast)]),
            [true, false]
        );
        assert_eq!(
            refused(&[proof(&[0], 0b1, ProofKind::Exactly), proof(&[0], 0b10, ProofKind::Exactly)]),
            [true, false]
        );
    }

    #[test]
    fn fewer_indices_than_devices_leave_devices_that_no_index_means() {
        let mut map = map(3, 4);
        assert!(map.learn(&proof(&[0, 1, 2], 0b0110, ProofKind::AtLeast)));
        assert_eq!(meaning(&map, &[0, 1, 2]), (0, 0b1111));
        assert!(map.learn(&proof(&[0, 1, 2], 0b1110, ProofKind::Exactly)));
        assert_eq!(meaning(&map, &[0, 1, 2]), (0b1110, 0b1110));
        assert_eq!(meaning(&map, &[0]), (0, 0b1110));
    }

    #[test]
    fn an_index_may_mean_a_device_that_the_driver_does_not_show() {
        let mut map = DeviceMap::unknown(4, 3, false).unwrap();
        assert_eq!(meaning(&map, &[0, 1, 2, 3]), (0, 0b111));
        assert!(map.learn(&proof(&[0, 1], 0b1, ProofKind::Exactly)));
        assert_eq!(meaning(&map, &[0, 1]), (0, 0b1));
    }

    #[test]
    fn more_units_than_bits_are_refused() {
        assert!(DeviceMap::unknown(8, 127, false).is_some());
        assert!(DeviceMap::unknown(8, 128, false).is_none());
        assert!(DeviceMap::unknown(128, 8, false).is_none());
    }

    #[test]
    fn a_map_is_written_and_read() {
        let mut map = map(4, 4);
        assert!(!map.is_narrowed());
        assert!(map.learn(&proof(&[0, 1], 0b1010, ProofKind::Exactly)));
        assert!(map.is_narrowed());
        assert_eq!(DeviceMap::of_meanings(&map.meanings(), 4), Some(map));
        let hidden = DeviceMap::unknown(4, 3, false).unwrap();
        assert_eq!(DeviceMap::of_meanings(&hidden.meanings(), 3), Some(hidden));
        for wrong in [&[][..], &[vec![]], &[vec![2]], &[vec![0], vec![128]], &[vec![u32::MAX]]] {
            assert_eq!(DeviceMap::of_meanings(wrong, 2), None, "{wrong:?}");
        }
    }
}
