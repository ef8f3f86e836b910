//! Converts transport faults to the model's faults.

use crate::model::{Fault, FaultKind};
use crate::ssh::{self, SshProgramCause};
use crate::transport::{self, StepCause};

/// Turns a fault of the transport into one of the model.
///
/// The detail is what nodes with the same fault have in common, so that they fold into one line; the remedy has the
/// full message.
pub fn from_transport(fault: &transport::Fault) -> Fault {
    let message = fault.to_string();
    let (kind, detail) = match fault {
        transport::Fault::Ssh(fault) => return from_ssh(fault),
        transport::Fault::ExecFailed { program, message: says } => {
            (FaultKind::SessionLost, format!("{program} says: {says}"))
        }
        transport::Fault::SlurmStep { cause, .. } => {
            (step_fault_kind(*cause), cause.text().to_owned())
        }
    };
    Fault::new(kind, detail).with_remedy(message)
}

/// Does the same for a fault of SSH.
fn from_ssh(fault: &ssh::Fault) -> Fault {
    let (kind, detail) = kind_and_detail(fault);
    // For these the kind's remedy applies; the messages of the others contain one.
    let has_none = matches!(
        fault.root(),
        ssh::Fault::AuthenticationRefused { .. }
            | ssh::Fault::AccountRefused { .. }
            | ssh::Fault::BadConfiguration { .. }
            | ssh::Fault::ConnectionLost { .. }
            | ssh::Fault::SessionLost { .. }
    );
    let remedy = if let ssh::Fault::KeyUnusable { file, problem: flaw, .. } = fault.root() {
        flaw.remedy(file)
    } else if has_none {
        kind.remedy().to_owned()
    } else {
        return Fault::new(kind, detail).with_remedy(fault.to_string());
    };
    Fault::new(kind, detail).with_remedy(format!("{fault}; {remedy}"))
}

fn kind_and_detail(fault: &ssh::Fault) -> (FaultKind, String) {
    use crate::ssh::Fault as From;
    match fault {
        From::NameNotFound { .. } => (FaultKind::NameNotFound, String::new()),
        From::Unreachable { why } => (FaultKind::Unreachable, why.clone()),
        From::TooManyOpenFiles => (FaultKind::FileLimit, String::new()),
        From::ConnectionRefused { port } => (FaultKind::Refused, format!("port {port}")),
        From::TimedOut { phase: step, .. } => (FaultKind::TimedOut, step.to_string()),
        From::NoBanner { why, is_closed: true, .. } => (FaultKind::NoBanner, why.clone()),
        From::NoBanner { why, .. } => (FaultKind::KeyExchange, why.clone()),
        From::NoCommonAlgorithm { kind, .. } => {
            (FaultKind::KeyExchange, format!("no common {kind} algorithm"))
        }
        From::HostKeyUnknown { .. } => (FaultKind::HostKeyUnknown, String::new()),
        From::HostCertificateRefused { why, .. } => {
            (FaultKind::HostKeyUnknown, format!("certificate {why}"))
        }
        From::HostKeyChanged(_) => (FaultKind::HostKeyChanged, String::new()),
        From::HostKeyRevoked { .. } => (FaultKind::HostKeyRevoked, String::new()),
        From::AuthenticationRefused { offers, .. } => {
            (FaultKind::AuthenticationRefused, format!("node offers: {}", join_or_nothing(offers)))
        }
        From::TooManyKeys { .. } => {
            (FaultKind::AuthenticationRefused, "too many keys offered".to_owned())
        }
        From::MoreAuthenticationRequired { required: wants, .. } => (
            FaultKind::AuthenticationRefused,
            format!("node also requires {}", join_or_nothing(wants)),
        ),
        From::PasswordOnly { .. } => {
            (FaultKind::AuthenticationRefused, "node accepts only a password".to_owned())
        }
        From::PromptUnanswered { .. } => (FaultKind::PromptUnanswered, String::new()),
        From::KeyUnusable { problem: flaw, .. } => {
            (FaultKind::AuthenticationRefused, format!("a key {flaw}"))
        }
        From::KeyEncrypted { file } => (FaultKind::KeyLocked, file.display().to_string()),
        From::AgentUnreachable { .. } => {
            (FaultKind::AuthenticationRefused, "the ssh agent does not answer".to_owned())
        }
        From::ChannelRefused { why } => (FaultKind::ChannelRefused, why.clone()),
        From::CommandRefused => (FaultKind::ChannelRefused, "no command may be run".to_owned()),
        From::NeedsSshProgram { options } => {
            (FaultKind::Configuration, format!("only the ssh program supports {options}"))
        }
        From::UnsupportedAlgorithms { option, .. } => {
            (FaultKind::Configuration, format!("{option} lists no algorithm gtop supports"))
        }
        From::AtGateway { gateway, fault } => {
            let (kind, detail) = kind_and_detail(fault);
            let via = format!("via {gateway}");
            (kind, if detail.is_empty() { via } else { format!("{via}, {detail}") })
        }
        From::GatewayCannotReach { gateway, why } => {
            (FaultKind::Unreachable, format!("gateway {gateway} cannot reach the node: {why}"))
        }
        From::GatewayForwardingRefused { gateway, why } => (
            FaultKind::Configuration,
            format!("gateway {gateway} refuses to forward to the node: {why}"),
        ),
        From::ProxyCommandFailed { why, is_closed, .. } => {
            let kind = if *is_closed { FaultKind::NoBanner } else { FaultKind::SessionLost };
            (kind, format!("ProxyCommand: {why}"))
        }
        From::SshProgram { cause, message: says } => match cause {
            SshProgramCause::HostKeyUnknown => (FaultKind::HostKeyUnknown, String::new()),
            SshProgramCause::HostKeyRevoked => (FaultKind::HostKeyRevoked, String::new()),
            SshProgramCause::Configuration => (FaultKind::Configuration, says.clone()),
            SshProgramCause::Other => (FaultKind::SessionLost, format!("ssh says: {says}")),
        },
        From::BadConfiguration { why } => (FaultKind::Configuration, why.clone()),
        From::AccountRefused { message: says, .. } => (FaultKind::AccountRefused, says.clone()),
        From::JobRequired { message: says } => (FaultKind::NoJob, says.clone()),
        From::ConnectionLost { phase: step, .. } => (FaultKind::SessionLost, step.to_string()),
        From::SessionLost { why } => (FaultKind::SessionLost, why.clone()),
        From::ProgramNotFound(error) => {
            (FaultKind::Configuration, format!("cannot start {}", error.program))
        }
    }
}

const fn step_fault_kind(cause: StepCause) -> FaultKind {
    if matches!(cause, StepCause::SlurmTooOld) {
        FaultKind::Configuration
    } else if matches!(cause, StepCause::Refused) {
        FaultKind::AuthenticationRefused
    } else if matches!(cause, StepCause::NotJoined) {
        FaultKind::TimedOut
    } else {
        FaultKind::SessionLost
    }
}

fn join_or_nothing(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_that_differ_only_by_node_have_one_message_and_their_own_remedies() {
        let unknown = |host: &str| {
            from_ssh(&ssh::Fault::HostKeyUnknown {
                host: host.to_owned(),
                algorithm: "ssh-ed25519".to_owned(),
                fingerprint: format!("SHA256:{host}"),
            })
        };
        assert_eq!(unknown("gpu01").message(), unknown("gpu02").message());
        assert!(unknown("gpu01").remedy().contains("SHA256:gpu01"));
    }

    #[test]
    fn nodes_behind_a_faulty_gateway_have_one_message() {
        let refused = ssh::Fault::AuthenticationRefused {
            user: "ada".to_owned(),
            offers: vec!["password".to_owned()],
            tried: vec![],
        };
        let refused = refused.at_gateway("bastion");
        let message = from_ssh(&refused).message();
        assert_eq!(message, "authentication refused: via bastion, node offers: password");
        let remedy = from_ssh(&refused).remedy().to_owned();
        assert!(
            remedy.ends_with("; check the login name, and load your key with ssh-add"),
            "{remedy}"
        );
        let unknown = ssh::Fault::NameNotFound { host: None, why: String::new() };
        let message = from_ssh(&unknown.at_gateway("bastion")).message();
        assert_eq!(message, "name not found: via bastion");
    }

    #[test]
    fn both_fault_types_agree_on_what_is_retried() {
        use crate::ssh::Fault as From;
        let step = |cause| transport::Fault::SlurmStep { cause, message: String::new() };
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
        let of_transport = [
            transport::Fault::ExecFailed { program: String::new(), message: String::new() },
            step(StepCause::SlurmTooOld),
            step(StepCause::Refused),
            step(StepCause::NotJoined),
            step(StepCause::Cancelled),
        ];
        for fault in faults.map(transport::Fault::Ssh).into_iter().chain(of_transport) {
            assert_eq!(
                from_transport(&fault).kind.is_retryable(),
                fault.is_retryable(),
                "{fault:?}"
            );
        }
    }
}
