//! What to do about a login that is refused, and about accounts.

use crate::advice::connection::configuration::{RELOAD_SSHD, SSHD_CONFIG};
use crate::advice::known::{Known, PublicKey};
use crate::advice::reader::Reader;
use crate::advice::steps::{Advice, Step};
use gtop_local::fault::UnansweredReason;

/// Printed by PAM on Linux for an expired account.
pub(super) const ACCOUNT_EXPIRED: &str = "account has expired";

/// Printed by sshd or PAM for an expired password, in lower case.
pub(super) const PASSWORD_EXPIRED: [&str; 2] = ["password has expired", "password change required"];

/// Returns true if the node offers a method of authentication.
pub(super) fn offers_method(offers: &[String], method: &str) -> bool {
    offers.iter().any(|offer| offer == method)
}

/// Returns true if the node offers a login without a key.
pub(super) fn offers_login_without_key(offers: &[String]) -> bool {
    offers_method(offers, "password") || offers_method(offers, "keyboard-interactive")
}

/// Returns the signature algorithm for a type of key: never SHA-1.
pub(super) fn signature_algorithm(kind: &str) -> &str {
    if kind == "ssh-rsa" { "rsa-sha2-512" } else { kind }
}

/// Returns how to log in once, so that gtop shares the connection.
pub(super) fn log_in(nodes: &str, reader: Reader) -> Step {
    let words = if reader.has_keys() {
        "press L to log in, or run"
    } else {
        "log in once, and gtop shares the connection"
    };
    Step::run(words, format!("gtop login {nodes}"))
}

impl Known {
    /// Returns how an administrator allows logins with keys.
    pub(super) fn allow_keys(&self) -> Step {
        self.sshd_config("PubkeyAuthentication yes")
    }

    /// Returns the `ssh-copy-id` command.
    pub(super) fn copy_id(&self) -> String {
        let file = self.key_file().map(|file| format!("-i {file} ")).unwrap_or_default();
        format!("ssh-copy-id {file}{}", self.destination)
    }

    /// Returns what to ask of the administrator if the key cannot be installed by logging in.
    pub(super) fn add_key(&self, key: &str, user: &str) -> String {
        let location = match self.user(user) {
            Some(user) => format!("~{user}/.ssh/authorized_keys"),
            None => "the authorized_keys of your account".to_owned(),
        };
        format!("ask the administrator to add {key} to {location} on {}", self.host)
    }

    /// Returns how to create a key and install it, by password login or by the administrator.
    pub(super) fn new_key(&self, user: &str, offers: &[String]) -> Step {
        let file = self.key_file();
        let option = file.iter().map(|file| format!(" -f {file}"));
        let keygen =
            std::iter::once("ssh-keygen -t ed25519".to_owned()).chain(option).collect::<String>();
        if offers_login_without_key(offers) {
            let command = format!("{keygen} && {}", self.copy_id());
            return Step::run("create a key and install it on the node", command);
        }
        let file = file.unwrap_or("~/.ssh/id_ed25519".into());
        let add = self.add_key(&format!("{file}.pub"), user);
        Step::run(format!("{add}, after creating it with"), keygen)
    }

    /// Returns the public key of the first configured file that was tried. Other entries of `tried` are free
    /// text, partly from the node.
    pub(super) fn public_key(&self, tried: &[String]) -> Option<&PublicKey> {
        tried
            .iter()
            .map(|what| what.trim_end_matches(" in the agent"))
            .find_map(|what| self.keys.iter().find(|key| key.identity == what))
    }

    /// Returns what to do about a refused key; the reason is only in the log of sshd.
    pub(super) fn authorize_key(&self, user: &str, offers: &[String], tried: &[String]) -> Advice {
        let key = self.public_key(tried);
        let install = if offers_login_without_key(offers) {
            Step::run("install your key on the node", self.copy_id())
        } else {
            Step::words(self.add_key(key.map_or("your public key", |key| &key.file), user))
        };
        let correct = Step::words(self.correct_option("User")).or();
        let accept_algorithm = key.and_then(|key| key.kind.as_deref()).map(|kind| {
            let kind = signature_algorithm(kind);
            let words = format!("add {kind} to PubkeyAcceptedAlgorithms in {SSHD_CONFIG}, then");
            Step::run(words, RELOAD_SSHD).with_root_on(&self.host)
        });
        // Run as the user, because the user's folder may contain links to anywhere.
        let fix_modes = self.user(user).map(|user| {
            self.as_root(format!(
                "runuser -u {user} -- chmod go-w ~{user} ~{user}/.ssh ~{user}/.ssh/authorized_keys"
            ))
        });
        let log_in = offers_login_without_key(offers).then(|| self.log_in_once().or());
        let by_log = [
            ("not in PubkeyAcceptedAlgorithms", accept_algorithm),
            ("bad ownership or modes", fix_modes),
            ("because shell", self.set_shell(user)),
        ];
        let by_log = by_log
            .into_iter()
            .filter_map(|(logged, step)| Some(step?.when(&format!("its sshd logs \"{logged}\""))));
        Advice::from(install).then(log_in).then([correct]).then(by_log)
    }

    /// Returns what to do where the node takes neither a key nor a password.
    pub(super) fn without_key(&self, offers: &[String]) -> Advice {
        if offers_login_without_key(offers) {
            return self.log_in().then([self.allow_keys().or()]);
        }
        let kerberos = offers_method(offers, "gssapi-with-mic")
            .then(|| Step::run("get a Kerberos ticket, and set GSSAPIAuthentication yes", "kinit"));
        let hosts = offers_method(offers, "hostbased").then(|| {
            let words = format!(
                "ask the administrator of {} to accept logins from this machine (HostbasedAuthentication), and the one \
                 of this machine to allow them (EnableSSHKeysign)",
                self.host
            );
            Step::words(words)
        });
        let mut steps: Vec<Step> = kerberos.into_iter().chain(hosts).collect();
        steps.push(self.allow_keys());
        steps.iter_mut().skip(1).for_each(|step| *step = step.clone().or());
        Advice { steps }
    }

    pub(super) fn of_prompt(&self, why: UnansweredReason) -> Advice {
        match why {
            UnansweredReason::ChangedHostKey => {
                "check that key, then correct known_hosts: no answer is sent to a host whose key has changed".into()
            }
            UnansweredReason::TooManyPrompts(_) | UnansweredReason::TooManyRounds => {
                self.by_hand().into()
            }
            UnansweredReason::PromptsClosed | UnansweredReason::Skipped | UnansweredReason::HungUp
                if self.reader.has_keys() =>
            {
                Advice::words("press R to answer it").then([self.log_in_once().or()])
            }
            UnansweredReason::NoTerminal
            | UnansweredReason::MasterOpen
            | UnansweredReason::PromptsClosed
            | UnansweredReason::Skipped
            | UnansweredReason::HungUp => Advice::from(self.log_in_once())
                .then([Step::words("start gtop from a terminal and answer there, or log in with a key").or()]),
        }
    }

    /// Returns how to log in once, so that gtop shares the connection.
    pub(super) fn log_in_once(&self) -> Step {
        let node = self.quoted_node();
        if self.has(|facts| facts.shares_logins) {
            return log_in(&node, self.reader);
        }
        let auto = "--transport auto";
        let command = format!("gtop login {auto} {node} && gtop {auto} {}", self.watched);
        Step::run("log in once, and let gtop use the ssh program", command)
    }

    /// Returns how to log in once: by gtop, or with a master connection of ssh.
    pub(super) fn log_in(&self) -> Advice {
        let login = Advice::from(self.log_in_once());
        if !self.has(|facts| facts.shares_logins) {
            return login;
        }
        let destination = &self.destination;
        let master = if self.value("ControlPath").is_empty() {
            let then = format!(", then run ssh -fNM {destination}");
            self.ssh_config(&then, &["ControlPath ~/.ssh/%C"])
        } else {
            Step::run("open a master connection", format!("ssh -fNM {destination}"))
        };
        login.then([master.or()])
    }

    pub(super) fn of_account(&self, user: &str, says: &str) -> Advice {
        let lower = says.to_lowercase();
        if PASSWORD_EXPIRED.iter().any(|text| lower.contains(text)) {
            return self.renew_password().into();
        }
        if lower.contains(ACCOUNT_EXPIRED) {
            return match self.user(user) {
                Some(user) => self.as_root(format!("chage -E -1 {user}")).into(),
                None => "ask the administrator of the node to extend the account".into(),
            };
        }
        let nologin = self.as_root("rm -f /etc/nologin /run/nologin");
        Advice::words("ask the administrator of the node about this message")
            .then([nologin.when("it comes from a nologin file that is out of date")])
    }

    pub(super) fn renew_password(&self) -> Step {
        let command = format!("ssh -t {}", self.destination);
        Step::run("log in and set a new password", command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::connection::examples::{HOSTILE, known, plain, refused, text};
    use crate::advice::connection::of_cause;
    use gtop_local::fault::ssh::Fault as SshFault;
    use gtop_local::fault::{Fault as Cause, KeyFileProblem, LoaderCause};

    #[test]
    fn commands_never_apply_to_the_account_of_the_administrator() {
        let faults = |user: &str| {
            let message = "Your account has expired".to_owned();
            [refused(user, &["id"]), SshFault::AccountRefused { user: user.to_owned(), message }]
        };
        let (without_user, with_user) = (plain(), known("gpu11", None, None, Some("ada")));
        for unsafe_user in ["", HOSTILE, "-a", "ada bob", "$(id)", "~", "a/../b", "a:b", "1"] {
            for fault in faults(unsafe_user) {
                let at_gateway = fault.clone().at_gateway("bastion");
                for text in [text(&without_user, &fault), text(&with_user, &at_gateway)] {
                    for word in
                        ["as root", "~/.ssh/authorized_keys", "usermod", "go-w", "chage", "curl"]
                    {
                        assert!(!text.contains(word), "{word} in {text}");
                    }
                    assert!(text.contains("ask the administrator"), "{text}");
                }
            }
        }
        for fault in faults("ada") {
            let text = text(&without_user, &fault.at_gateway("bastion"));
            assert!(text.contains("as root on bastion: ") && text.contains(" ada"), "{text}");
        }
        let of_eve = text(&with_user, &refused("eve", &["id"]));
        assert!(of_eve.contains("usermod -s /bin/sh ada") && !of_eve.contains("eve"), "{of_eve}");
        let open = "runuser -u ada -- chmod go-w ~ada ~ada/.ssh ~ada/.ssh/authorized_keys";
        assert!(of_eve.contains(&format!("\", as root on gpu11: {open}")), "{of_eve}");
        let of_loader = |known: &Known, cause| known.of_loader(cause).text();
        for cause in [LoaderCause::Slow, LoaderCause::Ended, LoaderCause::NoShell] {
            let message = String::new();
            let text = of_cause(&Cause::Loader { cause, message, is_by_ssh: false }, &with_user);
            let text = text.text();
            assert!(text.contains("--exec") && !text.contains("ssh "), "{text}");
        }
        for cause in [LoaderCause::NoShell, LoaderCause::Ended] {
            assert!(!of_loader(&without_user, cause).contains("usermod"));
            assert!(of_loader(&with_user, cause).ends_with(": usermod -s /bin/sh ada"));
        }
    }

    #[test]
    fn only_a_key_that_is_known_is_named() {
        let mut known = known("gpu11", None, None, Some("ada"));
        let add = |key: &str| {
            format!("ask the administrator to add {key} to ~ada/.ssh/authorized_keys on gpu11\n")
        };
        let key = |identity: &str, kind: Option<&str>| PublicKey {
            identity: identity.to_owned(),
            file: "/k/id.pub".to_owned(),
            kind: kind.map(str::to_owned),
        };
        known.keys = vec![key("/k/id", Some("ssh-rsa"))];
        let forged = format!("until the node said: {HOSTILE}");
        for tried in ["the keys of the ssh program", "agent SHA256:abc", &forged, "/k/other", "id"]
        {
            let text = text(&known, &refused("ada", &[tried]));
            assert!(text.starts_with(&add("your public key")), "{text}");
            assert!(!text.contains("curl") && !text.contains("to PubkeyAccepted"), "{text}");
        }
        for tried in ["/k/id", "/k/id in the agent"] {
            let text = text(&known, &refused("ada", &["the keys of the ssh program", tried]));
            assert!(text.starts_with(&add("/k/id.pub")), "{text}");
            // A site's own list of algorithms is kept, and SHA-1 stays off.
            let accept = "as root on gpu11: add rsa-sha2-512 to PubkeyAcceptedAlgorithms in /etc/ssh/sshd_config, then: ";
            assert!(text.contains(&format!("{accept}{RELOAD_SSHD}\n")), "{text}");
        }
        known.keys = vec![key("/k/id", None)];
        assert!(!text(&known, &refused("ada", &["/k/id"])).contains("to PubkeyAccepted"));
    }

    #[test]
    fn an_excluded_key_algorithm_is_never_allowed_with_sha1() {
        let problem = KeyFileProblem::AlgorithmExcluded("ssh-rsa".to_owned());
        let fault = SshFault::KeyUnusable { file: "/k".into(), problem, offers: Vec::new() };
        let text = text(&plain(), &fault);
        assert!(text.contains("\n      PubkeyAcceptedAlgorithms +rsa-sha2-512\n"), "{text}");
    }

    #[test]
    fn a_password_cannot_be_replaced_by_a_key_where_none_is_taken() {
        for (offers, command) in [
            (&["publickey", "password"][..], "ssh-copy-id"),
            (&["password"], "gtop login gpu11"),
            (&["hostbased"], "EnableSSHKeysign"),
            (&["gssapi-with-mic"], "kinit"),
        ] {
            let offers = offers.iter().map(|method| (*method).to_owned()).collect();
            let fault = SshFault::AuthenticationRefused {
                user: "ada".to_owned(),
                offers,
                tried: vec!["id".to_owned()],
            };
            let first = plain().of_ssh(&fault).first();
            assert!(first.contains(command), "{command} in {first}");
        }
    }
}
