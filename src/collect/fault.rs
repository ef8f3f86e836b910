//! What went wrong on the way to a node, in the words of the model.

use crate::model::{Fault, FaultKind};
use crate::transport;

/// Turns a fault of the transport into one of the model.
///
/// The detail holds what nodes with the same fault share, so that they fold into one line; the
/// particulars hold the whole sentence.
pub fn of_transport(fault: &transport::Fault) -> Fault {
    use transport::Fault as From;
    let (kind, detail) = match fault {
        From::NameNotFound { .. } => (FaultKind::NameNotFound, String::new()),
        From::Unreachable { why } => (FaultKind::Unreachable, why.clone()),
        From::Refused { port } => (FaultKind::Refused, format!("port {port}")),
        From::TimedOut { step, .. } => (FaultKind::TimedOut, step.to_string()),
        From::NotSsh { why, .. } => (FaultKind::KeyExchange, why.clone()),
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
            (FaultKind::AuthenticationRefused, format!("node offers: {}", list(offers)))
        }
        From::MoreAuthentication { wants, .. } => {
            (FaultKind::AuthenticationRefused, format!("node also wants {}", list(wants)))
        }
        From::KeyEncrypted { file } => (FaultKind::KeyLocked, file.display().to_string()),
        From::AgentUnreachable { .. } => {
            (FaultKind::AuthenticationRefused, "the ssh agent does not answer".to_owned())
        }
        From::ChannelRefused { why } => (FaultKind::ChannelRefused, why.clone()),
        From::CommandRefused => (FaultKind::ChannelRefused, "no command may be run".to_owned()),
        From::NotSupported { option, .. } => {
            (FaultKind::Configuration, format!("{option} is not supported yet"))
        }
        From::BadConfiguration { why } => (FaultKind::Configuration, why.clone()),
        From::Broken { step, .. } => (FaultKind::SessionLost, step.to_string()),
        From::SessionLost { why } => (FaultKind::SessionLost, why.clone()),
        From::ProgramNotFound { program, .. } => (FaultKind::NoInterpreter, program.clone()),
    };
    Fault::new(kind, detail).with_particulars(fault.to_string())
}

fn list(words: &[String]) -> String {
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_that_differ_only_by_node_are_equal_but_for_their_particulars() {
        let unknown = |host: &str| {
            of_transport(&transport::Fault::HostKeyUnknown {
                host: host.to_owned(),
                algorithm: "ssh-ed25519".to_owned(),
                fingerprint: format!("SHA256:{host}"),
            })
        };
        assert_eq!(unknown("gpu01").sentence(), unknown("gpu02").sentence());
        assert!(unknown("gpu01").remedy().contains("SHA256:gpu01"));
    }

    #[test]
    fn both_sides_agree_on_what_is_tried_again() {
        use transport::Fault as From;
        let faults = [
            From::NameNotFound { host: None, why: String::new() },
            From::Unreachable { why: String::new() },
            From::Refused { port: 22 },
            From::ChannelRefused { why: String::new() },
            From::SessionLost { why: String::new() },
            From::HostKeyUnknown {
                host: String::new(),
                algorithm: String::new(),
                fingerprint: String::new(),
            },
            From::AuthenticationRefused { user: String::new(), offers: vec![], tried: vec![] },
            From::KeyEncrypted { file: "key".into() },
            From::NotSupported { option: "ProxyJump", value: String::new() },
            From::BadConfiguration { why: String::new() },
        ];
        for fault in faults {
            assert_eq!(
                of_transport(&fault).kind.retries_by_itself(),
                fault.retries_by_itself(),
                "{fault:?}"
            );
        }
    }
}
