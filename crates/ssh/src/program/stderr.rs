//! Turns the ssh program's stderr into a fault.
//!
//! Its messages are in English, because it runs with `LC_ALL=C`. Those of a jump host come before those of the
//! node, and the first cause is the one that counts.

use std::path::Path;
use std::time::Duration;

use crate::config::Route;
use gtop_local::fault::Origin;
use gtop_local::fault::ssh::{
    ConnectPhase, Fault, HostKeyChange, SshProgramCause, TOO_MANY_FAILURES, job_required,
};
use gtop_local::text;

const NO_BANNER: &str = "kex_exchange_identification: ";

/// Printed where the connection to a gateway has ended.
const NO_GATEWAY: &str = "Connection closed by UNKNOWN port 65535";

/// The stderr of ssh, and what it was called with.
#[derive(Debug)]
pub struct SshStderr<'a> {
    /// What it printed.
    pub text: &'a str,
    /// The host, as the user typed it.
    pub typed_name: &'a str,
    /// The port of the host.
    pub port: u16,
    /// The user to log in as.
    pub user: &'a str,
    /// How it was to connect to the host.
    pub route: &'a Route,
    /// Its `ConnectTimeout`.
    pub connect_timeout: Duration,
}

/// Returns the fault that an ssh program which has ended printed.
pub fn parse_fault(ssh: &SshStderr<'_>) -> Fault {
    let gateways = ssh.route.gateways();
    let (before, ended) = split_at_ended(ssh.text);
    if let Some(fault) = ssh.forwarding_fault(ended) {
        return fault;
    }
    // The host may have closed the connection without a message.
    let is_silent = before.trim().is_empty();
    let behind = ended.saturating_sub(usize::from(is_silent));
    let Some(last) = gateways.last().filter(|_| behind > 0) else { return parse_root(ssh) };
    let counted = gateways.len().checked_sub(behind).and_then(|index| gateways.get(index));
    let named = counted.or_else(|| gateways.iter().find(|hop| before.contains(&hop.host)));
    let gateway = named.unwrap_or(last);
    let text = if is_silent { ssh.text } else { before };
    parse_root(&SshStderr { text, ..*ssh }).at_gateway(&gateway.destination())
}

/// Returns the fault, wherever it happened.
fn parse_root(ssh: &SshStderr<'_>) -> Fault {
    job_required(Some(ssh.text))
        .or_else(|| ssh.configuration_fault())
        .or_else(|| ssh.name_fault())
        .or_else(|| ssh.host_key_fault())
        .or_else(|| ssh.master_full_fault())
        .or_else(|| ssh.login_fault())
        .or_else(|| ssh.negotiation_fault())
        .or_else(|| ssh.connection_fault())
        .or_else(|| ssh.session_fault())
        .unwrap_or_else(|| ssh.other_fault())
}

impl<'a> SshStderr<'a> {
    fn find_line(&self, pattern: &str) -> Option<&'a str> {
        self.text.lines().map(str::trim_end).find(|line| line.contains(pattern))
    }

    /// Returns the text between two parts of one line; the rest of the line if `end` is empty.
    fn between(&self, start: &str, end: &str) -> Option<&'a str> {
        between(self.text, start, end)
    }

    /// Returns the fault of a gateway that does not forward to the next host. `ended` connections ended with it.
    fn forwarding_fault(&self, ended: usize) -> Option<Fault> {
        self.find_line("stdio forwarding failed")?;
        let gateways = self.route.gateways();
        let index = gateways.len().checked_sub(ended.max(1))?;
        let gateway = gateways.get(index)?.destination();
        let (reason, why) = self.between("open failed: ", "")?.split_once(": ")?;
        let why = text::lowercase_first(why);
        let fault = match reason {
            "administratively prohibited" => Fault::GatewayForwardingRefused { gateway, why },
            _ => Fault::GatewayCannotReach { gateway, why },
        };
        Some(match gateways.get(index + 1) {
            Some(next) => fault.at_gateway(&next.destination()),
            None => fault,
        })
    }

    fn configuration_fault(&self) -> Option<Fault> {
        const PATTERNS: [&str; 7] = [
            "jumphost loop via ",
            "Bad configuration option",
            "Bad owner or permissions",
            "Can't open user config file",
            "bad configuration options",
            "command-line: line 0: ",
            "unknown option -- ",
        ];
        let line = PATTERNS.iter().find_map(|pattern| self.find_line(pattern))?;
        Some(program_fault(SshProgramCause::Configuration, line))
    }

    fn name_fault(&self) -> Option<Fault> {
        let (host, why) = self.between("Could not resolve hostname ", "")?.split_once(": ")?;
        let host = (host != self.typed_name).then(|| text::excerpt_line(host));
        Some(Fault::NameNotFound { host, why: text::lowercase_first(why) })
    }

    fn host_key_fault(&self) -> Option<Fault> {
        if let Some(line) = self.find_line("REVOKED HOST KEY DETECTED") {
            let line = line.trim_matches(['@', ' ']);
            return Some(program_fault(SshProgramCause::HostKeyRevoked, line));
        }
        if self.find_line("REMOTE HOST IDENTIFICATION HAS CHANGED").is_some() {
            return Some(self.changed_host_key_fault());
        }
        let unknown = self.find_line("Host key verification failed")?;
        let line = self.find_line(" host key is known for ").unwrap_or(unknown);
        Some(program_fault(SshProgramCause::HostKeyUnknown, line))
    }

    fn changed_host_key_fault(&self) -> Fault {
        let location = self.between("Offending ", "").and_then(|rest| rest.split_once(" key in "));
        let (file, line) = location
            .and_then(|(_, location)| location.rsplit_once(':'))
            .unwrap_or(("known_hosts", ""));
        let file = Path::new(&text::excerpt_line(file)).into();
        let shown = self.text.lines().find(|line| line.starts_with("SHA256:")).unwrap_or_default();
        let algorithm = self.between("The fingerprint for the ", " key sent by").unwrap_or("a key");
        let host = self.between("Host key for ", " has changed").unwrap_or(self.typed_name);
        Fault::HostKeyChanged(Box::new(HostKeyChange {
            host: text::excerpt_line(host),
            at: Origin { file, line: line.parse().unwrap_or(1) },
            known: "another key".to_owned(),
            algorithm: text::excerpt_line(algorithm),
            fingerprint: text::excerpt_line(shown.trim_end_matches('.')),
        }))
    }

    /// The master connection has no free session. ssh then tried a connection of its own; how that failed is not the
    /// cause.
    fn master_full_fault(&self) -> Option<Fault> {
        let why = self.between("session request failed: ", "")?;
        Some(Fault::ChannelRefused {
            why: format!("{}, over the master connection", text::lowercase_first(why)),
        })
    }

    fn login_fault(&self) -> Option<Fault> {
        if let Some(methods) = self.between("Permission denied (", ")") {
            let line = self.find_line("Permission denied (").unwrap_or_default();
            let user = line.split_once('@').map_or(self.user, |(user, _)| user);
            return Some(Fault::AuthenticationRefused {
                user: text::excerpt(user, 64),
                offers: split_names(methods),
                tried: vec!["the keys of the ssh program".to_owned()],
            });
        }
        self.find_line(TOO_MANY_FAILURES)?;
        Some(Fault::TooManyKeys { user: text::excerpt(self.user, 64), offered: None, untried: 0 })
    }

    fn negotiation_fault(&self) -> Option<Fault> {
        if let Some(version) = self.between("Protocol major versions differ: 2 vs. ", "") {
            return Some(Fault::OtherProtocol { version: text::excerpt_line(version) });
        }
        let kind = self.between("no matching ", " found")?;
        let kinds = ["key exchange", "host key", "cipher", "MAC"];
        let kind = kinds.into_iter().find(|name| kind.starts_with(name))?;
        let theirs = split_names(self.between("Their offer: ", "").unwrap_or_default());
        Some(Fault::NoCommonAlgorithm { kind, ours: Vec::new(), theirs })
    }

    fn connection_fault(&self) -> Option<Fault> {
        let to = self.between("connect to host ", "");
        let port = to.and_then(|rest| rest.split_once(" port ")?.1.split(':').next()?.parse().ok());
        let port = port.unwrap_or(self.port);
        if let Some((_, why)) = to.and_then(|rest| rest.rsplit_once(": ")) {
            return Some(match why {
                "Connection refused" => Fault::ConnectionRefused { port },
                "Connection timed out" | "Operation timed out" => {
                    self.timeout_fault(ConnectPhase::Connection)
                }
                why => Fault::Unreachable { why: text::lowercase_first(why) },
            });
        }
        if self.find_line("timed out during banner exchange").is_some() {
            return Some(self.timeout_fault(ConnectPhase::BannerExchange));
        }
        let (why, is_closed) = parse_no_banner(self.text)?;
        if let Some(fault) = self.proxy_command_fault() {
            return Some(fault);
        }
        Some(Fault::NoBanner { port, why: text::lowercase_first(why), is_closed })
    }

    /// Returns the fault of a `ProxyCommand` that printed something before it closed the connection.
    fn proxy_command_fault(&self) -> Option<Fault> {
        let Route::Command(command) = self.route else { return None };
        let (before, _) = self.text.split_once(NO_BANNER)?;
        let why = last_lines(before).next()?;
        let command = text::excerpt_line(command);
        Some(Fault::ProxyCommandFailed { command, why, is_closed: false })
    }

    fn session_fault(&self) -> Option<Fault> {
        const PATTERNS: [&str; 6] = [
            "Connection closed by ",
            "Connection reset by ",
            "closed by remote host",
            "Broken pipe",
            "not responding",
            "Connection to ",
        ];
        if let Some(why) = self.between("open failed: ", "") {
            return Some(match self.find_line("stdio forwarding failed") {
                Some(_) => program_fault(SshProgramCause::Other, why),
                None => Fault::ChannelRefused { why: text::excerpt_line(why) },
            });
        }
        if let Some(message) = self.last_line_before_close() {
            return Some(Fault::AccountRefused { user: text::excerpt(self.user, 64), message });
        }
        let line = PATTERNS.iter().find_map(|pattern| self.find_line(pattern))?;
        Some(Fault::SessionLost { why: text::lowercase_first(line) })
    }

    /// Returns the last line the node sent before it closed the connection during login.
    fn last_line_before_close(&self) -> Option<String> {
        let (before, _) = self.text.split_once("Connection closed by ")?;
        last_lines(before).find(|line| !line.starts_with("Warning: "))
    }

    fn timeout_fault(&self, phase: ConnectPhase) -> Fault {
        Fault::TimedOut { phase, after: self.connect_timeout }
    }

    fn other_fault(&self) -> Fault {
        let line = last_lines(self.text).next();
        program_fault(SshProgramCause::Other, line.as_deref().unwrap_or("nothing"))
    }
}

/// Returns what ssh printed before the first connection through a gateway ends, and how many end: that to each gateway
/// behind the host of the fault, and that to the node.
///
/// Each ends before there is a version line. A node that closes the connection later has sent one.
fn split_at_ended(text: &str) -> (&str, usize) {
    let mut starts = Vec::new();
    let (mut offset, mut no_banner) = (0, None);
    for line in text.split_inclusive('\n') {
        if line.contains(NO_GATEWAY) {
            starts.extend(no_banner);
        }
        no_banner = line.contains(NO_BANNER).then_some(offset);
        offset += line.len();
    }
    let before = starts.first().and_then(|&start| text.get(..start)).unwrap_or(text);
    (before, starts.len())
}

/// Returns the lines that are not empty, the last one first.
pub(crate) fn last_lines(text: &str) -> impl Iterator<Item = String> {
    text.lines().rev().map(text::excerpt_line).filter(|line| !line.is_empty())
}

/// Returns at most 12 names of a list.
fn split_names(list: &str) -> Vec<String> {
    list.split(',').take(12).map(|name| text::excerpt(name, 64)).collect()
}

fn program_fault(cause: SshProgramCause, line: &str) -> Fault {
    Fault::SshProgram { cause, message: text::excerpt_line(line) }
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let rest = line.trim_end().split_once(start)?.1;
        if end.is_empty() { Some(rest) } else { Some(rest.split_once(end)?.0) }
    })
}

/// Returns why there was no version line, and whether the server closed the connection.
pub(crate) fn parse_no_banner(text: &str) -> Option<(&str, bool)> {
    let why = between(text, "exchange_identification: ", "")
        .or_else(|| between(text, "banner exchange: ", ""))?;
    let is_closed = ["closed by", "reset by", "Broken pipe"].iter().any(|end| why.contains(end));
    Some((why, is_closed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::HostQuery;

    fn read(text: &str) -> Fault {
        let connect_timeout = Duration::from_secs(10);
        parse_fault(&SshStderr {
            text,
            typed_name: "gpu01",
            port: 22,
            user: "ada",
            route: &Route::Direct,
            connect_timeout,
        })
    }

    #[test]
    fn each_message_of_ssh_maps_to_its_fault() {
        let refused = |offers: &[&str]| Fault::AuthenticationRefused {
            user: "bob".to_owned(),
            offers: offers.iter().map(|name| (*name).to_owned()).collect(),
            tried: vec!["the keys of the ssh program".to_owned()],
        };
        let program =
            |cause, message: &str| Fault::SshProgram { cause, message: message.to_owned() };
        let after = Duration::from_secs(10);
        for (text, fault) in [
            (
                "Welcome\r\nbob@gpu01.site: Permission denied (publickey,gssapi-with-mic).\r\n",
                refused(&["publickey", "gssapi-with-mic"]),
            ),
            (
                "bob@b: Permission denied (hostbased).\r\nConnection closed by UNKNOWN port 65535\r\n",
                refused(&["hostbased"]),
            ),
            (
                "ssh: Could not resolve hostname gpu01: Name or service not known\r\n",
                Fault::NameNotFound { host: None, why: "name or service not known".to_owned() },
            ),
            (
                "ssh: connect to host 10.0.0.1 port 2222: Connection refused\r\n",
                Fault::ConnectionRefused { port: 2222 },
            ),
            (
                "ssh: connect to host gpu01 port 22: No route to host\r\n",
                Fault::Unreachable { why: "no route to host".to_owned() },
            ),
            (
                "ssh: connect to host gpu01 port 22: Connection timed out\r\n",
                Fault::TimedOut { phase: ConnectPhase::Connection, after },
            ),
            (
                "Connection timed out during banner exchange\r\nConnection to 10.0.0.1 port 22 timed out\r\n",
                Fault::TimedOut { phase: ConnectPhase::BannerExchange, after },
            ),
            (
                "kex_exchange_identification: Connection closed by remote host\r\n",
                Fault::NoBanner {
                    port: 22,
                    why: "connection closed by remote host".to_owned(),
                    is_closed: true,
                },
            ),
            (
                "Unable to negotiate with 10.0.0.1 port 22: no matching key exchange method found. \
                 Their offer: diffie-hellman-group1-sha1,x\r\n",
                Fault::NoCommonAlgorithm {
                    kind: "key exchange",
                    ours: Vec::new(),
                    theirs: vec!["diffie-hellman-group1-sha1".to_owned(), "x".to_owned()],
                },
            ),
            (
                "No ED25519 host key is known for gpu01 and you have requested strict checking.\r\n\
                 Host key verification failed.\r\n",
                program(
                    SshProgramCause::HostKeyUnknown,
                    "No ED25519 host key is known for gpu01 and you have requested strict checking.",
                ),
            ),
            (
                "/home/ada/.ssh/config: line 1: Bad configuration option: hosst\r\n\
                 /home/ada/.ssh/config: terminating, 1 bad configuration options\r\n",
                program(
                    SshProgramCause::Configuration,
                    "/home/ada/.ssh/config: line 1: Bad configuration option: hosst",
                ),
            ),
            (
                "Connection to gpu01 closed by remote host.\r\n",
                Fault::SessionLost { why: "connection to gpu01 closed by remote host.".to_owned() },
            ),
            (
                "Be nice\r\nMaintenance until 18:00\r\nConnection closed by 10.0.0.1 port 22\r\n",
                Fault::AccountRefused {
                    user: "ada".to_owned(),
                    message: "Maintenance until 18:00".to_owned(),
                },
            ),
            (
                "Warning: Permanently added 'x' to the list of known hosts.\r\n\
                 Connection closed by 10.0.0.1 port 22\r\n",
                Fault::SessionLost { why: "connection closed by 10.0.0.1 port 22".to_owned() },
            ),
            (
                "mux_client_request_session: session request failed: Session open refused by peer\r\n\
                 ada@gpu01: Permission denied (keyboard-interactive).\r\n",
                Fault::ChannelRefused {
                    why: "session open refused by peer, over the master connection".to_owned(),
                },
            ),
            ("odd\x1b[2J\r\n\r\n", program(SshProgramCause::Other, "odd [2J")),
            ("", program(SshProgramCause::Other, "nothing")),
        ] {
            assert_eq!(read(text), fault, "{text}");
        }
    }

    #[test]
    fn the_last_words_of_a_proxy_command_are_kept() {
        let read = |text: &str| {
            parse_fault(&SshStderr {
                text,
                typed_name: "gpu01",
                port: 22,
                user: "ada",
                route: &Route::Command("corkscrew proxy".to_owned()),
                connect_timeout: Duration::from_secs(10),
            })
        };
        let closed = "kex_exchange_identification: Connection closed by remote host\r\nConnection closed by UNKNOWN port 65535\r\n";
        let Fault::ProxyCommandFailed { why, .. } = read(&format!("no licence\n\n{closed}")) else {
            panic!("not told")
        };
        assert_eq!(why, "no licence");
        assert!(matches!(read(closed), Fault::NoBanner { .. }));
    }

    #[test]
    fn a_fault_of_a_gateway_is_told_from_one_of_the_node() {
        let hop = |host: &str| HostQuery::parse_jump(host).unwrap();
        let read = |text: &str| {
            let connect_timeout = Duration::from_secs(10);
            parse_fault(&SshStderr {
                text,
                typed_name: "gpu01",
                port: 22,
                user: "ada",
                route: &Route::Jumps(vec![hop("eve@bastion:2200"), hop("inner")]),
                connect_timeout,
            })
            .to_string()
        };
        let closed = "kex_exchange_identification: Connection closed by remote host\r\nConnection closed by UNKNOWN port 65535\r\n";
        // As ssh prints them, a connection through each gateway behind the one of the fault ends, and that to the node.
        for (ended, text, fault) in [
            (
                2,
                "ssh: connect to host bastion port 2200: Connection refused\r\n",
                "via eve@bastion:2200: connection refused on port 2200",
            ),
            (
                1,
                "ssh: Could not resolve hostname inner: Name or service not known\r\n",
                "via inner: name inner not found (name or service not known)",
            ),
            (
                1,
                "Unable to negotiate with UNKNOWN port 65535: no matching cipher found. Their offer: 3des-cbc\r\n",
                "via inner: no common cipher algorithm (node offers 3des-cbc)",
            ),
            (
                2,
                "Host key verification failed.\r\n",
                "via eve@bastion:2200: host key unknown: ssh says: Host key verification failed.",
            ),
            (
                2,
                "Down for repairs\r\nConnection closed by 10.0.0.1 port 2200\r\n",
                "via eve@bastion:2200: node refused the login of ada: Down for repairs",
            ),
            (2, "", "via inner: no SSH banner on port 22 (connection closed by remote host)"),
            (1, "", "no SSH banner on port 22 (connection closed by remote host)"),
            (
                2,
                "kex_exchange_identification: Connection closed by remote host\r\nConnection closed by 10.0.0.1 port 2200\r\n",
                "via eve@bastion:2200: no SSH banner on port 22 (connection closed by remote host)",
            ),
            (
                1,
                "channel 0: open failed: administratively prohibited: open failed\r\nstdio forwarding failed\r\n",
                "gateway inner refuses to forward to the node: open failed",
            ),
            (
                1,
                "channel 0: open failed: connect failed: Connection refused\r\nstdio forwarding failed\r\n",
                "gateway inner cannot reach the node: connection refused",
            ),
            (
                2,
                "channel 0: open failed: connect failed: Connection refused\r\nstdio forwarding failed\r\n",
                "via inner: gateway eve@bastion:2200 cannot reach the node: connection refused",
            ),
        ] {
            assert_eq!(read(&format!("{text}{}", closed.repeat(ended))), fault, "{text}");
        }
        for (text, fault) in [
            ("ada@gpu01: Permission denied (publickey).\r\n", "authentication refused for ada"),
            (
                "Down for repairs\r\nConnection closed by UNKNOWN port 65535\r\n",
                "node refused the login of ada: Down for repairs",
            ),
        ] {
            assert!(read(text).starts_with(fault), "{}", read(text));
        }
    }

    #[test]
    fn a_changed_host_key_keeps_its_location_and_fingerprint() {
        let fault = read(
            "@@@@@@@@@@\r\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r\n@@@@@@@@@@\r\n\
             The fingerprint for the ED25519 key sent by the remote host is\nSHA256:abc.\r\n\
             Add correct host key in /home/ada/.ssh/known_hosts to get rid of this message.\r\n\
             Offending ED25519 key in /home/ada/.ssh/known_hosts:7\r\n\
             Host key for [gpu01]:2222 has changed and you have requested strict checking.\r\n\
             Host key verification failed.\r\n",
        );
        let Fault::HostKeyChanged(change) = fault else { panic!("{fault}") };
        assert_eq!(change.at.to_string(), "/home/ada/.ssh/known_hosts:7");
        assert_eq!(change.fingerprint, "SHA256:abc");
        assert_eq!((change.host.as_str(), change.algorithm.as_str()), ("[gpu01]:2222", "ED25519"));
    }
}
