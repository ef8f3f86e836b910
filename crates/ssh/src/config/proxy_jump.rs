//! Parses the values of `ProxyJump`, and `ssh://` URIs.

use std::str::FromStr;

use crate::config::{HostQuery, values};
use crate::target::{Profile, SshTarget};
use gtop_local::fault::ssh::Fault;
use gtop_local::text;

impl HostQuery {
    /// Parses `[user@]host[:port]` or `ssh://[user@]host[:port]`; refuses unsafe names.
    pub(crate) fn parse_jump(text: &str) -> Result<Self, Fault> {
        let hop = Self::parse_unchecked(text.trim()).ok_or_else(|| Fault::BadConfiguration {
            why: format!("ProxyJump names {}, which is not a host", text::excerpt_line(text)),
        })?;
        hop.check()?;
        Ok(hop)
    }

    fn parse_unchecked(text: &str) -> Option<Self> {
        match text.strip_prefix(SCHEME) {
            Some(address) => Self::parse_uri(address),
            None => Self::parse_address(text),
        }
    }

    /// Parses a typed `ssh://[user@]host[:port]`; unlike `ssh`, also with a bracketed IPv6 address.
    fn parse_typed_uri(text: &str) -> Option<Self> {
        let address = text.strip_prefix(SCHEME)?;
        let hop = Self::parse_uri(address).or_else(|| {
            let (user, rest) =
                address.rsplit_once('@').map_or(("", address), |(user, rest)| (user, rest));
            let (inside, after) = rest.strip_prefix('[')?.split_once(']')?;
            inside.parse::<std::net::Ipv6Addr>().ok()?;
            (after.is_empty() || after.starts_with([':', '/'])).then_some(())?;
            // The rest is parsed with a name in place of the address.
            let at = if address.contains('@') { "@" } else { "" };
            let named = format!("{user}{at}{}", rest.replace(&format!("[{inside}]"), "x"));
            Some(Self { host: inside.to_owned(), ..Self::parse_uri(&named)? })
        })?;
        hop.check().is_ok().then_some(hop)
    }

    fn parse_address(text: &str) -> Option<Self> {
        let (user, address) = split_user(text);
        Self::with_user(user, address)
    }

    fn parse_uri(address: &str) -> Option<Self> {
        let (user, address) = match address.split_once('@') {
            // Connection parameters after a semicolon are ignored.
            Some((user, address)) => (Some(percent_decode(user.split(';').next()?)?), address),
            None => (None, address),
        };
        let hop = Self::with_user(user, address.strip_suffix('/').unwrap_or(address))?;
        values::parse_domain(&hop.host).ok()?;
        Some(Self { host: hop.host.strip_suffix('.').unwrap_or(&hop.host).to_owned(), ..hop })
    }

    /// Parses `host[:port]`; a user must not be empty.
    fn with_user(user: Option<String>, address: &str) -> Option<Self> {
        if user.as_deref() == Some("") {
            return None;
        }
        let (host, port) = split_host_and_port(address)?;
        let port = match port {
            None | Some("") => None,
            Some(port) => Some(values::parse_port(port)?),
        };
        Some(Self { host: host.to_owned(), user, port })
    }
}

/// The URI scheme.
const SCHEME: &str = "ssh://";

impl SshTarget {
    /// Parses `ssh://[user@]host[:port]` as `ssh` does: the user may be percent-encoded, and its part after `;` is
    /// dropped. `None` if it is not such a URI.
    pub fn from_uri(text: &str) -> Option<Self> {
        HostQuery::parse_typed_uri(text).map(Self::from)
    }
}

impl FromStr for SshTarget {
    type Err = Fault;

    /// Parses a destination as `ssh` does: `[user@]host`, or `ssh://[user@]host[:port]`. Refuses unsafe names.
    fn from_str(text: &str) -> Result<Self, Fault> {
        if let Some(target) = Self::from_uri(text) {
            return Ok(target);
        }
        let (user, host) = split_user(text);
        let query = HostQuery { host: host.to_owned(), user, port: None };
        query.check()?;
        Ok(query.into())
    }
}

impl From<HostQuery> for SshTarget {
    fn from(HostQuery { host, user, port }: HostQuery) -> Self {
        Self { host, user, port, profile: Profile::System }
    }
}

/// Splits `[user@]host`.
fn split_user(text: &str) -> (Option<String>, &str) {
    text.rsplit_once('@').map_or((None, text), |(user, host)| (Some(user.to_owned()), host))
}

/// Splits `host:port` or `[host]:port`; `None` without a host.
fn split_host_and_port(address: &str) -> Option<(&str, Option<&str>)> {
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            match after {
                "" => (host, None),
                after => (host, Some(after.strip_prefix(':')?)),
            }
        }
        None => address.split_once(':').map_or((address, None), |(host, port)| (host, Some(port))),
    };
    let has_slash = address.starts_with('[') && port.is_none() || !host.contains('/');
    (!host.is_empty() && has_slash).then_some((host, port))
}

/// Decodes percent-encoding and `+`.
fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
                u8::try_from(high? * 16 + low?).ok().filter(|code| *code != 0)?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Returns a value of `ProxyJump` as `ssh -G` prints it, `None` if it is invalid.
///
/// A literal `none` becomes [`NO_JUMP`].
pub(crate) fn normalise(text: &str) -> Option<String> {
    if text.eq_ignore_ascii_case("none") {
        return Some(NO_JUMP.to_owned());
    }
    // OpenSSH cuts it at the first space.
    let text = text.split(['#', ' ', '\t', '\r', '\n', '\u{b}', '\u{c}']).next()?;
    for hop in text.split(',') {
        HostQuery::parse_unchecked(hop)?;
    }
    let (before, last) = match text.rsplit_once(',') {
        Some((before, last)) => (format!("{before},"), last),
        None => (String::new(), text),
    };
    let HostQuery { host, user, port } = HostQuery::parse_unchecked(last)?;
    let is_number = host.contains(':') || host.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let host = if is_number { format!("[{host}]") } else { host };
    let user = user.map_or_else(String::new, |user| format!("{user}@"));
    let port = port.map_or_else(String::new, |port| format!(":{port}"));
    Some(format!("{before}{user}{host}{port}"))
}

/// The normalised form of `none`: not a host name.
pub(crate) const NO_JUMP: &str = "";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_jump_is_normalised_as_by_ssh() {
        for (text, want) in [
            ("None", Some("")),
            ("a", Some("a")),
            ("a , b", Some("a")),
            ("a, b", None),
            ("a # b", Some("a")),
            ("10.0.0.1:22", Some("[10.0.0.1]:22")),
            ("ssh://b@c:22", Some("b@c:22")),
            ("ssh://a%40b@c/", Some("a@b@c")),
            ("a,[::1]", Some("a,[::1]")),
            ("a@b@c", Some("a@b@c")),
            ("a:", Some("a")),
            ("@a", None),
            ("a:b", None),
            ("a:0", None),
            ("a::1", None),
            ("[a", None),
            ("[a]b", None),
            ("a,,b", None),
            ("a/b", None),
            ("ssh://a/b", None),
            ("", None),
        ] {
            assert_eq!(normalise(text).as_deref(), want, "{text}");
        }
    }
    #[test]
    fn a_destination_is_parsed_as_by_ssh() {
        let parsed = |text: &str| {
            let target: SshTarget = text.parse().ok()?;
            Some((target.user.unwrap_or_default(), target.host, target.port))
        };
        let of = |user: &str, host: &str, port| Some((user.to_owned(), host.to_owned(), port));
        for (text, want) in [
            ("gpu01", of("", "gpu01", None)),
            ("ada@gpu01", of("ada", "gpu01", None)),
            ("ada@example.org@gpu01", of("ada@example.org", "gpu01", None)),
            // No port but an IPv6 address or a strange name, as `ssh` takes it.
            ("fe80::1", of("", "fe80::1", None)),
            ("gpu01:22", of("", "gpu01:22", None)),
            ("ssh://ada@gpu01:2222", of("ada", "gpu01", Some(2222))),
            ("", None),
            ("ada@", None),
            ("@gpu01", None),
            ("-oProxyCommand=x", None),
            ("gpu01;reboot", None),
        ] {
            assert_eq!(parsed(text), want, "{text}");
        }
    }
}
