//! Assigns letters to users or jobs; a letter stays the same while its user or job is present.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The available letters, in the order they are assigned.
const ALL: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
/// The symbol of everyone without a letter.
pub(super) const OVERFLOW_SYMBOL: (char, u8) = ('#', 0);
/// The number of colours.
const COLOURS: u8 = 6;

/// The assigned letters.
#[derive(Clone, Debug, Default)]
pub(super) struct SymbolMap {
    /// The letter and colour number of each name.
    given: BTreeMap<Arc<str>, (char, u8)>,
}

impl SymbolMap {
    /// Keeps the letters of present names, and assigns letters to new ones in their order: a letter of the
    /// name if one is free.
    pub(super) fn refresh<'a>(&mut self, names: impl IntoIterator<Item = &'a Arc<str>> + Clone) {
        let here: BTreeSet<&Arc<str>> = names.clone().into_iter().collect();
        self.given.retain(|name, _| here.contains(name));
        let mut taken: BTreeSet<char> = self.given.values().map(|(letter, _)| *letter).collect();
        for name in names {
            if self.given.contains_key(name) {
                continue;
            }
            let own = name.chars().filter(char::is_ascii_alphabetic);
            let own = own
                .clone()
                .map(|letter| letter.to_ascii_lowercase())
                .chain(own.map(|letter| letter.to_ascii_uppercase()));
            let free = own.chain(ALL.chars()).find(|letter| !taken.contains(letter));
            if let Some(letter) = free {
                taken.insert(letter);
                let hue = self.rarest_hue();
                self.given.insert(Arc::clone(name), (letter, hue));
            }
        }
    }

    /// Returns the letter and colour number of a name.
    pub(super) fn of(&self, name: &str) -> (char, u8) {
        self.given.get(name).copied().unwrap_or(OVERFLOW_SYMBOL)
    }

    /// Returns true if no letter was left for a name.
    pub(super) fn is_beyond(&self, name: &str) -> bool {
        !self.given.contains_key(name)
    }

    fn rarest_hue(&self) -> u8 {
        let count = |hue: &u8| self.given.values().filter(|(_, own)| own == hue).count();
        (0..COLOURS).min_by_key(count).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &[&str]) -> Vec<Arc<str>> {
        words.iter().map(|word| Arc::from(*word)).collect()
    }

    fn letters(symbols: &SymbolMap, words: &[&str]) -> String {
        words.iter().map(|word| symbols.of(word).0).collect()
    }

    #[test]
    fn a_letter_is_of_the_own_name_and_stays() {
        let mut given = SymbolMap::default();
        given.refresh(&names(&["alice", "adam", "bob"]));
        assert_eq!(["alice", "adam", "bob"].map(|name| given.of(name).1), [0, 1, 2]);
        assert_eq!(letters(&given, &["alice", "adam", "bob"]), "adb");
        given.refresh(&names(&["alice", "aaron", "ユーザー", "8421"]));
        assert_eq!(letters(&given, &["alice", "aaron", "8421", "ユーザー", "bob"]), "arcb#");
    }

    #[test]
    fn there_is_a_sign_for_those_beyond_the_letters() {
        let many: Vec<Arc<str>> = (0..100).map(|number| format!("{number:03}").into()).collect();
        let mut given = SymbolMap::default();
        given.refresh(&many);
        assert_eq!(given.of("061").0, '9');
        assert_eq!(given.of("062").0, '#');
    }
}
