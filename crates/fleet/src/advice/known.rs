//! What is known of a node beside its fault: its names, and what the doctor has looked up.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::advice::reader::Reader;
use gtop_local::fault::{LoginFacts, Origin, UnknownHostKey};
use gtop_model::NodeName;

/// What is known of a node beside its fault.
#[derive(Clone, Debug)]
pub struct Known {
    /// The node as gtop accepts it on the command line.
    pub(super) node: String,
    /// The host name alone.
    pub(super) host: String,
    /// The destination as arguments of ssh, such as `-p 2222 ada@gpu01`.
    pub(super) destination: String,
    /// Options in effect, and what sets each.
    options: BTreeMap<&'static str, (Vec<String>, Option<String>)>,
    /// The public keys of the files that `IdentityFile` names.
    pub keys: Vec<PublicKey>,
    /// The node to watch, quoted for a shell: behind this one, if this one is a gateway.
    pub(super) watched: String,
    /// What is known of the host of the fault.
    pub facts: Option<Arc<LoginFacts>>,
    /// Who reads what to do.
    pub(super) reader: Reader,
}

/// A public key that may have been offered to the node.
#[derive(Clone, Debug)]
pub struct PublicKey {
    /// The file of the private key, or of the public one, as configured.
    pub identity: String,
    /// The file of the public key.
    pub file: String,
    /// Its type, such as `ssh-ed25519`.
    pub kind: Option<String>,
}

impl Known {
    /// Returns what is known of a watched node: its name, as ssh and gtop accept it.
    pub fn of_node(name: &NodeName, reader: Reader) -> Self {
        Self { reader, ..Self::of_destination(name.host()) }
    }

    /// Returns what is known of a destination, as `ProxyJump` and gtop accept it.
    pub fn of_destination(destination: &str) -> Self {
        let node = destination.trim_start_matches("ssh://");
        let (user, name) =
            node.rsplit_once('@').map_or((None, node), |(user, name)| (Some(user), name));
        let (host, port) = match name.rsplit_once(':').map(|(host, port)| (host, port.parse())) {
            // More colons mean an IPv6 address without a port.
            Some((host, Ok(port))) if !host.contains(':') || host.ends_with(']') => {
                (host, Some(port))
            }
            _ => (name, None),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Self::new(node, user, host, port)
    }

    /// Returns what is known of a node that is reached at this host.
    pub fn new(node: &str, user: Option<&str>, host: &str, port: Option<u16>) -> Self {
        Self {
            node: node.to_owned(),
            host: host.to_owned(),
            destination: ssh_destination(user, host, port),
            options: BTreeMap::new(),
            keys: Vec::new(),
            watched: shell_quoted(node).into_owned(),
            facts: None,
            reader: Reader::Print,
        }
    }

    /// Records an option in effect, and the file and line that set it.
    pub fn set_option(&mut self, name: &'static str, values: &[String], origin: Option<&Origin>) {
        self.options.insert(name, (values.to_vec(), origin.map(ToString::to_string)));
    }

    /// Sets what is known of the host of the fault. The user of `--login` is the one that commands need.
    pub fn set_facts(&mut self, facts: Option<Arc<LoginFacts>>) {
        let login = facts.as_ref().and_then(|facts| facts.login_option.clone());
        if let Some(user) = login.filter(|user| is_safe_user(user) && !self.node.contains('@')) {
            let node = format!("{user}@{}", self.node);
            let at = Self::of_destination(&node);
            (self.destination, self.watched, self.node) = (at.destination, at.watched, node);
        }
        self.facts = facts;
    }

    /// Returns true if the name of the node sets an option, which then counts.
    pub(super) fn is_in_name(&self, name: &str) -> bool {
        match name {
            "User" => self.node.contains('@'),
            "Port" => self.destination.starts_with("-p "),
            _ => false,
        }
    }

    /// Returns the values of an option; none if it is not known.
    pub fn values(&self, name: &str) -> &[String] {
        self.options.get(name).map_or(&[], |(values, _)| values)
    }

    pub(super) fn value(&self, name: &str) -> &str {
        self.values(name).first().map_or("", String::as_str)
    }

    /// Returns the file and line that set an option.
    pub(super) fn origin(&self, name: &str) -> Option<&str> {
        self.options.get(name)?.1.as_deref()
    }

    /// Returns the login user if it is safe in a command. The configured user is reliable; the one in an
    /// error may have been forged by a node. Without a user the command would be about root, who runs it.
    pub fn user<'a>(&'a self, user_of_fault: &'a str) -> Option<&'a str> {
        let facts = self.facts.as_ref().map_or("", |facts| &facts.user);
        let known = [self.value("User"), facts].into_iter().find(|user| !user.is_empty());
        let user = known.unwrap_or(user_of_fault);
        is_safe_user(user).then_some(user)
    }

    /// Returns the node, quoted for a shell.
    pub(super) fn quoted_node(&self) -> Cow<'_, str> {
        shell_quoted(&self.node)
    }

    pub(super) fn address(&self) -> Cow<'_, str> {
        let facts = self.facts.as_ref().map_or("", |facts| &facts.host_name);
        let known = [self.value("HostName"), facts].into_iter().find(|host| !host.is_empty());
        shell_quoted(known.unwrap_or(&self.host))
    }

    pub(super) fn port(&self) -> u16 {
        let facts = self.facts.as_ref().map(|facts| facts.port);
        self.value("Port").parse().ok().or(facts).unwrap_or(22)
    }

    /// Returns the key file that the configuration names, quoted for a shell. The defaults are several files, and which
    /// of them exist is not known here.
    pub(super) fn key_file(&self) -> Option<Cow<'_, str>> {
        let facts = self.facts.as_ref().and_then(|facts| facts.key_file.as_deref());
        let configured = self.origin("IdentityFile").map(|_| self.value("IdentityFile"));
        facts.or(configured).map(shell_quoted)
    }

    /// Returns what ssh does with a host key that is not known; what is usual, if that is not known here.
    pub(super) fn unknown_host_key(&self) -> UnknownHostKey {
        self.facts.as_ref().map_or(UnknownHostKey::Kept, |facts| facts.unknown_host_key)
    }

    /// Returns false if the host of the fault has this fact, and it is false.
    pub(super) fn has(&self, fact: impl Fn(&LoginFacts) -> bool) -> bool {
        self.facts.as_deref().is_none_or(fact)
    }
}

/// Quotes a word for a shell; a leading `~/` or `~user/` is still expanded.
pub fn shell_quoted(word: &str) -> Cow<'_, str> {
    if !word.is_empty() && is_plain(word) {
        return word.into();
    }
    match word.split_once('/') {
        Some((home, rest)) if home.starts_with('~') && is_plain(home) => {
            format!("{home}/{}", single_quoted(rest)).into()
        }
        _ => single_quoted(word).into(),
    }
}

fn single_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn is_plain(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_alphanumeric() || "._/~+-@:".contains(letter))
}

/// Quotes a path for a shell.
pub(super) fn shell_quoted_path(file: &Path) -> String {
    shell_quoted(&file.to_string_lossy()).into_owned()
}

/// Returns true if a user name is safe in a command for the administrator, also behind `~`. The name may come
/// from the output of ssh, which a node can forge.
fn is_safe_user(name: &str) -> bool {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "._-+@".contains(c));
    // A shell expands ~+, ~- and ~1 to other folders.
    let has_letter = name.contains(|c: char| c.is_ascii_alphabetic());
    is_plain && has_letter && name.len() <= 255 && !name.starts_with(['-', '+'])
}

/// Returns the arguments of ssh for a destination.
fn ssh_destination(user: Option<&str>, host: &str, port: Option<u16>) -> String {
    let port = port.map(|port| format!("-p {port} ")).unwrap_or_default();
    let user = user.map(|user| format!("{}@", shell_quoted(user))).unwrap_or_default();
    format!("{port}{user}{}", shell_quoted(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_shell_metacharacters_are_quoted() {
        for (word, expected) in [
            ("/home/ada/.ssh/id_ed25519", "/home/ada/.ssh/id_ed25519"),
            ("/k/my key", "'/k/my key'"),
            ("~/.ssh/my key", "~/'.ssh/my key'"),
            ("~$(id)/x", "'~$(id)/x'"),
            ("it's", r"'it'\''s'"),
            ("gpu[01-02]", "'gpu[01-02]'"),
            ("", "''"),
        ] {
            assert_eq!(shell_quoted(word), expected);
        }
    }

    #[test]
    fn a_name_becomes_a_destination_of_ssh() {
        for (name, destination) in [
            ("gpu01", "gpu01"),
            ("ada@gpu01:2222", "-p 2222 ada@gpu01"),
            ("ssh://eve@[fe80::1]:2200", "-p 2200 eve@fe80::1"),
            ("fe80::1", "fe80::1"),
            ("w0 10.0.0.1", "10.0.0.1"),
        ] {
            let host = name.rsplit(' ').next().unwrap();
            assert_eq!(Known::of_destination(host).destination, destination);
        }
    }
}
