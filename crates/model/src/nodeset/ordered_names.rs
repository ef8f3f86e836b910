//! A set of names that keeps the order of insertion.

use std::collections::BTreeMap;

/// A set of names in the order of insertion.
#[derive(Debug, Default)]
pub(super) struct OrderedNames {
    positions: BTreeMap<String, usize>,
    next: usize,
}

impl OrderedNames {
    pub(super) fn len(&self) -> usize {
        self.positions.len()
    }

    pub(super) fn insert(&mut self, name: String) {
        self.positions.entry(name).or_insert(self.next);
        self.next += 1;
    }

    pub(super) fn remove(&mut self, name: &str) -> bool {
        self.positions.remove(name).is_some()
    }

    /// Keeps the names that are in `other` too.
    pub(super) fn intersect(&mut self, other: &Self) {
        self.positions.retain(|name, _| other.positions.contains_key(name));
    }

    pub(super) fn into_vec(self) -> Vec<String> {
        let mut names: Vec<_> =
            self.positions.into_iter().map(|(name, position)| (position, name)).collect();
        names.sort_unstable();
        names.into_iter().map(|(_, name)| name).collect()
    }
}

impl FromIterator<String> for OrderedNames {
    fn from_iter<I: IntoIterator<Item = String>>(all: I) -> Self {
        let mut names = Self::default();
        all.into_iter().for_each(|name| names.insert(name));
        names
    }
}
