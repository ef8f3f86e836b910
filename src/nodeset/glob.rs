//! Matches names against patterns with `*` and `?`.

/// Returns true if a name matches: `*` matches any characters or none, `?` exactly one.
pub fn glob_matches(name: &str, pattern: &str) -> bool {
    let (mut name, mut pattern) = (name.chars(), pattern.chars());
    // Where to continue if the last star has to match one more character.
    let mut retry = None;
    loop {
        let (rest, after) = (name.clone(), pattern.clone());
        match (name.next(), pattern.next()) {
            (None, None) => return true,
            (_, Some('*')) => {
                retry = Some((rest.clone(), pattern.clone()));
                name = rest;
                continue;
            }
            (Some(_), Some('?')) => continue,
            (Some(letter), Some(wanted)) if letter == wanted => continue,
            _ => drop(after),
        }
        let Some((mut longer, after)) = retry.take() else { return false };
        if longer.next().is_none() {
            return false;
        }
        retry = Some((longer.clone(), after.clone()));
        (name, pattern) = (longer, after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_match_characters() {
        for (name, pattern, matches) in [
            ("gpu01", "gpu*", true),
            ("gpu01", "gpu0?", true),
            ("gpu01", "gpu?", false),
            ("gpu", "gpu*", true),
            ("gpu01", "*0*", true),
            ("gpu01", "*2*", false),
            ("abcabd", "*abd", true),
            ("", "*", true),
            ("", "?", false),
            ("a", "", false),
        ] {
            assert_eq!(glob_matches(name, pattern), matches, "{name} {pattern}");
        }
    }
}
