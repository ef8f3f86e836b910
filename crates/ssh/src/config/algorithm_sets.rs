//! Algorithm names: those of OpenSSH, its defaults, and the lists with `+`, `-` and `^`.
//!
//! The lists are those of OpenSSH 9.2, with the key exchanges of later versions.

use crate::config::lexer::{self, ListMatch};
use gtop_local::text::matches_pattern;

/// The algorithms of one kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AlgorithmSet {
    /// The default, in order of preference.
    default: &'static str,
    /// All supported algorithms.
    all: &'static str,
    /// Patterns are allowed everywhere, not only after `-`.
    are_patterns: bool,
    /// Certificates of the lists are left out.
    is_plain: bool,
}

/// Why a list is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AlgorithmListError {
    /// It has an unknown name; another version of `ssh` may know it.
    UnknownName,
    /// It is empty.
    Empty,
}

impl AlgorithmSet {
    /// Returns the default, in order of preference.
    pub(crate) fn defaults(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.select(self.default)
    }

    fn select(&self, names: &'static str) -> impl Iterator<Item = &'static str> + '_ {
        names.split(',').filter(|name| !(self.is_plain && name.contains("-cert-")))
    }

    /// Expands a configured list.
    pub(crate) fn expand(&self, list: &str) -> Result<Vec<String>, AlgorithmListError> {
        if let Some(unwanted) = list.strip_prefix('-') {
            let wanted = self.defaults().filter(|name| !lexer::is_listed(name, unwanted));
            return non_empty(wanted.map(str::to_owned).collect());
        }
        let named = list.strip_prefix(['+', '^']).unwrap_or(list);
        // OpenSSH stops at the first empty name.
        let mut listed = named.split(',').take_while(|name| !name.is_empty());
        if named.is_empty() || !listed.all(|name| self.is_known(name)) {
            return Err(AlgorithmListError::UnknownName);
        }
        let defaults = self.defaults().map(|name| name as &str);
        let order: Vec<&str> = match list.chars().next() {
            Some('+') => defaults.chain(named.split(',')).collect(),
            Some('^') => named.split(',').chain(defaults).collect(),
            _ => named.split(',').collect(),
        };
        if order.iter().any(|name| name.starts_with('!')) {
            return Err(AlgorithmListError::Empty);
        }
        let mut found: Vec<String> = Vec::new();
        for pattern in order {
            for name in self.select(self.all).filter(|name| matches_pattern(name, pattern)) {
                if !found.iter().any(|known| known == name) {
                    found.push(name.to_owned());
                }
            }
        }
        non_empty(found)
    }

    fn is_known(&self, name: &str) -> bool {
        if self.are_patterns {
            let mut all = self.select(self.all);
            return all.any(|known| lexer::match_list(known, name) != ListMatch::No);
        }
        self.all.split(',').any(|known| known == name)
    }
}

fn non_empty(names: Vec<String>) -> Result<Vec<String>, AlgorithmListError> {
    if names.is_empty() { Err(AlgorithmListError::Empty) } else { Ok(names) }
}

pub(crate) const CIPHERS: AlgorithmSet = AlgorithmSet {
    default: "chacha20-poly1305@openssh.com,aes128-ctr,aes192-ctr,aes256-ctr,\
              aes128-gcm@openssh.com,aes256-gcm@openssh.com",
    all: "3des-cbc,aes128-cbc,aes192-cbc,aes256-cbc,aes128-ctr,aes192-ctr,aes256-ctr,\
              aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com",
    are_patterns: false,
    is_plain: false,
};

pub(crate) const MACS: AlgorithmSet = AlgorithmSet {
    default: "umac-64-etm@openssh.com,umac-128-etm@openssh.com,hmac-sha2-256-etm@openssh.com,\
              hmac-sha2-512-etm@openssh.com,hmac-sha1-etm@openssh.com,umac-64@openssh.com,\
              umac-128@openssh.com,hmac-sha2-256,hmac-sha2-512,hmac-sha1",
    all: "hmac-sha1,hmac-sha1-96,hmac-sha2-256,hmac-sha2-512,hmac-md5,hmac-md5-96,\
              umac-64@openssh.com,umac-128@openssh.com,hmac-sha1-etm@openssh.com,\
              hmac-sha1-96-etm@openssh.com,hmac-sha2-256-etm@openssh.com,\
              hmac-sha2-512-etm@openssh.com,hmac-md5-etm@openssh.com,hmac-md5-96-etm@openssh.com,\
              umac-64-etm@openssh.com,umac-128-etm@openssh.com",
    are_patterns: false,
    is_plain: false,
};

pub(crate) const KEY_EXCHANGES: AlgorithmSet = AlgorithmSet {
    default: "mlkem768x25519-sha256,sntrup761x25519-sha512,sntrup761x25519-sha512@openssh.com,\
              curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,\
              ecdh-sha2-nistp384,ecdh-sha2-nistp521,diffie-hellman-group-exchange-sha256,\
              diffie-hellman-group16-sha512,diffie-hellman-group18-sha512,\
              diffie-hellman-group14-sha256",
    all: "diffie-hellman-group1-sha1,diffie-hellman-group14-sha1,diffie-hellman-group14-sha256,\
              diffie-hellman-group16-sha512,diffie-hellman-group18-sha512,\
              diffie-hellman-group-exchange-sha1,diffie-hellman-group-exchange-sha256,\
              ecdh-sha2-nistp256,ecdh-sha2-nistp384,ecdh-sha2-nistp521,curve25519-sha256,\
              curve25519-sha256@libssh.org,sntrup761x25519-sha512,\
              sntrup761x25519-sha512@openssh.com,mlkem768x25519-sha256",
    are_patterns: false,
    is_plain: false,
};

/// Of host keys and user keys.
pub(crate) const KEYS: AlgorithmSet = AlgorithmSet {
    default: "ssh-ed25519-cert-v01@openssh.com,ecdsa-sha2-nistp256-cert-v01@openssh.com,\
              ecdsa-sha2-nistp384-cert-v01@openssh.com,ecdsa-sha2-nistp521-cert-v01@openssh.com,\
              sk-ssh-ed25519-cert-v01@openssh.com,sk-ecdsa-sha2-nistp256-cert-v01@openssh.com,\
              rsa-sha2-512-cert-v01@openssh.com,rsa-sha2-256-cert-v01@openssh.com,ssh-ed25519,\
              ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,\
              sk-ssh-ed25519@openssh.com,sk-ecdsa-sha2-nistp256@openssh.com,rsa-sha2-512,\
              rsa-sha2-256",
    all: "ssh-ed25519,ssh-ed25519-cert-v01@openssh.com,sk-ssh-ed25519@openssh.com,\
              sk-ssh-ed25519-cert-v01@openssh.com,ecdsa-sha2-nistp256,\
              ecdsa-sha2-nistp256-cert-v01@openssh.com,ecdsa-sha2-nistp384,\
              ecdsa-sha2-nistp384-cert-v01@openssh.com,ecdsa-sha2-nistp521,\
              ecdsa-sha2-nistp521-cert-v01@openssh.com,sk-ecdsa-sha2-nistp256@openssh.com,\
              sk-ecdsa-sha2-nistp256-cert-v01@openssh.com,\
              webauthn-sk-ecdsa-sha2-nistp256@openssh.com,ssh-dss,ssh-dss-cert-v01@openssh.com,\
              ssh-rsa,ssh-rsa-cert-v01@openssh.com,rsa-sha2-256,\
              rsa-sha2-256-cert-v01@openssh.com,rsa-sha2-512,rsa-sha2-512-cert-v01@openssh.com",
    are_patterns: true,
    is_plain: false,
};

/// Of certificate authorities: those of keys, without certificates.
pub(crate) const AUTHORITIES: AlgorithmSet = AlgorithmSet { is_plain: true, ..KEYS };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_modifies_the_default_list() {
        let names = |list: &str| CIPHERS.expand(list).map(|names| names.join(" "));
        let defaults = CIPHERS.defaults().collect::<Vec<_>>().join(" ");
        assert_eq!(
            names("aes256-ctr,aes128-ctr,aes256-ctr"),
            Ok("aes256-ctr aes128-ctr".to_owned())
        );
        assert_eq!(names("+3des-cbc"), Ok(format!("{defaults} 3des-cbc")));
        assert_eq!(names("^aes256-ctr").unwrap().split(' ').next(), Some("aes256-ctr"));
        assert_eq!(names("-aes*,chacha20*"), Err(AlgorithmListError::Empty));
        assert_eq!(names("-aes*"), Ok("chacha20-poly1305@openssh.com".to_owned()));
        assert_eq!(names("aes*"), Err(AlgorithmListError::UnknownName));
        assert_eq!(names("rot13"), Err(AlgorithmListError::UnknownName));
        assert_eq!(names("+"), Err(AlgorithmListError::UnknownName));
        assert_eq!(KEYS.expand("ssh-ed*").unwrap().len(), 2);
        assert_eq!(KEYS.expand("!ssh-rsa"), Err(AlgorithmListError::Empty));
    }

    #[test]
    fn default_algorithms_are_supported() {
        for names in [CIPHERS, MACS, KEY_EXCHANGES, KEYS, AUTHORITIES] {
            assert!(names.defaults().all(|name| names.all.split(',').any(|known| known == name)));
        }
        assert_eq!((KEYS.defaults().count(), AUTHORITIES.defaults().count()), (16, 8));
    }
}
