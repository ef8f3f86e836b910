//! Folds names to a node set.

use std::collections::{BTreeMap, BTreeSet};

use crate::nodeset::expand::parse_number;

/// A number in a name, ordered as in `ClusterShell`: by length, then by value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Digits {
    length: usize,
    value: u64,
}

impl Digits {
    fn parse(text: &str) -> Option<Self> {
        parse_number(text).map(|value| Self { length: text.len(), value })
    }

    fn is_padded(&self) -> bool {
        self.length > 1 && self.value.to_string().len() < self.length
    }

    fn text(&self) -> String {
        let Self { length, value } = self;
        format!("{value:0length$}")
    }
}

/// The texts between the numbers of a name.
type NamePattern = Vec<String>;

/// The numbers at one position of a set.
type Numbers = BTreeSet<Digits>;

/// Folds names into a short node set: `gpu01 gpu02 gpu04 login` → `gpu[01-02,04],login`.
///
/// All numbers of a name are folded, as in `ClusterShell`; the result expands to the same names,
/// sorted, without duplicates.
pub fn fold<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let mut patterns: BTreeMap<NamePattern, BTreeSet<Vec<Digits>>> = BTreeMap::new();
    for name in names {
        let (pattern, numbers) = split_name(name.as_ref());
        patterns.entry(pattern).or_default().insert(numbers);
    }
    let sets = patterns.iter().flat_map(|(pattern, members)| {
        let rows = merge_members(members);
        rows.into_iter().map(|row| format_set(pattern, &row)).collect::<Vec<_>>()
    });
    sets.collect::<Vec<_>>().join(",")
}

/// Splits a name into texts and numbers; an IPv6 address stays whole.
fn split_name(name: &str) -> (NamePattern, Vec<Digits>) {
    if name.contains('[') || name.matches(':').nth(1).is_some() {
        return (vec![name.to_owned()], Vec::new());
    }
    let (mut texts, mut numbers) = (vec![String::new()], Vec::new());
    let mut rest = name;
    while !rest.is_empty() {
        let start = rest.find(|letter: char| letter.is_ascii_digit()).unwrap_or(rest.len());
        let (text, after) = rest.split_at(start);
        let end = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
        let (digits, after) = after.split_at(end);
        rest = after;
        let Some(last) = texts.last_mut() else { break };
        last.push_str(text);
        match Digits::parse(digits) {
            Some(digits) => {
                numbers.push(digits);
                texts.push(String::new());
            }
            // A number with too many digits stays text.
            None => last.push_str(digits),
        }
    }
    (texts, numbers)
}

fn format_set(pattern: &[String], row: &[Numbers]) -> String {
    let mut numbers = row.iter();
    let mut set = String::new();
    for text in pattern {
        set.push_str(text);
        let Some(numbers) = numbers.next() else { continue };
        let list = format_ranges(numbers);
        let [open, close] = if numbers.len() == 1 { ["", ""] } else { ["[", "]"] };
        set.extend([open, &list, close]);
    }
    set
}

/// Merges members from the last position and from the first, and returns the shorter result.
fn merge_members(members: &BTreeSet<Vec<Digits>>) -> Vec<Vec<Numbers>> {
    let width = members.first().map_or(0, Vec::len);
    let rows: Vec<Vec<Numbers>> = members
        .iter()
        .map(|member| member.iter().map(|digits| Numbers::from([digits.clone()])).collect())
        .collect();
    let backwards = merge_rows(rows.clone(), (0..width).rev());
    if width < 2 || backwards.len() == 1 {
        return backwards;
    }
    let forwards = merge_rows(rows, 0..width);
    if forwards.len() < backwards.len() { forwards } else { backwards }
}

/// Merges rows that differ at one position only, position by position.
fn merge_rows(
    mut rows: Vec<Vec<Numbers>>,
    positions: impl Iterator<Item = usize>,
) -> Vec<Vec<Numbers>> {
    for position in positions {
        let mut merged: BTreeMap<Vec<Numbers>, Numbers> = BTreeMap::new();
        for mut row in rows {
            let Some(numbers) = row.get_mut(position).map(std::mem::take) else { continue };
            merged.entry(row).or_default().extend(numbers);
        }
        let restored = merged.into_iter().map(|(mut row, numbers)| {
            if let Some(slot) = row.get_mut(position) {
                *slot = numbers;
            }
            row
        });
        rows = restored.collect();
    }
    rows.sort_unstable();
    rows
}

/// Formats numbers as `008-011,20`.
fn format_ranges(numbers: &Numbers) -> String {
    let mut runs: Vec<(&Digits, &Digits)> = Vec::new();
    for digits in numbers {
        match runs.last_mut() {
            Some((first, last)) if continues_run(first, last, digits) => *last = digits,
            _ => runs.push((digits, digits)),
        }
    }
    let ranges = runs.into_iter().map(|(first, last)| {
        if first == last { first.text() } else { format!("{}-{}", first.text(), last.text()) }
    });
    ranges.collect::<Vec<_>>().join(",")
}

/// Returns true if a number continues a run; the numbers of a padded run have the same length.
fn continues_run(first: &Digits, last: &Digits, next: &Digits) -> bool {
    let has_same_padding =
        if first.is_padded() { next.length == first.length } else { !next.is_padded() };
    has_same_padding && last.value + 1 == next.value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodeset::expand;

    #[test]
    fn names_fold_and_expand_to_the_same() {
        for (names, folded) in [
            (vec!["gpu01", "gpu02", "gpu04", "login"], "gpu[01-02,04],login"),
            (vec!["gpu098", "gpu099", "gpu100"], "gpu[098-100]"),
            (vec!["gpu7"], "gpu7"),
            (vec!["n8", "n9", "n10", "n11"], "n[8-11]"),
            (vec!["10.0.0.1", "10.0.0.2"], "10.0.0.[1-2]"),
            (vec!["gpu-1.a", "gpu-2.a"], "gpu-[1-2].a"),
            (vec!["n1", "n01", "n001", "n2"], "n[1-2,01,001]"),
            (vec!["n10", "n9", "n010"], "n[9-10,010]"),
            (vec!["n09", "n10", "n100"], "n[09-10,100]"),
            (vec!["n1x1", "n1x2", "n2x1", "n2x2"], "n[1-2]x[1-2]"),
            (vec!["n1x1", "n1x2", "n2x1", "n2x2", "n3x1"], "n[1-2]x[1-2],n3x1"),
            (vec!["r1-n1", "r2-n1", "r3-n1", "r3-n2"], "r[1-2]-n1,r3-n[1-2]"),
            (vec!["ada@n1:22", "ada@n2:22"], "ada@n[1-2]:22"),
            (vec!["[::1]:22", "fe80::1", "fe80::2"], "[::1]:22,fe80::1,fe80::2"),
            (vec!["b", "a", "b"], "a,b"),
            (
                vec!["n12345678901234567890123", "n12345678901234567890124"],
                "n12345678901234567890123,n12345678901234567890124",
            ),
            (vec![], ""),
        ] {
            assert_eq!(fold(&names), folded);
            let mut sorted: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let mut back = expand(folded).unwrap();
            sorted.sort_unstable();
            sorted.dedup();
            back.sort_unstable();
            assert_eq!(back, sorted);
        }
    }

    #[test]
    fn a_full_cluster_folds_to_one_range() {
        let all = expand("r[01-64]-n[000-255]").unwrap();
        assert_eq!(fold(&all), "r[01-64]-n[000-255]");
    }
}
