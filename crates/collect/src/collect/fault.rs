//! Converts transport faults to the model's faults.

use std::sync::Arc;

use crate::transport;
use gtop_local::fault::{LoaderCause, StepCause};
use gtop_local::process::Exit;
use gtop_model::{Fault, FaultKind as Kind, TransportKind};
use gtop_ssh::{self as ssh, SshProgramCause};

/// Turns a fault of the transport into one of the model.
///
/// The detail is what nodes with the same fault have in common, so that they fold into one line.
pub(super) fn from_transport(fault: &transport::Fault) -> Fault {
    let (kind, detail) = match fault {
        transport::Fault::Ssh(fault) => from_ssh(fault),
        transport::Fault::ExecFailed { program, message } => {
            (Kind::SessionLost, format!("{program} says: {message}"))
        }
        transport::Fault::JobStep { cause, .. } => (step_kind(*cause), cause.text().to_owned()),
        transport::Fault::Loader { cause, message, .. } => (loader_kind(*cause), message.clone()),
        transport::Fault::Scrape(fault) if fault.is_answer() => {
            (Kind::PageNotReadable, fault.to_string())
        }
        transport::Fault::Scrape(fault) => (Kind::PageNotReached, fault.to_string()),
    };
    Fault {
        kind,
        detail: detail.into(),
        what: fault.to_string().into(),
        cause: Some(Arc::new(fault.clone())),
        host: None,
    }
}

const fn step_kind(cause: StepCause) -> Kind {
    match cause {
        StepCause::TooOld => Kind::Configuration,
        StepCause::Refused => Kind::AuthenticationRefused,
        StepCause::NotJoined => Kind::TimedOut,
        StepCause::NoJob
        | StepCause::NotRunning
        | StepCause::Cancelled
        | StepCause::JobCancelled
        | StepCause::Preempted
        | StepCause::TimeLimit
        | StepCause::NodeFailed
        | StepCause::Busy
        | StepCause::ControllerUnreachable
        | StepCause::TaskEnded
        | StepCause::NotInStep
        | StepCause::TryingOtherJob
        | StepCause::Restarted
        | StepCause::Other => Kind::SessionLost,
    }
}

const fn loader_kind(cause: LoaderCause) -> Kind {
    match cause {
        LoaderCause::Waiting | LoaderCause::Slow => Kind::TimedOut,
        LoaderCause::ReadsInput
        | LoaderCause::OtherProgram
        | LoaderCause::Restricted
        | LoaderCause::NoShell
        | LoaderCause::PasswordExpired
        | LoaderCause::Ended
        | LoaderCause::EndedWithOutput
        | LoaderCause::CannotRun => Kind::NoInterpreter,
    }
}

/// Returns the fault of a login shell that does not start the probe.
pub(super) fn loader_fault(cause: LoaderCause, message: String, via: TransportKind) -> Fault {
    let is_by_ssh = matches!(via, TransportKind::Native | TransportKind::SshProgram);
    from_transport(&transport::Fault::Loader { cause, message, is_by_ssh })
}

/// Returns the fault of a probe that has ended.
pub(super) fn exit_fault(exit: &Exit) -> Fault {
    Fault::new(Kind::SessionLost, format!("the probe ended: {exit}"))
}

pub(super) fn close_fault(fault: Option<transport::Fault>) -> Fault {
    match fault {
        Some(fault) => from_transport(&fault),
        None => Fault::new(Kind::SessionLost, "the node closed it"),
    }
}

/// Returns the kind and the detail of a fault of SSH.
fn from_ssh(fault: &ssh::Fault) -> (Kind, String) {
    use gtop_ssh::Fault as From;
    match fault {
        From::NameNotFound { .. } => (Kind::NameNotFound, String::new()),
        From::Unreachable { why } => (Kind::Unreachable, why.clone()),
        From::TooManyOpenFiles => (Kind::FileLimit, String::new()),
        From::ConnectionRefused { port } => (Kind::Refused, format!("port {port}")),
        From::TimedOut { phase, .. } => (Kind::TimedOut, phase.to_string()),
        From::NoBanner { why, is_closed: true, .. } => (Kind::NoBanner, why.clone()),
        From::NoBanner { why, .. } => (Kind::KeyExchange, why.clone()),
        From::OtherProtocol { version } => {
            (Kind::KeyExchange, format!("protocol major versions differ: 2.0 and {version}"))
        }
        From::NoCommonAlgorithm { kind, .. } => {
            (Kind::KeyExchange, format!("no common {kind} algorithm"))
        }
        From::HostKeyUnknown { .. } => (Kind::HostKeyUnknown, String::new()),
        From::HostKeyNotKept { .. } => {
            (Kind::HostKeyUnknown, "UserKnownHostsFile keeps none".to_owned())
        }
        From::HostCertificateRefused { why, .. } => {
            (Kind::HostKeyUnknown, format!("certificate {why}"))
        }
        From::HostKeyChanged(_) => (Kind::HostKeyChanged, String::new()),
        From::HostKeyRevoked { .. } => (Kind::HostKeyRevoked, String::new()),
        From::AuthenticationRefused { offers, .. } => {
            (Kind::AuthenticationRefused, format!("node offers: {}", ssh::join_names(offers)))
        }
        From::TooManyKeys { .. } => {
            (Kind::AuthenticationRefused, "too many keys offered".to_owned())
        }
        From::MoreAuthenticationRequired { required, .. } => (
            Kind::AuthenticationRefused,
            format!("node also requires {}", ssh::join_names(required)),
        ),
        From::PasswordOnly { .. } => {
            (Kind::AuthenticationRefused, "node accepts only a password".to_owned())
        }
        From::PromptUnanswered { .. } => (Kind::PromptUnanswered, String::new()),
        From::KeyUnusable { problem, .. } => {
            (Kind::AuthenticationRefused, format!("a key {problem}"))
        }
        From::KeyEncrypted { file } => (Kind::KeyLocked, file.display().to_string()),
        From::AgentUnreachable { .. } => {
            (Kind::AuthenticationRefused, "the ssh agent does not answer".to_owned())
        }
        From::ChannelRefused { why } => (Kind::ChannelRefused, why.clone()),
        From::CommandRefused => (Kind::ChannelRefused, "no command may be run".to_owned()),
        From::NeedsSshProgram { options } => {
            (Kind::Configuration, format!("only the ssh program supports {options}"))
        }
        From::UnsupportedAlgorithms { option, .. } => {
            (Kind::Configuration, format!("{option} lists no algorithm gtop supports"))
        }
        From::AtGateway { gateway, fault } => {
            let (kind, detail) = from_ssh(fault);
            let separator = if detail.is_empty() { "" } else { ", " };
            (kind, format!("via {gateway}{separator}{detail}"))
        }
        From::GatewayCannotReach { gateway, why } => {
            (Kind::Unreachable, format!("gateway {gateway} cannot reach the node: {why}"))
        }
        From::GatewayForwardingRefused { gateway, why } => (
            Kind::Configuration,
            format!("gateway {gateway} refuses to forward to the node: {why}"),
        ),
        From::ProxyCommandFailed { why, is_closed, .. } => {
            let kind = if *is_closed { Kind::NoBanner } else { Kind::SessionLost };
            (kind, format!("ProxyCommand: {why}"))
        }
        From::SshProgram { cause, message } => match cause {
            SshProgramCause::HostKeyUnknown => (Kind::HostKeyUnknown, String::new()),
            SshProgramCause::HostKeyRevoked => (Kind::HostKeyRevoked, String::new()),
            SshProgramCause::Configuration => (Kind::Configuration, message.clone()),
            SshProgramCause::Other => (Kind::SessionLost, format!("ssh says: {message}")),
        },
        From::BadConfiguration { why } => (Kind::Configuration, why.clone()),
        From::AccountRefused { message, .. } => (Kind::AccountRefused, message.clone()),
        From::JobRequired { message } => (Kind::NoJob, message.clone()),
        From::ConnectionLost { phase, .. } => (Kind::SessionLost, phase.to_string()),
        From::SessionLost { why } => (Kind::SessionLost, why.clone()),
        From::ProgramNotFound(error) => {
            (Kind::Configuration, format!("cannot start {}", error.program))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_that_differ_only_by_node_have_one_message() {
        let unknown = |host: &str| {
            from_transport(&transport::Fault::Ssh(ssh::Fault::HostKeyUnknown {
                host: host.to_owned(),
                algorithm: "ssh-ed25519".to_owned(),
                fingerprint: format!("SHA256:{host}"),
            }))
        };
        assert_eq!(unknown("gpu01").message(), unknown("gpu02").message());
        assert!(unknown("gpu01").what().contains("SHA256:gpu01"));
    }

    #[test]
    fn nodes_behind_a_faulty_gateway_have_one_message() {
        let refused = ssh::Fault::AuthenticationRefused {
            user: "ada".to_owned(),
            offers: vec!["publickey".to_owned()],
            tried: vec![],
        };
        let message = from_transport(&refused.at_gateway("bastion").into()).message();
        assert_eq!(message, "authentication refused: via bastion, node offers: publickey");
        let unknown = ssh::Fault::NameNotFound { host: None, why: String::new() };
        let message = from_transport(&unknown.at_gateway("bastion").into()).message();
        assert_eq!(message, "name not found: via bastion");
    }

    #[test]
    fn both_fault_types_agree_on_what_is_retried() {
        use gtop_ssh::Fault as From;
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
            (StepCause::TooOld, false),
            (StepCause::Refused, false),
            (StepCause::NotJoined, true),
            (StepCause::Cancelled, true),
        ] {
            let fault = transport::Fault::job_step(cause, "");
            assert_eq!(from_transport(&fault).kind.is_retryable(), is_retryable, "{cause:?}");
        }
    }
}
