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
    assigned: BTreeMap<Arc<str>, (char, u8)>,
}

impl SymbolMap {
    /// Keeps the letters of present names, and assigns letters to new ones in their order: a letter of the
    /// name if one is free.
    pub(super) fn refresh<'a>(&mut self, names: impl IntoIterator<Item = &'a Arc<str>> + Clone) {
        let present: BTreeSet<&Arc<str>> = names.clone().into_iter().collect();
        self.assigned.retain(|name, _| present.contains(name));
        let mut used: BTreeSet<char> = self.assigned.values().map(|(letter, _)| *letter).collect();
        for name in names {
            if self.assigned.contains_key(name) {
                continue;
            }
            let letters_of_name = name.chars().filter(char::is_ascii_alphabetic);
            let letters_of_name = letters_of_name
                .clone()
                .map(|letter| letter.to_ascii_lowercase())
                .chain(letters_of_name.map(|letter| letter.to_ascii_uppercase()));
            let free = letters_of_name.chain(ALL.chars()).find(|letter| !used.contains(letter));
            if let Some(letter) = free {
                used.insert(letter);
                let hue = self.rarest_hue();
                self.assigned.insert(Arc::clone(name), (letter, hue));
            }
        }
    }

    pub(super) fn of(&self, name: &str) -> (char, u8) {
        self.assigned.get(name).copied().unwrap_or(OVERFLOW_SYMBOL)
    }

    /// Returns true if no letter was left for a name.
    pub(super) fn has_no_letter(&self, name: &str) -> bool {
        !self.assigned.contains_key(name)
    }

    fn rarest_hue(&self) -> u8 {
        let rarest = (0..COLOURS)
            .min_by_key(|hue| self.assigned.values().filter(|(_, known)| known == hue).count());
        rarest.unwrap_or(0)
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
    fn a_letter_is_taken_from_the_name_and_stays() {
        let mut symbols = SymbolMap::default();
        symbols.refresh(&names(&["alice", "adam", "bob"]));
        assert_eq!(["alice", "adam", "bob"].map(|name| symbols.of(name).1), [0, 1, 2]);
        assert_eq!(letters(&symbols, &["alice", "adam", "bob"]), "adb");
        symbols.refresh(&names(&["alice", "aaron", "ユーザー", "8421"]));
        assert_eq!(letters(&symbols, &["alice", "aaron", "8421", "ユーザー", "bob"]), "arcb#");
    }

    #[test]
    fn names_beyond_the_letters_share_a_symbol() {
        let many: Vec<Arc<str>> = (0..100).map(|number| format!("{number:03}").into()).collect();
        let mut symbols = SymbolMap::default();
        symbols.refresh(&many);
        assert_eq!(symbols.of("061").0, '9');
        assert_eq!(symbols.of("062").0, '#');
    }
}
