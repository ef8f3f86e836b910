//! Which answers are used again: those that a node has accepted, if the user says so, until one is refused.

use std::collections::{BTreeMap, BTreeSet};

use gtop_ssh::{LoginHost, Secret};

/// The answers that the user wants to be used again, by prompt.
#[derive(Debug, Default)]
pub(super) struct Answers {
    kept: BTreeMap<String, Secret>,
    /// The user wants to be asked these each time.
    declined: BTreeSet<String>,
}

/// What was answered in one login, by prompt.
pub(super) type Dialogue = BTreeMap<String, Secret>;

impl Answers {
    /// Returns the answer to use for a prompt; `None` if the user must be asked.
    ///
    /// A prompt that comes twice in one login means that the answer was refused: it is not used again anywhere.
    pub(super) fn find(&mut self, dialogue: &Dialogue, prompt: &str) -> Option<Secret> {
        if dialogue.contains_key(prompt) {
            self.kept.remove(prompt);
            self.declined.remove(prompt);
            return None;
        }
        self.kept.get(prompt).cloned()
    }

    /// Returns the prompts whose answers may be used again once the login has succeeded.
    pub(super) fn to_offer<'a>(&self, dialogue: &'a Dialogue) -> Vec<(&'a str, &'a Secret)> {
        let new = dialogue.iter().filter(|(prompt, _)| {
            !self.kept.contains_key(*prompt) && !self.declined.contains(*prompt)
        });
        new.map(|(prompt, answer)| (prompt.as_str(), answer)).collect()
    }

    /// Uses an answer again.
    pub(super) fn keep(&mut self, prompt: &str, answer: Secret) {
        self.kept.insert(prompt.to_owned(), answer);
    }

    /// Asks the user each time.
    pub(super) fn decline(&mut self, prompt: &str) {
        self.declined.insert(prompt.to_owned());
    }
}

/// Returns a prompt without the host in it, so that the same one of another host is recognised; `None` if it may be
/// one of another host.
pub(super) fn prompt_of(host: &LoginHost, text: &str) -> Option<String> {
    prompt_without_login(&host.logins(), host.has_proxy_command(), text)
}

fn prompt_without_login(logins: &[String], may_be_of_another: bool, text: &str) -> Option<String> {
    let text = text.trim();
    let is_of_key = text.starts_with("Enter passphrase for ") || text.starts_with("Enter PIN for ");
    if is_of_key {
        return Some(text.to_owned());
    }
    for login in logins {
        if let Some(prompt) = text.strip_prefix(&format!("({login}) ")) {
            return Some(prompt.to_owned());
        }
        if text == format!("{login}'s password:") {
            return Some("password".to_owned());
        }
    }
    (!may_be_of_another).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::from(text.to_owned())
    }

    fn find(answers: &mut Answers, dialogue: &Dialogue, prompt: &str) -> Option<String> {
        answers.find(dialogue, prompt).map(|answer| answer.expose().to_owned())
    }

    #[test]
    fn an_answer_is_used_again_only_if_told_to_and_not_after_a_refusal() {
        let mut answers = Answers::default();
        let mut first = Dialogue::default();
        assert_eq!(find(&mut answers, &first, "Password:"), None);
        first.insert("Password:".to_owned(), secret("barley"));
        first.insert("Code:".to_owned(), secret("123"));
        let offered: Vec<_> = answers.to_offer(&first).iter().map(|(prompt, _)| *prompt).collect();
        assert_eq!(offered, ["Code:", "Password:"]);
        answers.decline("Code:");
        answers.keep("Password:", secret("barley"));
        assert!(answers.to_offer(&first).is_empty());
        let mut second = Dialogue::default();
        assert_eq!(find(&mut answers, &second, "Code:"), None);
        assert_eq!(find(&mut answers, &second, "Password:").as_deref(), Some("barley"));
        second.insert("Password:".to_owned(), secret("barley"));
        // The second node repeats the prompt: the answer was wrong there.
        assert_eq!(find(&mut answers, &second, "Password:"), None);
        second.insert("Password:".to_owned(), secret("wheat"));
        assert_eq!(find(&mut answers, &Dialogue::default(), "Password:"), None);
        // It may be offered again.
        assert_eq!(answers.to_offer(&second).len(), 1);
    }

    #[test]
    fn the_same_prompt_of_another_host_is_recognised() {
        let prompt = |text: &str, may_be_of_another: bool| {
            let logins = ["ada@10.0.0.7".to_owned(), "ada@gpu07".to_owned()];
            prompt_without_login(&logins, may_be_of_another, text)
        };
        for (text, expected) in [
            ("(ada@10.0.0.7) Password: ", Some("Password:")),
            ("(ada@gpu07) Code: ", Some("Code:")),
            ("ada@gpu07's password: ", Some("password")),
            ("Enter passphrase for key '/k': ", Some("Enter passphrase for key '/k':")),
            ("(ada@gate) Password: ", None),
            ("Password: ", None),
        ] {
            assert_eq!(prompt(text, true).as_deref(), expected, "{text}");
        }
        // Before OpenSSH 8.6 prompts of nodes name no login.
        assert_eq!(prompt("Password: ", false).as_deref(), Some("Password:"));
    }
}
