//! What to do by the kind of a fault alone.

use crate::advice::connection::page::{PAGE_NOT_REACHED, PAGE_NOT_READABLE};
use crate::advice::reader::Reader;
use crate::advice::steps::{Advice, Step};
use gtop_model::FaultKind;

pub(super) const FILE_LIMIT: &str = "monitor fewer nodes, or raise the limit (ulimit -Hn shows it)";

/// Returns what to do by the kind of fault alone. `nodes` is one node or a node set, `destination` one for ssh.
pub(super) fn of_kind(kind: FaultKind, nodes: &str, destination: &str, reader: Reader) -> Advice {
    let reconnects = reader.reconnects();
    let words = match kind {
        FaultKind::NameNotFound => "check the spelling, or add a Host entry to ~/.ssh/config",
        FaultKind::Unreachable => "check the network and whether the node is up",
        FaultKind::Refused => "check that sshd runs there and that the port is right",
        FaultKind::TimedOut => {
            "the node or the network path to it hangs; try ssh by hand, or raise --connect-timeout"
        }
        FaultKind::KeyExchange => {
            "the server is too old or is not an SSH server; try ssh -v by hand"
        }
        FaultKind::HostKeyUnknown => {
            let command = format!("gtop trust {nodes}");
            return Step::run("check the fingerprint and run", command).into();
        }
        FaultKind::HostKeyChanged => {
            "ask the administrator; if the change is expected, remove the old key with ssh-keygen -R"
        }
        FaultKind::HostKeyRevoked => "do not connect; ask the administrator",
        FaultKind::AuthenticationRefused => {
            let command = format!("gtop doctor {nodes}");
            return Step::run("check the login name and the key; this tells more", command).into();
        }
        FaultKind::PromptUnanswered if reader.has_keys() => {
            "press R to answer it, or start gtop again from a terminal"
        }
        FaultKind::PromptUnanswered => "start gtop from a terminal, and answer there",
        FaultKind::KeyLocked => {
            "load it with ssh-add, or start gtop from a terminal and type the passphrase"
        }
        FaultKind::Configuration => {
            let words = "fix ~/.ssh/config; this prints the options in effect";
            return Step::run(words, format!("ssh -G {destination}")).into();
        }
        FaultKind::ChannelRefused => {
            "close other sessions to that node (MaxSessions), or ask the administrator"
        }
        FaultKind::NoInterpreter => {
            let command = format!("ssh {destination} /bin/sh -c true");
            return Step::run("check the login shell", command).into();
        }
        FaultKind::Silent => return Advice::words(format!("look at the node; {reconnects}")),
        FaultKind::BadReply => {
            let command = format!("ssh {destination} true");
            return Step::run("check what the login files print", command).into();
        }
        FaultKind::NoBanner => {
            const WORDS: &str = "sshd may be refusing connections for now (MaxStartups)";
            return Advice::words(format!("{WORDS}; {reconnects}"));
        }
        FaultKind::AccountRefused if !reader.has_keys() => "the node says why",
        FaultKind::AccountRefused => {
            "the node says why; gtop retries every few minutes, or press R to retry now"
        }
        FaultKind::NoJob if !reader.has_keys() => "run a job there: gtop --slurm watches its nodes",
        FaultKind::NoJob => {
            "gtop retries every few minutes, and immediately when a job of yours starts there (gtop --slurm) or you press R"
        }
        FaultKind::FileLimit => FILE_LIMIT,
        FaultKind::PageNotReached => PAGE_NOT_REACHED,
        FaultKind::PageNotReadable => PAGE_NOT_READABLE,
        FaultKind::SessionLost => reconnects,
    };
    words.into()
}
