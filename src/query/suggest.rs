//! Suggests the known name closest to a misspelt one.

/// Returns the known name closest to `written`, the first of several.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    known.into_iter().min_by_key(|known| distance(&lower, known))
}

/// Returns the Levenshtein distance of two names, up to 64 characters of each.
pub(super) fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().take(64).enumerate() {
        let mut diagonal = index;
        let mut next = vec![index + 1];
        for (other_letter, above) in other.iter().zip(row.iter().skip(1)) {
            let left = next.last().copied().unwrap_or_default();
            let best =
                (diagonal + usize::from(letter != *other_letter)).min(above + 1).min(left + 1);
            diagonal = *above;
            next.push(best);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_the_one_with_the_fewest_changes() {
        let known = ["freeze", "filter", "focus"];
        for (name, expected) in [("freze", "freeze"), ("FILTR", "filter"), ("", "focus")] {
            assert_eq!(nearest(name, known), Some(expected));
        }
        assert_eq!(nearest("x", []), None);
    }
}
