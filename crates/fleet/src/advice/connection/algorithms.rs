//! What to do about algorithms of which the two sides have none in common.

use crate::advice::known::Known;
use crate::advice::steps::{Advice, Step};

/// Algorithms that ssh still has but does not offer by itself, the better ones first (ssh(1), `ssh -Q`).
pub(super) const OLD_ALGORITHMS: [&str; 17] = [
    "diffie-hellman-group-exchange-sha1",
    "diffie-hellman-group14-sha1",
    "diffie-hellman-group1-sha1",
    "ssh-rsa",
    "aes256-cbc",
    "aes192-cbc",
    "aes128-cbc",
    "3des-cbc",
    "umac-64@openssh.com",
    "hmac-sha1-etm@openssh.com",
    "hmac-sha1",
    "hmac-sha1-96-etm@openssh.com",
    "hmac-sha1-96",
    "hmac-md5-etm@openssh.com",
    "hmac-md5",
    "hmac-md5-96-etm@openssh.com",
    "hmac-md5-96",
];

/// Returns true if ssh does not offer an algorithm by itself.
pub(super) fn is_old(name: &str) -> bool {
    let is_marker = name.starts_with("ext-info") || name.starts_with("kex-strict");
    is_marker || OLD_ALGORITHMS.contains(&name)
}

/// Returns the option for algorithms of this kind.
pub(super) fn algorithm_option(kind: &str) -> &'static str {
    match kind {
        "host key" => "HostKeyAlgorithms",
        "cipher" => "Ciphers",
        "MAC" => "MACs",
        _ => "KexAlgorithms",
    }
}

impl Known {
    /// Returns what to do about algorithms of which the two sides have none in common.
    pub(super) fn of_algorithms(&self, kind: &str, theirs: &[String]) -> Advice {
        let option = algorithm_option(kind);
        if let Some(origin) = self.origin(option) {
            return Step::words(format!(
                "correct {option} in {origin}, or in the node's sshd_config"
            ))
            .into();
        }
        let update = Step::words(format!(
            "add an algorithm that gtop supports to {option} in the node's sshd_config"
        ));
        match self.old_algorithm(kind, theirs) {
            Some(line) => Advice::from(line).then([update.or()]),
            None => update.into(),
        }
    }

    /// Returns how to allow the best of the node's algorithms that ssh has and does not offer by itself.
    pub(super) fn old_algorithm(&self, kind: &str, theirs: &[String]) -> Option<Step> {
        let old = OLD_ALGORITHMS.iter().find(|old| theirs.iter().any(|name| name == *old))?;
        Some(self.ssh_config("", &[&format!("{} +{old}", algorithm_option(kind))]))
    }
}

#[cfg(test)]
mod tests {
    use crate::advice::connection::examples::{HOSTILE, plain, text};
    use gtop_local::fault::ssh::Fault as SshFault;

    #[test]
    fn a_server_with_old_algorithms_gets_the_line_that_allows_the_best_of_them() {
        let theirs = |names: &str| names.split(',').map(str::to_owned).collect();
        let fault = |kind, names: &str| SshFault::NoCommonAlgorithm {
            kind,
            ours: Vec::new(),
            theirs: theirs(names),
        };
        for (kind, names, line) in [
            (
                "key exchange",
                "diffie-hellman-group1-sha1,diffie-hellman-group14-sha1",
                "KexAlgorithms +diffie-hellman-group14-sha1",
            ),
            ("host key", "ssh-rsa,ssh-dss", "HostKeyAlgorithms +ssh-rsa"),
            ("cipher", "3des-cbc,aes128-cbc", "Ciphers +aes128-cbc"),
            ("MAC", "hmac-md5", "MACs +hmac-md5"),
        ] {
            let text = text(&plain(), &fault(kind, names));
            assert!(text.contains(&format!("    Host gpu11\n      {line}\n    Host *")), "{text}");
        }
        let unheard = text(&plain(), &fault("cipher", HOSTILE));
        assert!(!unheard.contains("curl") && unheard.contains("Ciphers"), "{unheard}");
    }
}
