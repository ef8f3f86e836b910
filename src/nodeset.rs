//! Node sets: `gpu[001-128,200],login1` to a list of names and back.
//!
//! The notation is that of Slurm and `ClusterShell`. Text around a bracket is kept as it is, so
//! `ada@gpu[1-4]:2222` is four targets; `[::1]:22` is an address, not a range.

use std::collections::{BTreeMap, BTreeSet};

/// The most names one set may stand for; a typing error must not eat the memory of a login node.
pub const LIMIT: usize = 65_536;

/// Why a node set cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeSetError {
    /// A bracket opens and does not close.
    #[error("{0:?} has an open bracket; write a range as gpu[01-16]")]
    Unclosed(String),
    /// What stands in the brackets is no list of numbers.
    #[error("{range:?} in {set:?} is not a range; write numbers as [01-16,20]")]
    BadRange {
        /// The whole set.
        set: String,
        /// The part that cannot be read.
        range: String,
    },
    /// A range runs backwards.
    #[error("{range:?} in {set:?} runs backwards; write the smaller number first")]
    Backwards {
        /// The whole set.
        set: String,
        /// The range.
        range: String,
    },
    /// The set stands for too many names.
    #[error("{0:?} stands for more than {LIMIT} nodes")]
    TooMany(String),
}

/// Expands a comma list of node sets; the order is that of the text, with repeats kept.
pub fn expand(text: &str) -> Result<Vec<String>, NodeSetError> {
    let mut names = Vec::new();
    for part in split_commas(text) {
        let part = part.trim();
        if part.is_empty() {
            continue;
        }
        for name in expand_one(part, part)? {
            if names.len() >= LIMIT {
                return Err(NodeSetError::TooMany(text.to_owned()));
            }
            names.push(name);
        }
    }
    Ok(names)
}

/// Splits at commas that stand outside brackets.
fn split_commas(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    text.split(|letter: char| {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
    .collect()
}

fn expand_one(part: &str, whole: &str) -> Result<Vec<String>, NodeSetError> {
    let Some((before, rest)) = part.split_once('[') else { return Ok(vec![part.to_owned()]) };
    let Some((inside, after)) = rest.split_once(']') else {
        return Err(NodeSetError::Unclosed(whole.to_owned()));
    };
    let tails = expand_one(after, whole)?;
    // An IPv6 address stands in brackets too.
    let heads = if inside.contains(':') {
        vec![format!("[{inside}]")]
    } else {
        expand_numbers(inside, whole)?
    };
    if heads.len().saturating_mul(tails.len()) > LIMIT {
        return Err(NodeSetError::TooMany(whole.to_owned()));
    }
    Ok(heads
        .iter()
        .flat_map(|head| tails.iter().map(move |tail| format!("{before}{head}{tail}")))
        .collect())
}

fn expand_numbers(text: &str, set: &str) -> Result<Vec<String>, NodeSetError> {
    let bad = |range: &str| NodeSetError::BadRange { set: set.to_owned(), range: range.to_owned() };
    let mut all = Vec::new();
    for range in text.split(',') {
        let (span, step) = match range.split_once('/') {
            Some((front, step)) => {
                (front, number(step).filter(|step| *step > 0).ok_or_else(|| bad(range))?)
            }
            None => (range, 1),
        };
        let (first, last) = span.split_once('-').unwrap_or((span, span));
        let from = number(first).ok_or_else(|| bad(range))?;
        let to = number(last).ok_or_else(|| bad(range))?;
        if from > to {
            return Err(NodeSetError::Backwards { set: set.to_owned(), range: range.to_owned() });
        }
        if (to - from) / step >= LIMIT as u64 {
            return Err(NodeSetError::TooMany(set.to_owned()));
        }
        let width = if first.starts_with('0') { first.len() } else { 0 };
        let step = usize::try_from(step).unwrap_or(usize::MAX);
        all.extend((from..=to).step_by(step).map(|value| format!("{value:0width$}")));
    }
    Ok(all)
}

/// Reads up to 18 digits, so that no sum of two overflows.
fn number(digits: &str) -> Option<u64> {
    let plain = !digits.is_empty() && digits.len() <= 18;
    if plain && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        digits.parse().ok()
    } else {
        None
    }
}

/// Folds names into the shortest node set: `gpu01 gpu02 gpu04 login` → `gpu[01-02,04],login`.
///
/// Only the last number of a name is folded; the result expands to the same names, sorted.
pub fn fold<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    // (text before, width when zero-padded, text after) → numbers
    let mut groups: BTreeMap<(String, usize, String), BTreeSet<u64>> = BTreeMap::new();
    let mut plain: BTreeSet<String> = BTreeSet::new();
    for name in names {
        let name = name.as_ref();
        match split_last_number(name) {
            Some((before, digits, after)) => {
                let width =
                    if digits.starts_with('0') && digits.len() > 1 { digits.len() } else { 0 };
                let Some(value) = number(digits) else { continue };
                groups
                    .entry((before.to_owned(), width, after.to_owned()))
                    .or_default()
                    .insert(value);
            }
            None => {
                plain.insert(name.to_owned());
            }
        }
    }
    join_padded(&mut groups);
    let folded = groups.into_iter().map(|((before, width, after), numbers)| {
        let list = ranges(&numbers, width);
        let single = numbers.len() == 1;
        if single { format!("{before}{list}{after}") } else { format!("{before}[{list}]{after}") }
    });
    folded.chain(plain).collect::<Vec<_>>().join(",")
}

/// `gpu099 gpu100`: numbers that fill the width of a padded group belong to it.
fn join_padded(groups: &mut BTreeMap<(String, usize, String), BTreeSet<u64>>) {
    let padded: Vec<_> = groups.keys().filter(|(_, width, _)| *width > 0).cloned().collect();
    for key in padded {
        let (before, width, after) = &key;
        let unpadded = (before.clone(), 0, after.clone());
        let Some(numbers) = groups.get_mut(&unpadded) else { continue };
        let fits = |number: &u64| number.to_string().len() == *width;
        let moved: Vec<u64> = numbers.iter().copied().filter(fits).collect();
        numbers.retain(|number| !fits(number));
        if numbers.is_empty() {
            groups.remove(&unpadded);
        }
        groups.entry(key.clone()).or_default().extend(moved);
    }
}

fn ranges(numbers: &BTreeSet<u64>, width: usize) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let write = |(first, last): (u64, u64)| {
        if first == last {
            format!("{first:0width$}")
        } else {
            format!("{first:0width$}-{last:0width$}")
        }
    };
    runs.into_iter().map(write).collect::<Vec<_>>().join(",")
}

/// Splits off the last run of digits, unless the name is an address.
fn split_last_number(name: &str) -> Option<(&str, &str, &str)> {
    if name.contains(['[', ':']) || name.parse::<std::net::IpAddr>().is_ok() {
        return None;
    }
    let end = name.rfind(|letter: char| letter.is_ascii_digit())? + 1;
    let (head, after) = name.split_at_checked(end)?;
    let start = head.rfind(|letter: char| !letter.is_ascii_digit()).map_or(0, |at| at + 1);
    let (before, digits) = head.split_at_checked(start)?;
    number(digits).map(|_| (before, digits, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, names: &[&str]) {
        assert_eq!(expand(text).unwrap(), names, "{text}");
    }

    #[test]
    fn sets_expand_in_the_order_written() {
        check("gpu1", &["gpu1"]);
        check("gpu[2,1]", &["gpu2", "gpu1"]);
        check("gpu[08-11]", &["gpu08", "gpu09", "gpu10", "gpu11"]);
        check("gpu[001-002,200],login1", &["gpu001", "gpu002", "gpu200", "login1"]);
        check("r[1-2]n[1-2]", &["r1n1", "r1n2", "r2n1", "r2n2"]);
        check("ada@gpu[1-2]:2222", &["ada@gpu1:2222", "ada@gpu2:2222"]);
        check("n[0-6/3]", &["n0", "n3", "n6"]);
        check("[::1]:22", &["[::1]:22"]);
        check(" a , ,b ", &["a", "b"]);
        check("", &[]);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        assert_eq!(expand("gpu[01"), Err(NodeSetError::Unclosed("gpu[01".into())));
        for bad in ["gpu[]", "gpu[a]", "gpu[1-]", "gpu[-1]", "gpu[1--2]", "gpu[1/0]", "gpu[1,,2]"] {
            assert!(matches!(expand(bad), Err(NodeSetError::BadRange { .. })), "{bad}");
        }
        assert!(matches!(expand("gpu[5-1]"), Err(NodeSetError::Backwards { .. })));
        for huge in ["n[0-999999999]", "n[1-9999]m[1-9999]", "n[0-99999999999999999999]"] {
            assert!(expand(huge).is_err(), "{huge}");
        }
    }

    #[test]
    fn names_fold_and_expand_to_the_same() {
        for (names, folded) in [
            (vec!["gpu01", "gpu02", "gpu04", "login"], "gpu[01-02,04],login"),
            (vec!["gpu098", "gpu099", "gpu100"], "gpu[098-100]"),
            (vec!["gpu7"], "gpu7"),
            (vec!["n8", "n9", "n10", "n11"], "n[8-11]"),
            (vec!["10.0.0.1", "10.0.0.2"], "10.0.0.1,10.0.0.2"),
            (vec!["gpu-1.a", "gpu-2.a"], "gpu-[1-2].a"),
            (vec![], ""),
        ] {
            assert_eq!(fold(&names), folded);
            let mut sorted: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let mut back = expand(folded).unwrap();
            sorted.sort();
            back.sort();
            assert_eq!(back, sorted);
        }
    }
}
