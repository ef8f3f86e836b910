//! Converts transport faults to the model's faults.

use crate::model::{Fault, FaultKind as Kind};
use crate::ssh::{self, SshProgramCause};
use crate::transport;

/// Turns a fault of the transport into one of the model.
///
/// The detail is what nodes with the same fault have in common, so that they fold into one line; the remedy has the
/// full message.
pub fn from_transport(fault: &transport::Fault) -> Fault {
    let message = fault.to_string();
    match fault {
        transport::Fault::Ssh(fault) => {
            let summary = from_ssh(fault);
            let separator = if summary.node_remedy.is_empty() { "" } else { "; " };
            let remedy = format!("{message}{separator}{}", summary.node_remedy);
            summary.with_remedy(remedy)
        }
        transport::Fault::ExecFailed { program, message: says } => {
            Fault::new(Kind::SessionLost, format!("{program} says: {says}")).with_remedy(message)
        }
        transport::Fault::SlurmStep { cause, .. } => {
            Fault::new(cause.facts().kind, cause.facts().text).with_remedy(message)
        }
    }
}

/// Returns the kind and the detail of a fault of SSH, and the remedy if its message has none.
fn from_ssh(fault: &ssh::Fault) -> Fault {
    use crate::ssh::Fault as From;
    let refused = |detail: String| Fault::new(Kind::AuthenticationRefused, detail);
    let with_remedy =
        |kind: Kind, detail: &str| Fault::new(kind, detail).with_remedy(kind.remedy());
    match fault {
        From::NameNotFound { .. } => Fault::new(Kind::NameNotFound, ""),
        From::Unreachable { why } => Fault::new(Kind::Unreachable, why.as_str()),
        From::TooManyOpenFiles => Fault::new(Kind::FileLimit, ""),
        From::ConnectionRefused { port } => Fault::new(Kind::Refused, format!("port {port}")),
        From::TimedOut { phase, .. } => Fault::new(Kind::TimedOut, phase.to_string()),
        From::NoBanner { why, is_closed: true, .. } => Fault::new(Kind::NoBanner, why.as_str()),
        From::NoBanner { why, .. } => Fault::new(Kind::KeyExchange, why.as_str()),
        From::NoCommonAlgorithm { kind, .. } => {
            Fault::new(Kind::KeyExchange, format!("no common {kind} algorithm"))
        }
        From::HostKeyUnknown { .. } => Fault::new(Kind::HostKeyUnknown, ""),
        From::HostCertificateRefused { why, .. } => {
            Fault::new(Kind::HostKeyUnknown, format!("certificate {why}"))
        }
        From::HostKeyChanged(_) => Fault::new(Kind::HostKeyChanged, ""),
        From::HostKeyRevoked { .. } => Fault::new(Kind::HostKeyRevoked, ""),
        From::AuthenticationRefused { offers, .. } => {
            let is_keyless = !offers.iter().any(|method| method == "publickey");
            let fault = refused(format!("node offers: {}", ssh::join_names(offers)));
            let fault = Fault { is_keyless, ..fault };
            let remedy = fault.common_remedy();
            fault.with_remedy(remedy)
        }
        From::TooManyKeys { .. } => refused("too many keys offered".to_owned()),
        From::MoreAuthenticationRequired { required, .. } => {
            refused(format!("node also requires {}", ssh::join_names(required)))
        }
        From::PasswordOnly { .. } => refused("node accepts only a password".to_owned()),
        From::PromptUnanswered { .. } => Fault::new(Kind::PromptUnanswered, ""),
        From::KeyUnusable { file, problem, .. } => {
            refused(format!("a key {problem}")).with_remedy(problem.remedy(file))
        }
        From::KeyEncrypted { file } => Fault::new(Kind::KeyLocked, file.display().to_string()),
        From::AgentUnreachable { .. } => refused("the ssh agent does not answer".to_owned()),
        From::ChannelRefused { why } => Fault::new(Kind::ChannelRefused, why.as_str()),
        From::CommandRefused => Fault::new(Kind::ChannelRefused, "no command may be run"),
        From::NeedsSshProgram { options } => {
            Fault::new(Kind::Configuration, format!("only the ssh program supports {options}"))
        }
        From::UnsupportedAlgorithms { option, .. } => {
            Fault::new(Kind::Configuration, format!("{option} lists no algorithm gtop supports"))
        }
        From::AtGateway { gateway, fault } => {
            let summary = from_ssh(fault);
            let separator = if summary.detail.is_empty() { "" } else { ", " };
            let detail = format!("via {gateway}{separator}{}", summary.detail);
            Fault { detail: detail.into(), ..summary }
        }
        From::GatewayCannotReach { gateway, why } => {
            let detail = format!("gateway {gateway} cannot reach the node: {why}");
            Fault::new(Kind::Unreachable, detail)
        }
        From::GatewayForwardingRefused { gateway, why } => {
            let detail = format!("gateway {gateway} refuses to forward to the node: {why}");
            Fault::new(Kind::Configuration, detail)
        }
        From::ProxyCommandFailed { why, is_closed, .. } => {
            let kind = if *is_closed { Kind::NoBanner } else { Kind::SessionLost };
            Fault::new(kind, format!("ProxyCommand: {why}"))
        }
        From::SshProgram { cause, message } => match cause {
            SshProgramCause::HostKeyUnknown => Fault::new(Kind::HostKeyUnknown, ""),
            SshProgramCause::HostKeyRevoked => Fault::new(Kind::HostKeyRevoked, ""),
            SshProgramCause::Configuration => Fault::new(Kind::Configuration, message.as_str()),
            SshProgramCause::Other => Fault::new(Kind::SessionLost, format!("ssh says: {message}")),
        },
        From::BadConfiguration { why } => with_remedy(Kind::Configuration, why),
        From::AccountRefused { message, .. } => with_remedy(Kind::AccountRefused, message),
        From::JobRequired { message } => Fault::new(Kind::NoJob, message.as_str()),
        From::ConnectionLost { phase, .. } => with_remedy(Kind::SessionLost, &phase.to_string()),
        From::SessionLost { why } => with_remedy(Kind::SessionLost, why),
        From::ProgramNotFound(error) => {
            Fault::new(Kind::Configuration, format!("cannot start {}", error.program))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::StepCause;

    #[test]
    fn faults_that_differ_only_by_node_have_one_message_and_their_own_remedies() {
        let unknown = |host: &str| {
            from_transport(&transport::Fault::Ssh(ssh::Fault::HostKeyUnknown {
                host: host.to_owned(),
                algorithm: "ssh-ed25519".to_owned(),
                fingerprint: format!("SHA256:{host}"),
            }))
        };
        assert_eq!(unknown("gpu01").message(), unknown("gpu02").message());
        assert!(unknown("gpu01").remedy().contains("SHA256:gpu01"));
    }

    #[test]
    fn a_key_is_no_remedy_where_the_node_takes_none() {
        for (offers, has_key) in [(&["publickey", "password"][..], true), (&["password"], false)] {
            let offers = offers.iter().map(|method| (*method).to_owned()).collect();
            let refused =
                ssh::Fault::AuthenticationRefused { user: "ada".to_owned(), offers, tried: vec![] };
            let remedy = from_transport(&refused.into()).remedy().to_owned();
            assert_eq!(remedy.contains("ssh-add"), has_key, "{remedy}");
        }
    }

    #[test]
    fn nodes_behind_a_faulty_gateway_have_one_message() {
        let refused = ssh::Fault::AuthenticationRefused {
            user: "ada".to_owned(),
            offers: vec!["publickey".to_owned()],
            tried: vec![],
        };
        let refused = from_transport(&refused.at_gateway("bastion").into());
        let message = refused.message();
        assert_eq!(message, "authentication refused: via bastion, node offers: publickey");
        let remedy = refused.remedy();
        assert!(
            remedy.ends_with("; check the login name, and load your key with ssh-add"),
            "{remedy}"
        );
        let unknown = ssh::Fault::NameNotFound { host: None, why: String::new() };
        let message = from_transport(&unknown.at_gateway("bastion").into()).message();
        assert_eq!(message, "name not found: via bastion");
    }

    #[test]
    fn both_fault_types_agree_on_what_is_retried() {
        use crate::ssh::Fault as From;
        let faults = [
            From::NameNotFound { host: None, why: String::new() },
            From::Unreachable { why: String::new() },
            From::ConnectionRefused { port: 22 },
            From::ChannelRefused { why: String::new() },
            From::SessionLost { why: String::new() },
            From::HostKeyUnknown {
                host: String::new(),
                algorithm: String::new(),
                fingerprint: String::new(),
            },
            From::AuthenticationRefused { user: String::new(), offers: vec![], tried: vec![] },
            From::PasswordOnly { user: String::new() },
            From::PromptUnanswered {
                user: String::new(),
                tried: vec![],
                why: ssh::UnansweredReason::NoTerminal,
            },
            From::KeyEncrypted { file: "key".into() },
            From::NeedsSshProgram { options: String::new() },
            From::UnsupportedAlgorithms { option: "Ciphers", known: vec![] },
            From::ConnectionRefused { port: 22 }.at_gateway("bastion"),
            From::KeyEncrypted { file: "key".into() }.at_gateway("bastion"),
            From::GatewayCannotReach { gateway: "bastion".to_owned(), why: String::new() },
            From::GatewayForwardingRefused { gateway: "bastion".to_owned(), why: String::new() },
            From::ProxyCommandFailed {
                command: String::new(),
                why: String::new(),
                is_closed: false,
            },
            From::ProxyCommandFailed {
                command: String::new(),
                why: String::new(),
                is_closed: true,
            },
            From::SshProgram { cause: SshProgramCause::Other, message: String::new() },
            From::SshProgram { cause: SshProgramCause::HostKeyUnknown, message: String::new() },
            From::BadConfiguration { why: String::new() },
        ];
        let of_transport =
            [transport::Fault::ExecFailed { program: String::new(), message: String::new() }];
        for fault in faults.map(transport::Fault::Ssh).into_iter().chain(of_transport) {
            assert_eq!(
                from_transport(&fault).kind.is_retryable(),
                fault.is_retryable(),
                "{fault:?}"
            );
        }
        for (cause, is_retryable) in [
            (StepCause::SlurmTooOld, false),
            (StepCause::Refused, false),
            (StepCause::NotJoined, true),
            (StepCause::Cancelled, true),
        ] {
            let fault = transport::Fault::slurm_step(cause, "");
            assert_eq!(from_transport(&fault).kind.is_retryable(), is_retryable, "{cause:?}");
        }
    }
}
