//! What to do about a node that is not connected.

pub use crate::advice::connection::host_keys::{of_shared_name, of_untrusted};
pub use crate::advice::connection::startup::{of_slow_shell, of_step};

use crate::advice::connection::authentication::{log_in, offers_method};
use crate::advice::connection::host_keys::trust;
use crate::advice::connection::kinds::of_kind;
use crate::advice::connection::page::of_page;
use crate::advice::connection::ssh::{is_word, use_ssh_program};
use crate::advice::connection::startup::of_command;
use crate::advice::known::{Known, shell_quoted};
use crate::advice::reader::Reader;
use crate::advice::steps::Advice;
use gtop_local::fault::ssh::Fault as SshFault;
use gtop_local::fault::{Fault as Cause, SshProgramCause};
use gtop_model::{Fault, FaultKind};

mod algorithms;
mod authentication;
mod configuration;
#[cfg(test)]
mod examples;
mod host_keys;
mod kinds;
mod page;
mod reachability;
mod ssh;
mod startup;

/// Returns what to do about a node that is not connected.
pub fn for_fault(fault: &Fault, known: &Known) -> Advice {
    match fault.cause.as_deref() {
        Some(cause) => {
            let mut known = known.clone();
            let facts = fault.host.clone().or(known.facts.take());
            known.set_facts(facts);
            of_cause(cause, &known)
        }
        None => of_kind(fault.kind, &known.quoted_node(), &known.destination, known.reader),
    }
}

/// Returns what to do about several nodes with faults of the same kind and detail, by their node set.
pub(crate) fn of_alike(fault: &Fault, nodes: &str, reader: Reader) -> Advice {
    if fault.kind == FaultKind::NameNotFound && nodes.split(',').all(is_word) {
        return "there is no such command either (gtop --help lists them); check the spelling, or add a Host entry to ~/.ssh/config"
            .into();
    }
    let nodes = shell_quoted(nodes);
    if let Some(Cause::Ssh(cause)) = fault.cause.as_deref() {
        if matches!(
            cause.root(),
            SshFault::HostKeyUnknown { .. }
                | SshFault::HostCertificateRefused { .. }
                | SshFault::SshProgram { cause: SshProgramCause::HostKeyUnknown, .. }
        ) {
            return trust(&nodes, reader).into();
        }
        if let SshFault::AtGateway { gateway, fault: at_gateway } = cause {
            // All of them wait for the gateway.
            let mut known = Known::of_destination(gateway);
            known.reader = reader;
            known.set_facts(fault.host.clone());
            return known.of_ssh(at_gateway);
        }
        let root = cause.root();
        if matches!(
            root,
            SshFault::PasswordOnly { .. }
                | SshFault::MoreAuthenticationRequired { .. }
                | SshFault::HostKeyNotKept { .. }
        ) && fault.host.as_ref().is_none_or(|facts| facts.shares_logins)
        {
            return log_in(&nodes, reader).into();
        }
        if matches!(root, SshFault::NeedsSshProgram { .. } | SshFault::UnsupportedAlgorithms { .. })
        {
            return use_ssh_program(&nodes).into();
        }
        if let SshFault::AuthenticationRefused { offers, .. } = root
            && !offers_method(offers, "publickey")
        {
            return "check the login name; the nodes accept no keys".into();
        }
    }
    of_kind(fault.kind, &nodes, "HOST", reader)
}

/// Returns what to do about a node by the kind of its fault alone, without what only some may know, such as the name of a
/// user.
pub(crate) fn in_public(kind: FaultKind, node: &str) -> Advice {
    of_kind(kind, &shell_quoted(node), "HOST", Reader::Program)
}

/// Returns what to do about a fault of the connection.
pub fn of_cause(cause: &Cause, known: &Known) -> Advice {
    match cause {
        Cause::Ssh(fault) => known.of_ssh(fault),
        Cause::ExecFailed { .. } => {
            "run the command by hand; it must pass standard input to a shell on the node, \
             or take the command line to run as {command}"
                .into()
        }
        Cause::JobStep { cause, .. } => of_step(*cause, known.reader),
        Cause::Scrape(fault) => of_page(fault),
        Cause::Loader { cause, is_by_ssh: true, .. } => known.of_loader(*cause),
        Cause::Loader { cause, is_by_ssh: false, .. } => of_command(*cause, known.reader),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::connection::examples::plain;
    use gtop_local::fault::{LoaderCause, StepCause};

    #[test]
    fn each_kind_of_fault_has_advice() {
        for kind in FaultKind::ALL {
            for advice in [
                for_fault(&Fault::new(kind, ""), &plain()),
                of_alike(&Fault::new(kind, ""), "gpu[01-02]", Reader::Screen),
                of_alike(&Fault::new(kind, ""), "gpu[01-02]", Reader::Print),
            ] {
                let first = advice.first();
                assert!(first.contains(' ') && !first.ends_with('.'), "{kind:?}: {first}");
            }
        }
        let unknown = Fault::new(FaultKind::HostKeyUnknown, "");
        let several = of_alike(&unknown, "gpu[01-02]", Reader::Screen).first();
        assert_eq!(several, "check the fingerprint and run: gtop trust 'gpu[01-02]'");
    }

    #[test]
    fn a_word_that_is_no_host_may_be_meant_as_a_command() {
        let not_found = |host: Option<&str>| SshFault::NameNotFound {
            host: host.map(str::to_owned),
            why: String::new(),
        };
        let first =
            |node: &str, fault: &SshFault| Known::of_destination(node).of_ssh(fault).first();
        for word in ["list", "stats", "top-gpus"] {
            let expected = format!(
                "there is no such command either (gtop --help lists them); check the spelling: getent hosts {word}"
            );
            assert_eq!(first(word, &not_found(None)), expected);
        }
        for host in ["gpu01", "ada@list", "list:22", "list.example.org", "10.0.0.1"] {
            assert!(first(host, &not_found(None)).starts_with("check the spelling: "), "{host}");
        }
        let several = |nodes: &str| {
            of_alike(&Fault::new(FaultKind::NameNotFound, ""), nodes, Reader::Screen).first()
        };
        assert!(several("jobs,show").starts_with("there is no such command either"));
        assert!(several("gpu[01-02]").starts_with("check the spelling"));
        // The configuration knows the word, or it is a gateway.
        assert!(!first("list", &not_found(Some("list.example.org"))).contains("command"));
        let behind = first("gpu", &not_found(None).at_gateway("list"));
        assert_eq!(behind, "check the spelling: getent hosts list");
    }

    #[test]
    fn what_is_printed_promises_no_retry_and_names_no_key_of_the_screen() {
        const STEPS: [StepCause; 8] = [
            StepCause::Cancelled,
            StepCause::NodeFailed,
            StepCause::Busy,
            StepCause::ControllerUnreachable,
            StepCause::TryingOtherJob,
            StepCause::Restarted,
            StepCause::NotJoined,
            StepCause::Other,
        ];
        const LOADERS: [LoaderCause; 3] =
            [LoaderCause::Waiting, LoaderCause::Slow, LoaderCause::Ended];
        let x = String::new;
        let faults = [
            SshFault::HostKeyUnknown { host: x(), algorithm: x(), fingerprint: x() },
            SshFault::PasswordOnly { user: x() },
            SshFault::NoBanner { port: 22, why: x(), is_closed: true },
            SshFault::SessionLost { why: x() },
        ];
        let read_by = |reader| {
            let mut known = plain();
            known.reader = reader;
            known
        };
        let of_kinds = |reader| {
            FaultKind::ALL.into_iter().flat_map(move |kind| {
                let fault = Fault::new(kind, "");
                [for_fault(&fault, &read_by(reader)), of_alike(&fault, "n", reader)]
            })
        };
        let of_causes = |reader: Reader| {
            let causes = STEPS.map(|cause| of_step(cause, reader));
            let loaders = LOADERS.into_iter().flat_map(move |cause| {
                [of_command(cause, reader), read_by(reader).of_loader(cause)]
            });
            let ssh = faults.iter().map(move |fault| read_by(reader).of_ssh(fault));
            causes.into_iter().chain(loaders).chain(ssh).chain(of_kinds(reader))
        };
        let promises = ["gtop retries", "gtop reconnects", "gtop keeps", "a new step starts"];
        let keys = ["press R", "press A", "press L", "on R"];
        let count = |reader, words: &[&str]| {
            let has = |advice: &Advice| words.iter().any(|word| advice.text().contains(word));
            of_causes(reader).filter(has).count()
        };
        assert!(count(Reader::Screen, &promises) > 10 && count(Reader::Screen, &keys) > 4);
        assert!(count(Reader::Program, &promises) > 10);
        assert_eq!(count(Reader::Program, &keys), 0);
        assert_eq!((count(Reader::Print, &promises), count(Reader::Print, &keys)), (0, 0));
    }

    #[test]
    fn nodes_behind_a_gateway_are_helped_by_what_helps_the_gateway() {
        let text = String::new;
        let unknown =
            SshFault::HostKeyUnknown { host: text(), algorithm: text(), fingerprint: text() };
        for (kind, cause, command) in [
            (
                FaultKind::AuthenticationRefused,
                SshFault::PasswordOnly { user: text() },
                ": gtop login eve@bastion:2200",
            ),
            // It asks for the keys of gateways first.
            (FaultKind::HostKeyUnknown, unknown, ": gtop trust 'gpu[01-64]'"),
        ] {
            let fault = Fault {
                cause: Some(Cause::from(cause.at_gateway("eve@bastion:2200")).into()),
                ..Fault::new(kind, "via eve@bastion:2200")
            };
            let first = of_alike(&fault, "gpu[01-64]", Reader::Screen).first();
            assert!(first.ends_with(command), "{first}");
            let public = in_public(fault.kind, "gpu01").first();
            assert!(!public.contains("eve"), "{public}");
        }
    }
}
