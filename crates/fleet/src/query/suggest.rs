//! Suggests the known name closest to a misspelt one.

/// Maximum number of characters that are compared.
const MAX_COMPARED: usize = 64;

/// Returns the known name closest to `name`, the first of several.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower: String = name.to_lowercase().chars().take(MAX_COMPARED).collect();
    known.into_iter().min_by_key(|known| strsim::levenshtein(&lower, known))
}

/// Returns up to `count` known names near `name`, the nearest first: those that have it as a part, then those with the
/// fewest changes.
pub fn nearest_several<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
    count: usize,
) -> Vec<&'a str> {
    let lower: String = name.to_lowercase().chars().take(MAX_COMPARED).collect();
    let mut all: Vec<&str> = known.into_iter().collect();
    all.sort_by_key(|known| {
        let is_part = !lower.is_empty() && known.contains(&lower);
        (!is_part, strsim::levenshtein(&lower, known))
    });
    all.truncate(count);
    all
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
        assert_eq!(nearest_several("OCUS", known, 2), ["focus", "freeze"]);
    }
}
