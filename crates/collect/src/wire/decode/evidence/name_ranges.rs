//! Names with ranges as files of schedulers have them, such as `gpu[01-08,10]` or `/dev/nvidia[0-1,3]`. They are expanded or
//! compared without expanding more than a limit, because a node may send anything.

/// Maximum number of brackets of a name, and of digits of a number.
const MAX_BRACKETS: usize = 4;
const MAX_DIGITS: usize = 9;

/// Expands the names of a list in their order; `None` if it is malformed, or there are more than `limit`.
pub(super) fn expand(list: &str, limit: usize) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for name in split(list) {
        if name.matches('[').count() > MAX_BRACKETS {
            return None;
        }
        expand_name("", name, limit, &mut names)?;
    }
    Some(names)
}

/// Returns true if a list has this name.
pub(super) fn contains(list: &str, name: &str) -> bool {
    split(list)
        .any(|pattern| pattern.matches('[').count() <= MAX_BRACKETS && matches(pattern, name))
}

/// Splits a list at the commas outside of brackets.
fn split(list: &str) -> impl Iterator<Item = &str> {
    let mut is_inside = false;
    list.split(move |letter| {
        is_inside = match letter {
            '[' => true,
            ']' => false,
            _ => is_inside,
        };
        letter == ',' && !is_inside
    })
    .filter(|name| !name.is_empty())
}

fn expand_name(prefix: &str, name: &str, limit: usize, names: &mut Vec<String>) -> Option<()> {
    let Some((before, rest)) = name.split_once('[') else {
        names.push(format!("{prefix}{name}"));
        return (names.len() <= limit && !name.contains(']')).then_some(());
    };
    let (ranges, after) = rest.split_once(']')?;
    for range in ranges.split(',') {
        let range = Range::parse(range)?;
        for number in range.first..=range.last {
            let prefix = format!("{prefix}{before}{number:0width$}", width = range.width);
            expand_name(&prefix, after, limit, names)?;
        }
    }
    Some(())
}

fn matches(pattern: &str, name: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('[') else { return pattern == name };
    let Some((ranges, after)) = rest.split_once(']') else { return false };
    let Some(name) = name.strip_prefix(before) else { return false };
    let digits = name.bytes().take(MAX_DIGITS).take_while(u8::is_ascii_digit).count();
    (1..=digits).any(|length| {
        name.split_at_checked(length).is_some_and(|(number, name)| {
            let mut ranges = ranges.split(',').filter_map(Range::parse);
            matches(after, name) && ranges.any(|range| range.contains(number))
        })
    })
}

/// A range of numbers, with the least number of their digits.
struct Range {
    first: u64,
    last: u64,
    width: usize,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let is_valid = [first, last].iter().all(|number| {
            number.len() <= MAX_DIGITS && number.bytes().all(|byte| byte.is_ascii_digit())
        });
        let (width, first, last) = (first.len(), first.parse().ok()?, last.parse().ok()?);
        (is_valid && first <= last).then_some(Self { first, last, width })
    }

    fn contains(&self, text: &str) -> bool {
        text.parse().is_ok_and(|number: u64| {
            (self.first..=self.last).contains(&number)
                && format!("{number:0width$}", width = self.width) == text
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_expanded_in_their_order() {
        for (list, expected) in [
            ("/dev/nvidia3", Some(vec!["/dev/nvidia3"])),
            ("/dev/n[0-1,3],/dev/cap12", Some(vec!["/dev/n0", "/dev/n1", "/dev/n3", "/dev/cap12"])),
            ("n[09-11]", Some(vec!["n09", "n10", "n11"])),
            ("r[1-2]n[5-6]", Some(vec!["r1n5", "r1n6", "r2n5", "r2n6"])),
            ("", Some(vec![])),
            ("n[3-1]", None),
            ("n[-1]", None),
            ("n[1-]", None),
            ("n[]", None),
            ("n[1", None),
            ("n1]", None),
            ("n[0-4294967295]", None),
            ("n[0-9999999999999999999999]", None),
            ("n[0-9][0-9][0-9][0-9]", None),
            ("n[0][0][0][0][0]", None),
            ("n[1\n-2]", None),
        ] {
            let found = expand(list, 20);
            let found: Option<Vec<&str>> =
                found.as_ref().map(|names| names.iter().map(String::as_str).collect());
            assert_eq!(found, expected, "{list:?}");
        }
    }

    #[test]
    fn a_list_is_compared_with_a_name_without_expanding_it() {
        for (list, name, is_in) in [
            ("gpu[01-08,10]", "gpu08", true),
            ("gpu[01-08,10]", "gpu10", true),
            ("gpu[01-08,10]", "gpu8", false),
            ("gpu[01-08,10]", "gpu9", false),
            ("gpu[8-11]", "gpu9", true),
            ("gpu[8-11]", "gpu09", false),
            ("gpu[08-128]", "gpu128", true),
            ("a,gpu1,b", "gpu1", true),
            ("gpu1[9-10]", "gpu19", true),
            ("r[1-2]n[1-4]-ib", "r2n4-ib", true),
            ("r[1-2]n[1-4]-ib", "r2n5-ib", false),
            ("gpu[0-999999999]", "gpu77777", true),
            ("gpu[1", "gpu1", false),
            ("gpu[1]", "gpu", false),
            ("gpu[1]", "", false),
            ("", "", false),
            ("n[0-9][0-9][0-9][0-9][0-9]", "n00000", false),
        ] {
            assert_eq!(contains(list, name), is_in, "{list:?} {name:?}");
        }
    }
}
