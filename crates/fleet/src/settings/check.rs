//! Validators for the text of settings.

/// Accepts any text.
pub fn any(text: &str) -> Result<(), &'static str> {
    let is_valid = !text.chars().any(char::is_control);
    accept(is_valid, "control characters are not allowed")
}

/// Accepts names of users, partitions and accounts.
pub fn name(text: &str) -> Result<(), &'static str> {
    accept(is_name(text), "names consist of letters, digits and . _ - and do not start with -")
}

/// Accepts login names.
pub fn login(text: &str) -> Result<(), &'static str> {
    let why = "a login name consists of letters, digits and . _ - and does not start with -";
    accept(is_name(text), why)
}

/// Accepts process ids.
pub fn pid(text: &str) -> Result<(), &'static str> {
    let is_valid = text.parse::<u32>().is_ok_and(|pid| pid > 0);
    accept(is_valid, "expected process IDs, such as 4711,4712")
}

/// Accepts indices of devices.
pub fn device(text: &str) -> Result<(), &'static str> {
    accept(
        (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()),
        "expected device indices, such as 0,2; for UUIDs set CUDA_VISIBLE_DEVICES and use -ov",
    )
}

fn accept(is_valid: bool, why_not: &'static str) -> Result<(), &'static str> {
    if is_valid { Ok(()) } else { Err(why_not) }
}

fn is_name(text: &str) -> bool {
    let mut letters = text.chars();
    !text.is_empty()
        && !text.starts_with('-')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || "._-+@\\".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_accepts_and_rejects() {
        for (check, good, bad) in [
            (
                device as fn(&str) -> _,
                vec!["0", "12"],
                vec!["", "-1", "x", "1:0", "12345", "GPU-12ab"],
            ),
            (pid, vec!["1", "4711"], vec!["0", "-1", "x", ""]),
            (name, vec!["ada", "AD\\ada"], vec!["", "-a", "a b", "a;b"]),
            (any, vec!["", "a b"], vec!["a\u{1b}b"]),
        ] {
            assert!(good.iter().all(|text| check(text).is_ok()), "{good:?}");
            assert!(bad.iter().all(|text| check(text).is_err()), "{bad:?}");
        }
    }
}
