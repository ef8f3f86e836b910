//! Parses single values: numbers, ports, times, domains, addresses.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::config::AddressFamily;

/// The largest number OpenSSH accepts.
const MAX_NUMBER: u64 = 0x7fff_ffff;

/// Replaces each `%` and the letter after it by its `token`; `None` if one is unknown.
pub(crate) fn expand_percent<'a>(
    raw: &str,
    token: impl Fn(char) -> Option<Cow<'a, str>>,
) -> Option<String> {
    let mut text = String::new();
    let mut rest = raw.chars();
    while let Some(c) = rest.next() {
        match c {
            '%' => text.push_str(&token(rest.next()?)?),
            c => text.push(c),
        }
    }
    Some(text)
}

/// Parses an unsigned integer.
pub(crate) fn parse_number(text: &str) -> Option<u64> {
    let digits = text.trim_start_matches([' ', '\t', '\r', '\n', '\u{b}', '\u{c}']);
    let digits = digits.strip_prefix('+').unwrap_or(digits);
    let are_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then(|| digits.parse().ok()).flatten().filter(|value| *value <= MAX_NUMBER)
}

/// Parses a time such as `90`, `1h30m` or `2d`; returns seconds.
pub(crate) fn parse_seconds(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, after) = rest.split_at(end);
        let mut chars = after.chars();
        let unit = match chars.next().map(|unit| unit.to_ascii_lowercase()) {
            None | Some('s') => 1,
            Some('m') => 60,
            Some('h') => 3600,
            Some('d') => 86400,
            Some('w') => 604_800,
            Some(_) => return None,
        };
        let part = digits.parse::<u64>().ok()?.checked_mul(unit)?;
        total = total.checked_add(part).filter(|total| *total <= MAX_NUMBER)?;
        rest = chars.as_str();
    }
    (!text.is_empty()).then_some(total)
}

/// Validates `RekeyLimit`: an amount and a time.
pub(crate) fn check_rekey_limit(words: &[&str]) -> Result<(), String> {
    let (amount, time) = at_most_two(words)?;
    let bytes = if amount == "default" { Some(0.0) } else { parse_scaled(amount) };
    let bytes = bytes.ok_or_else(|| format!("bad number '{amount}'"))?.trunc();
    if bytes.abs() >= 1.0 && bytes < 16.0 {
        return Err("RekeyLimit too small".to_owned());
    }
    match time {
        Some(time) if time != "none" && parse_seconds(time).is_none() => {
            Err("invalid time value".to_owned())
        }
        Some(_) | None => Ok(()),
    }
}

/// Parses an amount such as `1.5G`.
fn parse_scaled(text: &str) -> Option<f64> {
    let lower = text.trim_start().to_ascii_lowercase();
    let unit = lower.chars().next_back().filter(|last| !last.is_ascii_digit() && *last != '.');
    let digits = unit.map_or(lower.as_str(), |_| lower.get(..lower.len() - 1).unwrap_or_default());
    let shift = match unit {
        None | Some('b') => 0,
        Some(unit) => 10 * (1 + "kmgtpe".find(unit)?),
    };
    let bare = digits.strip_prefix(['+', '-']).unwrap_or(digits);
    let is_number = bare.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = digits.parse().ok().filter(|_| is_number)?;
    let value = number * 2_f64.powi(i32::try_from(shift).ok()?);
    Some(value).filter(|value| value.abs() < 2_f64.powi(63))
}

fn at_most_two<'a>(words: &[&'a str]) -> Result<(&'a str, Option<&'a str>), String> {
    match words {
        [] | ["", ..] => Err("missing argument".to_owned()),
        [first] => Ok((first, None)),
        [first, second] => Ok((first, Some(second))),
        _ => Err("extra arguments at end of line".to_owned()),
    }
}

fn only_one<'a>(words: &[&'a str]) -> Result<&'a str, String> {
    match at_most_two(words)? {
        (word, None) => Ok(word),
        (_, Some(_)) => Err("extra arguments at end of line".to_owned()),
    }
}

/// Validates `AddKeysToAgent`: a word, a time, or `confirm` and a time.
pub(crate) fn check_add_keys(words: &[&str]) -> Result<(), String> {
    let (first, time) = at_most_two(words)?;
    let word = first.to_ascii_lowercase();
    let is_word = ["yes", "no", "true", "false", "ask", "confirm"].contains(&word.as_str());
    let is_valid = match time {
        None => is_word || parse_seconds(first).is_some(),
        Some(time) => word == "confirm" && parse_seconds(time).is_some(),
    };
    if is_valid { Ok(()) } else { Err(format!("unsupported option \"{}\"", words.join(" "))) }
}

/// Validates `ControlPersist`: yes, no, or a time.
pub(crate) fn check_control_persist(words: &[&str]) -> Result<(), String> {
    let word = only_one(words)?;
    let is_valid = ["yes", "no", "true", "false"].contains(&word) || parse_seconds(word).is_some();
    if is_valid { Ok(()) } else { Err(format!("bad ControlPersist argument '{word}'")) }
}

/// Validates `EscapeChar`: a character, `^` and a character, or `none`.
pub(crate) fn check_escape_char(words: &[&str]) -> Result<(), String> {
    let word = only_one(words)?;
    let is_valid = match word.as_bytes() {
        [_] | b"none" => true,
        [b'^', letter] => (64..128).contains(letter),
        _ => false,
    };
    if is_valid { Ok(()) } else { Err(format!("bad escape character '{word}'")) }
}

/// Validates `StreamLocalBindMask`: an octal number; text after its digits is ignored.
pub(crate) fn check_bind_mask(words: &[&str]) -> Result<(), String> {
    let word = only_one(words)?;
    let text = word.trim_start();
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text.find(|c: char| !c.is_digit(8)).unwrap_or(text.len());
    let digits = text.get(..end).unwrap_or_default();
    let is_valid = u32::from_str_radix(digits, 8).is_ok_and(|mask| mask <= 0o777);
    if is_valid { Ok(()) } else { Err(format!("bad mask '{word}'")) }
}

/// Validates `TunnelDevice`: two numbers or `any`.
pub(crate) fn check_tunnel_device(words: &[&str]) -> Result<(), String> {
    let word = only_one(words)?;
    let mut numbers = word.splitn(2, ':');
    let is_valid = numbers
        .all(|text| text == "any" || parse_number(text).is_some_and(|number| number < 0x7fff_fffe));
    if is_valid { Ok(()) } else { Err(format!("bad tun device '{word}'")) }
}

/// The names of `QoS` classes.
#[rustfmt::skip]
const QOS_CLASSES: [&str; 26] = [
    "af11", "af12", "af13", "af21", "af22", "af23", "af31", "af32", "af33", "af41", "af42", "af43",
    "cs0", "cs1", "cs2", "cs3", "cs4", "cs5", "cs6", "cs7",
    "ef", "le", "lowdelay", "none", "reliability", "throughput",
];

/// Validates `IPQoS`: one or two `QoS` classes, by name or number.
pub(crate) fn check_ip_qos(words: &[&str]) -> Result<(), String> {
    let (first, second) = at_most_two(words)?;
    for word in [Some(first), second].into_iter().flatten() {
        let lower = word.to_ascii_lowercase();
        let number = parse_c_integer(word.strip_prefix('+').unwrap_or(word));
        if !QOS_CLASSES.contains(&lower.as_str()) && number.is_none_or(|value| value > 255) {
            return Err(format!("bad IPQoS value: {word}"));
        }
    }
    Ok(())
}

/// Parses a port: a number from 1, or a service name.
pub(crate) fn parse_port(text: &str) -> Option<u16> {
    let port = match parse_number(text) {
        Some(value) => u16::try_from(value).ok(),
        None => service_port(text),
    };
    port.filter(|port| *port != 0)
}

/// Looks up a service in `/etc/services`.
fn service_port(name: &str) -> Option<u16> {
    let list = std::fs::read_to_string("/etc/services").ok()?;
    list.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let first = words.next()?;
        let port = words.next()?.strip_suffix("/tcp")?;
        (first == name || words.any(|alias| alias == name)).then(|| port.parse().ok())?
    })
}

/// Returns a domain in lower case without the final dot, or why it is invalid.
pub(crate) fn parse_domain(text: &str) -> Result<String, String> {
    let why = if text.is_empty() {
        return Err("empty domain name".to_owned());
    } else if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        "starts with invalid character"
    } else if text.contains("..") {
        "contains consecutive separators"
    } else if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)) {
        "contains invalid characters"
    } else {
        return Ok(text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase());
    };
    Err(format!("domain name \"{text}\" {why}"))
}

/// Returns true if every `${VARIABLE}` in a text is valid and set.
pub(crate) fn variables_are_set(text: &str) -> bool {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else { return false };
        if name.is_empty() || name.contains(['=', '\0']) || std::env::var_os(name).is_none() {
            return false;
        }
        rest = after;
    }
    true
}

/// Returns true for a valid variable name.
pub(crate) fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns true if a name can only be an address, even an invalid one.
pub(crate) fn looks_like_address(name: &str) -> bool {
    name.contains(['%', ':']) || name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Normalises an address; `None` if it is not an address of this family.
pub(crate) fn normalise_address(name: &str, family: AddressFamily) -> Option<String> {
    // The scope is a number or an interface name.
    let (bare, scope) = name.split_once('%').map_or((name, None), |(ip, scope)| (ip, Some(scope)));
    if let Ok(address) = bare.parse::<Ipv6Addr>() {
        let scope = scope.map(|scope| format!("%{scope}")).unwrap_or_default();
        return (family != AddressFamily::Version4).then(|| format!("{address}{scope}"));
    }
    let address = scope.is_none().then(|| parse_inet_aton(name))??;
    (family != AddressFamily::Version6).then(|| address.to_string())
}

/// Parses `127.1`, `0x7f000001` and the like, as `inet_aton` does.
fn parse_inet_aton(text: &str) -> Option<Ipv4Addr> {
    let parts: Option<Vec<u32>> = text.split('.').map(parse_c_integer).collect();
    let parts = parts?;
    let (last, first) = parts.split_last()?;
    let unused = u32::try_from(4_usize.checked_sub(first.len())?).ok().filter(|left| *left > 0)?;
    let mut bits: u32 = 0;
    for byte in first {
        bits = (bits << 8) | u32::from(u8::try_from(*byte).ok()?);
    }
    let max = u32::MAX.checked_shr(32 - 8 * unused)?;
    if *last > max {
        return None;
    }
    Some(Ipv4Addr::from_bits(bits.checked_shl(8 * unused).unwrap_or(0) | last))
}

/// Parses a number that is octal after `0` and hexadecimal after `0x`, as `strtol` does with base 0.
fn parse_c_integer(text: &str) -> Option<u32> {
    let lower = text.to_ascii_lowercase();
    let (digits, base) = match (lower.strip_prefix("0x"), lower.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) if !digits.is_empty() => (digits, 8),
        _ => (lower.as_str(), 10),
    };
    let are_digits = digits.chars().all(|c| c.is_digit(base));
    are_digits.then(|| u32::from_str_radix(digits, base).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_as_sums_of_units() {
        for (text, want) in [
            ("90", Some(90)),
            ("1h30m", Some(5400)),
            ("2D", Some(172_800)),
            ("1w1", Some(604_801)),
            ("0", Some(0)),
            ("", None),
            ("-1", None),
            ("1x", None),
            ("m", None),
            ("1 ", None),
            ("99999999999999999999", None),
            ("4000w", None),
        ] {
            assert_eq!(parse_seconds(text), want, "{text:?}");
        }
    }

    #[test]
    fn a_port_is_a_number_or_a_service() {
        assert_eq!(parse_port("2222"), Some(2222));
        assert_eq!(
            (parse_port("0"), parse_port("65536"), parse_port("-1"), parse_port("no-such-service")),
            (None, None, None, None)
        );
        assert_eq!(parse_number("2147483648"), None);
    }

    #[test]
    fn old_spellings_of_addresses_are_normalised() {
        for (text, want) in [
            ("127.1", Some("127.0.0.1")),
            ("10.0.0.1", Some("10.0.0.1")),
            ("0x7f.1", Some("127.0.0.1")),
            ("010.0.0.1", Some("8.0.0.1")),
            ("1", Some("0.0.0.1")),
            ("4294967295", Some("255.255.255.255")),
            ("4294967296", None),
            ("256.1", None),
            ("1.2.3.4.5", None),
            ("1.2.3.", None),
            ("FE80::0001", Some("fe80::1")),
            ("fe80::1%eth0", Some("fe80::1%eth0")),
            ("n1", None),
            ("", None),
        ] {
            assert_eq!(normalise_address(text, AddressFamily::Any).as_deref(), want, "{text}");
        }
        assert_eq!(normalise_address("127.1", AddressFamily::Version6), None);
        assert_eq!(normalise_address("::1", AddressFamily::Version4), None);
    }

    #[test]
    fn a_domain_is_lower_cased_or_refused() {
        assert_eq!(parse_domain("Site.Example."), Ok("site.example".to_owned()));
        for wrong in ["", ".a", "a..b", "a b", "a/b"] {
            assert!(parse_domain(wrong).is_err(), "{wrong}");
        }
    }
}
