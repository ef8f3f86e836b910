//! Reports the SSH options in effect for a node, with the file and line that set each.

use crate::doctor::StepResult;
use gtop_collect::transport::{Reach, Target};
use gtop_fleet::advice::Known;
use gtop_local::text::excerpt;
use gtop_ssh::{EffectiveOption, Profile};

/// The options that are reported, as `ssh_config` spells them. The first [`SUMMARY_OPTIONS`] are always
/// reported, the others only if set.
#[rustfmt::skip]
const REPORTED_OPTIONS: [&str; 25] = [
    "HostName", "User", "Port", "ProxyJump", "ProxyCommand", "IdentityFile", "CertificateFile", "IdentityAgent",
    "IdentitiesOnly", "PubkeyAuthentication", "PreferredAuthentications", "StrictHostKeyChecking",
    "UserKnownHostsFile", "GlobalKnownHostsFile", "RevokedHostKeys", "HostKeyAlias", "HostKeyAlgorithms",
    "KexAlgorithms", "Ciphers", "MACs", "AddressFamily", "BindAddress", "BindInterface", "ConnectTimeout",
    "ControlPath",
];

/// Number of options that are always reported.
const SUMMARY_OPTIONS: usize = 3;

/// Maximum length of a value, in characters, after which it is visibly cut.
const MAX_VALUE_CHARS: usize = 3000;

/// Returns the step of the configuration, and adds the options to what is known.
pub(super) fn configuration_step(
    target: &Target,
    options: &[EffectiveOption],
    known: &mut Known,
) -> StepResult {
    if options.is_empty() {
        return StepResult::ok(super::STEPS[0], "fixed values, no configuration file");
    }
    let (typed_user, typed_port) = match &target.reach {
        Reach::Ssh(ssh) if ssh.profile == Profile::System => {
            (ssh.user.is_some(), ssh.port.is_some())
        }
        Reach::Ssh(_) | Reach::Local | Reach::Page(_) | Reach::InProcess(_) => (false, false),
    };
    let mut summary = Vec::new();
    let mut details = Vec::new();
    for (index, name) in REPORTED_OPTIONS.into_iter().enumerate() {
        let lower = name.to_ascii_lowercase();
        let Some(option) = options.iter().find(|option| option.name == lower) else { continue };
        let value = excerpt(&option.values.join(" "), MAX_VALUE_CHARS);
        known.set_option(name, &option.values, option.origin.as_ref());
        if index < SUMMARY_OPTIONS {
            summary.push(format!("{name} {value}"));
        }
        match &option.origin {
            Some(origin) => details.push(format!("{name} {value} ({origin})")),
            None if (name == "User" && typed_user) || (name == "Port" && typed_port) => {
                details.push(format!("{name} {value} (command line)"));
            }
            None if option.is_set => details.push(format!("{name} {value} (by ssh -G)")),
            None => {}
        }
    }
    details.extend(ignored_options(options));
    StepResult::ok(super::STEPS[0], summary.join(", ")).with_details(details)
}

/// Names the options that are set and that gtop ignores.
fn ignored_options(options: &[EffectiveOption]) -> Option<String> {
    let ignored = options.iter().filter(|option| option.is_set && option.is_ignored);
    let names = ignored.map(|option| match &option.origin {
        Some(origin) => format!("{} ({origin})", option.spelling),
        None => option.spelling.to_owned(),
    });
    let names = names.collect::<Vec<_>>().join(", ");
    (!names.is_empty()).then(|| format!("ignored: {names}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::NodeName;
    use gtop_ssh::SshTarget;

    #[test]
    fn long_values_are_shown_whole_and_endless_ones_are_visibly_cut() {
        let profile = Profile::System;
        let ssh = SshTarget { host: "gpu01".to_owned(), user: None, port: None, profile };
        let target = Target { name: NodeName::new("gpu01").unwrap(), reach: Reach::Ssh(ssh) };
        for (length, is_cut) in [(201, false), (2999, false), (3001, true)] {
            let value = "c".repeat(length);
            let option = EffectiveOption {
                name: "ciphers",
                spelling: "Ciphers",
                values: vec![value.clone()],
                origin: None,
                is_set: true,
                is_ignored: false,
            };
            let mut known = Known::new("gpu01", None, "gpu01", None);
            let step = configuration_step(&target, &[option], &mut known);
            assert_eq!(step.details[0].contains('…'), is_cut);
            assert_eq!(step.details[0].contains(&value), !is_cut);
        }
    }
}
