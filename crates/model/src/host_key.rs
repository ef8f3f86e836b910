//! The question about the keys of hosts that are not known, and its answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::NodeName;

/// A host that is not known, and what it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownHost {
    /// The node, or the gateway as `ProxyJump` names it.
    pub name: Arc<str>,
    /// It is a gateway.
    pub is_gateway: bool,
    /// Where it stands: address, port and gateways before it.
    pub place: Arc<str>,
    /// The nodes that it is, or that are reached through it.
    pub nodes: Vec<NodeName>,
    /// Its keys; the first is the one that `ssh` asks about.
    pub keys: Vec<HostKey>,
}

/// A key of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostKey {
    /// Its algorithm, such as `ssh-ed25519`.
    pub algorithm: Arc<str>,
    /// Its fingerprint, as `ssh-keygen -l` prints it.
    pub fingerprint: Arc<str>,
}

/// A host whose key is not asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedHost {
    /// The node.
    pub node: NodeName,
    /// Why its key is not asked about.
    pub why: Arc<str>,
    /// What to do about it.
    pub remedy: Arc<str>,
}

/// The hosts of one question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostKeyQuestion {
    /// The hosts that are asked about.
    pub unknown: Vec<UnknownHost>,
    /// Those that are not.
    pub refused: Vec<RefusedHost>,
}

/// What is typed about the keys of hosts, by the rules of `ssh`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostKeyAnswer<'a> {
    /// The keys are those of the hosts.
    Yes,
    /// They are not, or it is not known.
    No,
    /// They are if they have these fingerprints.
    Fingerprints(Vec<&'a str>),
    /// It is none of these.
    Unclear,
}

/// A key that the user accepts for a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AcceptedKey {
    /// The name of the host in the question.
    pub host: Arc<str>,
    /// The fingerprint of the key.
    pub fingerprint: Arc<str>,
}

/// A request about the keys of hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostKeyRequest {
    /// Fetch the keys of these nodes, or of the gateways before them.
    Fetch(Vec<NodeName>),
    /// Store these keys of the last question.
    Accept(Vec<AcceptedKey>),
}

/// The reply to a request about the keys of hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostKeyReply {
    /// The keys are fetched.
    Fetched(HostKeyQuestion),
    /// So many are stored; the question about the nodes behind gateways that are known now.
    Stored(usize, HostKeyQuestion),
    /// They could not be stored.
    NotStored(String),
}

impl<'a> HostKeyAnswer<'a> {
    /// Reads an answer: `yes`, `no`, or words of which some are fingerprints, such as lines of `ssh-keygen -l`.
    pub fn parse(text: &'a str) -> Self {
        let word = text.trim();
        if word.eq_ignore_ascii_case("yes") {
            return Self::Yes;
        }
        if word.eq_ignore_ascii_case("no") {
            return Self::No;
        }
        let words = word.split(|letter: char| letter.is_whitespace() || letter == ',');
        let mut words = words.peekable();
        if words.peek().is_some_and(|first| ["yes", "no"].contains(&&*first.to_ascii_lowercase())) {
            return Self::Unclear;
        }
        let fingerprints: Vec<&str> = words.filter(|word| word.starts_with("SHA256:")).collect();
        if fingerprints.is_empty() { Self::Unclear } else { Self::Fingerprints(fingerprints) }
    }
}

impl UnknownHost {
    /// Returns which nodes it is or stands before, besides its name; reads on after its place.
    pub fn others_text(&self) -> String {
        match (self.is_gateway, self.nodes.as_slice()) {
            (false, [] | [_]) => String::new(),
            (false, [_, other]) => format!(", also {}", other.label()),
            (false, [_, others @ ..]) => format!(", also {} other nodes", others.len()),
            (true, [node]) => format!(", the gateway of {}", node.label()),
            (true, nodes) => format!(", the gateway of {} nodes", nodes.len()),
        }
    }
}

impl HostKeyQuestion {
    /// Returns the keys that an answer accepts: of each host the one that `ssh` asks about, or the one with a typed
    /// fingerprint.
    pub fn accepted(&self, answer: &HostKeyAnswer<'_>) -> Vec<AcceptedKey> {
        let accepted = self.unknown.iter().filter_map(|host| {
            let key = match answer {
                HostKeyAnswer::Yes => host.keys.first(),
                HostKeyAnswer::Fingerprints(typed) => {
                    host.keys.iter().find(|key| typed.contains(&&*key.fingerprint))
                }
                HostKeyAnswer::No | HostKeyAnswer::Unclear => None,
            };
            let (host, fingerprint) = (Arc::clone(&host.name), Arc::clone(&key?.fingerprint));
            Some(AcceptedKey { host, fingerprint })
        });
        accepted.collect()
    }

    /// Removes the hosts of accepted keys.
    pub fn remove(&mut self, accepted: &[AcceptedKey]) {
        let accepted: BTreeSet<(&str, &str)> =
            accepted.iter().map(|key| (&*key.host, &*key.fingerprint)).collect();
        self.unknown.retain(|host| {
            !host.keys.iter().any(|key| accepted.contains(&(&*host.name, &*key.fingerprint)))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> HostKeyQuestion {
        let host = |name: &str, fingerprints: &[&str]| UnknownHost {
            name: name.into(),
            is_gateway: false,
            place: "".into(),
            nodes: vec![NodeName::new(name).unwrap()],
            keys: fingerprints
                .iter()
                .map(|text| HostKey {
                    algorithm: "ssh-ed25519".into(),
                    fingerprint: (*text).into(),
                })
                .collect(),
        };
        let unknown =
            vec![host("a", &["SHA256:a1", "SHA256:a2"]), host("b", &["SHA256:b1", "SHA256:b2"])];
        HostKeyQuestion { unknown, refused: Vec::new() }
    }

    fn accepted(text: &str) -> Vec<String> {
        let keys = question().accepted(&HostKeyAnswer::parse(text));
        keys.iter().map(|key| format!("{} {}", key.host, key.fingerprint)).collect()
    }

    #[test]
    fn an_answer_accepts_all_none_or_what_has_the_fingerprint() {
        assert_eq!(accepted(" Yes "), ["a SHA256:a1", "b SHA256:b1"]);
        assert_eq!(accepted("SHA256:b2"), ["b SHA256:b2"]);
        // As ssh-keygen prints them, and as a paste of several lines arrives.
        assert_eq!(
            accepted("256 SHA256:a1 root@a (ED25519) 3072 SHA256:b2 root@b (RSA)"),
            ["a SHA256:a1", "b SHA256:b2"]
        );
        for text in [
            "no",
            "",
            "y",
            "no SHA256:a1",
            "SHA256:A1",
            "SHA256:a",
            "SHA256:a11",
            "yes SHA256:x",
            "a1",
        ] {
            assert_eq!(accepted(text), [""; 0], "{text}");
        }
        assert_eq!(HostKeyAnswer::parse("y"), HostKeyAnswer::Unclear);
        assert_eq!(HostKeyAnswer::parse("NO"), HostKeyAnswer::No);
    }

    #[test]
    fn hosts_of_accepted_keys_are_asked_about_no_more() {
        let mut left = question();
        left.remove(&question().accepted(&HostKeyAnswer::parse("SHA256:b2")));
        assert_eq!(left.unknown.iter().map(|host| &*host.name).collect::<Vec<_>>(), ["a"]);
    }
}
