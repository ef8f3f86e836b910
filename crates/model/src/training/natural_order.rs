//! The natural order of names: `run_2` before `run_010`.

use std::cmp::Ordering;

/// Compares names; digits count by their value. Different names are never equal.
pub fn compare(one: &str, other: &str) -> Ordering {
    let (mut left, mut right) = (one, other);
    loop {
        let (left_part, left_rest) = part(left);
        let (right_part, right_rest) = part(right);
        let order = match (is_number(left_part), is_number(right_part)) {
            (true, true) => compare_numbers(left_part, right_part),
            _ => left_part.cmp(right_part),
        };
        if order != Ordering::Equal {
            return order;
        }
        if left_rest.is_empty() || right_rest.is_empty() {
            // Equal but for leading zeros: the text decides.
            return left_rest.len().cmp(&right_rest.len()).then_with(|| one.cmp(other));
        }
        (left, right) = (left_rest, right_rest);
    }
}

fn is_number(part: &str) -> bool {
    part.bytes().next().is_some_and(|byte| byte.is_ascii_digit())
}

/// Splits off the first run of digits or of other characters.
fn part(text: &str) -> (&str, &str) {
    let is_digit = is_number(text);
    let end = text.bytes().position(|byte| byte.is_ascii_digit() != is_digit);
    text.split_at_checked(end.unwrap_or(text.len())).unwrap_or((text, ""))
}

/// Compares numbers of any length.
fn compare_numbers(one: &str, other: &str) -> Ordering {
    let [one, other] = [one, other].map(|number| number.trim_start_matches('0'));
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_count_by_value() {
        let sorted = [
            "",
            "1",
            "01",
            "2",
            "10",
            "99999999999999999999999",
            "a",
            "a1",
            "a1b",
            "a01b",
            "a2b",
            "run",
            "run_2",
            "run_2x",
            "run_010",
            "run_10",
            "run_11",
            "é1",
            "é02",
        ];
        let mut shuffled = sorted;
        shuffled.reverse();
        shuffled.sort_by(|one, other| compare(one, other));
        for pair in shuffled.windows(2) {
            assert_eq!(compare(pair[0], pair[1]), Ordering::Less, "{pair:?}");
            assert_eq!(compare(pair[1], pair[0]), Ordering::Greater, "{pair:?}");
        }
        let position = |name| shuffled.iter().position(|one| *one == name).unwrap();
        assert!(position("run_2") < position("run_010") && position("2") < position("10"));
    }
}
