//! Host files of MPI launchers: `gpu01 slots=8 max_slots=8` (Open MPI), `gpu01:8` (MPICH, Intel MPI).
//!
//! Slots, binding and interfaces are ignored. A host that is repeated, once per slot, is one node.

use crate::inventory::shorten;

/// Options that set the login user.
const USER_OPTIONS: [&str; 3] = ["username", "user_name", "user-name"];

/// Why a line is malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MpiError {
    /// A word that is not an option.
    #[error(
        "{0:?} is neither a host nor an option; write gpu01 slots=8 or gpu01:8; for several hosts per line use -f"
    )]
    UnknownWord(String),
    /// The number of slots is malformed.
    #[error("{0:?} is not a number of slots; write gpu01:8")]
    BadSlots(String),
    /// A line of a rank file.
    #[error("this is a rank file; pass the host file instead")]
    RankFile,
    /// A relative node, such as `+n1`, which depends on an allocation.
    #[error("{0:?} is relative to an allocation, which gtop does not know; write the host's name")]
    RelativeNode(String),
}

/// Returns the host of a line as `[user@]host`, or `None` if the line is empty.
pub(super) fn parse_line(line: &str) -> Result<Option<String>, MpiError> {
    let line = line.split('#').next().unwrap_or_default();
    // Open MPI allows spaces around `=`.
    let mut pieces = line.split('=').map(str::trim);
    let first = pieces.next().unwrap_or_default().to_owned();
    let line = pieces.fold(first, |line, piece| line + "=" + piece);
    let mut words = line.split_whitespace();
    let Some(name) = words.next() else { return Ok(None) };
    if name == "rank" || name.starts_with("rank=") {
        return Err(MpiError::RankFile);
    }
    if name.starts_with('+') {
        return Err(MpiError::RelativeNode(shorten(name)));
    }
    let mut user = None;
    for word in words {
        match word.split_once('=') {
            Some((key, value)) if USER_OPTIONS.contains(&key) => user = Some(value.to_owned()),
            Some(_) => {}
            // MPICH: binding=user:0,1 is one word; ifname likewise.
            None => return Err(MpiError::UnknownWord(shorten(word))),
        }
    }
    let name = strip_slots(name)?;
    Ok(Some(match user {
        Some(user) if !name.contains('@') => format!("{user}@{name}"),
        Some(_) | None => name.to_owned(),
    }))
}

/// Removes `:8`; an IPv6 address with slots is in brackets.
fn strip_slots(name: &str) -> Result<&str, MpiError> {
    let start = name.rfind(']').map_or(0, |at| at + 1);
    let Some((before, rest)) = name.split_at_checked(start) else { return Ok(name) };
    if before.is_empty()
        && rest.matches(':').nth(1).is_some()
        && rest.parse::<std::net::IpAddr>().is_ok()
    {
        return Ok(name);
    }
    let Some((host, slots)) = rest.split_once(':') else { return Ok(name) };
    // MVAPICH adds the name of an adapter after the slots.
    let count = slots.split(':').next().unwrap_or_default();
    if count.is_empty() || !count.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(MpiError::BadSlots(shorten(slots)));
    }
    Ok(name.get(..before.len() + host.len()).unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_every_launcher_have_a_host() {
        for (line, name) in [
            ("gpu01", Some("gpu01")),
            ("gpu01 slots=8", Some("gpu01")),
            ("  gpu01 slots = 8 max_slots= 16 # all", Some("gpu01")),
            ("gpu01 sockets=2 cores=4", Some("gpu01")),
            ("gpu01 slots=8 username=ada", Some("ada@gpu01")),
            ("gpu01:8", Some("gpu01")),
            ("gpu01:8 binding=user:0,1", Some("gpu01")),
            ("gpu01:8:mlx5_0", Some("gpu01")),
            ("10.0.0.1:4", Some("10.0.0.1")),
            ("[fe80::1]:4", Some("[fe80::1]")),
            ("fe80::1 slots=4", Some("fe80::1")),
            ("gpu[01-04]:8", Some("gpu[01-04]")),
            ("# nothing", None),
            ("", None),
        ] {
            assert_eq!(parse_line(line), Ok(name.map(str::to_owned)), "{line}");
        }
    }

    #[test]
    fn invalid_lines_have_a_reason() {
        for (line, words) in [
            ("gpu01 gpu02", "\"gpu02\" is neither"),
            ("gpu01 8", "\"8\" is neither"),
            ("gpu01:x", "not a number of slots"),
            ("gpu01:", "not a number of slots"),
            ("rank 0=gpu01 slot=1", "rank file"),
            ("+n0 slots=2", "relative to an allocation"),
        ] {
            let error = parse_line(line).expect_err(line).to_string();
            assert!(error.contains(words), "{line}: {error}");
        }
    }
}
