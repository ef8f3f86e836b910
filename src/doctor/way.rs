//! From the notes of the way into a node to its steps.

use std::time::Duration;

use tokio::time::Instant;

use crate::doctor::remedy::Advice;
use crate::doctor::{Mark, Row};
use crate::model::clean;
use crate::transport::{
    ConnectEvent, ConnectPhase, CredentialOutcome, Fault, HostKeyStatus, RouteSummary, TracedEvent,
};

/// Longest sentence of a fault.
const LONGEST: usize = 900;

/// The step of the ssh program.
const SSH_PROGRAM: &str = "ssh program";

/// The step of a connection that a person has opened.
const MASTER: &str = "master";

/// The step of a step of Slurm.
const SRUN: &str = "srun";

/// When the way was begun and ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) began: Instant,
    pub(super) ended: Instant,
}

/// Returns a fault as one clean line.
pub(super) fn sentence(fault: &Fault) -> String {
    clean(&fault.to_string(), LONGEST)
}

/// Adds the steps of the way; `outcome` holds the text before login, or why the way did not end at
/// the node.
pub(super) fn rows(
    notes: &[TracedEvent],
    span: Span,
    outcome: Result<Option<&str>, &Fault>,
    advice: &Advice,
    rows: &mut Vec<Row>,
) {
    let mut path = Path {
        rows,
        last: span.began,
        gateways: Vec::new(),
        failed: Vec::new(),
        offers: Vec::new(),
        tried: Vec::new(),
        step: ConnectPhase::Configuration,
        program: None,
    };
    for noted in notes {
        path.follow(noted);
    }
    match outcome {
        Ok(banner) => path.arrive(span.ended, banner),
        Err(fault) => path.fail(span.ended, fault, advice),
    }
}

/// A gateway being logged in to.
struct Stop {
    name: String,
    began: Instant,
    found: Vec<String>,
}

/// What is known on the way.
struct Path<'a> {
    rows: &'a mut Vec<Row>,
    /// The end of the last step.
    last: Instant,
    gateways: Vec<Stop>,
    /// Addresses that did not answer.
    failed: Vec<String>,
    offers: Vec<String>,
    tried: Vec<String>,
    step: ConnectPhase,
    /// The step of the program that does everything.
    program: Option<&'static str>,
}

impl Path<'_> {
    fn since(&mut self, at: Instant) -> Duration {
        let took = at.saturating_duration_since(self.last);
        self.last = at;
        took
    }

    fn push(&mut self, at: Instant, row: Row) {
        let took = self.since(at);
        self.rows.push(row.took(took));
    }

    fn row(&mut self, step: &str) -> Option<&mut Row> {
        self.rows.iter_mut().rev().find(|row| row.step == step)
    }

    fn follow(&mut self, noted: &TracedEvent) {
        let TracedEvent { at, note } = noted;
        if let ConnectEvent::GatewayStarted(name) = note {
            self.gateways.push(Stop { name: name.clone(), began: *at, found: Vec::new() });
        } else if *note == ConnectEvent::GatewayFinished {
            self.leave_gateway(*at);
        } else if let Some(stop) = self.gateways.last_mut() {
            stop.found.extend(brief(note));
        } else {
            self.follow_node(*at, note);
        }
    }

    fn leave_gateway(&mut self, at: Instant) {
        let Some(Stop { name, began, found }) = self.gateways.pop() else { return };
        let took = at.saturating_duration_since(began).as_millis();
        let line = format!("{name}: {} ({took} ms)", found.join(", "));
        // The time of one that leads to another gateway is part of that one's.
        let took = self.gateways.is_empty().then(|| self.since(at));
        if let Some(row) = self.row("way") {
            row.details.push(line);
            row.took = took.or(row.took);
        }
    }

    fn follow_node(&mut self, at: Instant, note: &ConnectEvent) {
        match note {
            ConnectEvent::PhaseStarted(step) => {
                if *step == ConnectPhase::Command {
                    self.last = at;
                }
                self.step = *step;
            }
            ConnectEvent::Route(way) => {
                let row = Row::new("way", Mark::Ok, words(way));
                self.push(at, row);
                if *way != RouteSummary::Direct {
                    let by = match way {
                        RouteSummary::Command(_) => "done by the command",
                        RouteSummary::Gateways(_) | RouteSummary::Direct => "done by the gateway",
                    };
                    self.rows.push(Row::new("name", Mark::Apart, by));
                    self.rows.push(Row::new("connection", Mark::Apart, by));
                }
            }
            ConnectEvent::GatewayConnected(gateway) => {
                let took = self.since(at);
                if let Some(row) = self.row("connection") {
                    row.mark = Mark::Ok;
                    row.found = format!("{gateway} has connected us");
                    row.took = Some(took);
                }
            }
            ConnectEvent::Resolved(addresses) => {
                let found: Vec<_> = addresses.iter().map(|a| a.ip().to_string()).collect();
                self.push(at, Row::new("name", Mark::Ok, found.join(", ")));
            }
            ConnectEvent::ConnectFailed { address, why } => {
                self.failed.push(format!("{address}: {why}"));
            }
            ConnectEvent::Connected(address) => {
                let mark = if self.failed.is_empty() { Mark::Ok } else { Mark::Note };
                let row = Row::new("connection", mark, format!("{address} answers"));
                let row = row.details(std::mem::take(&mut self.failed));
                self.push(at, row);
            }
            ConnectEvent::ServerVersion(text) => {
                let mark = if text.starts_with("SSH-") { Mark::Ok } else { Mark::Note };
                self.push(at, Row::new("greeting", mark, text.clone()));
            }
            ConnectEvent::Negotiated { exchange, cipher, mac } => self.agree(exchange, cipher, mac),
            ConnectEvent::HostKey { algorithm, fingerprint, verdict, line, flaw } => {
                self.push(at, Row::new("key exchange", Mark::Ok, "agreed"));
                let (mark, verdict) = judged(verdict, line.as_ref());
                let flaw = flaw.iter().map(|flaw| format!("its certificate {flaw}")).collect();
                let found = format!("{algorithm} {fingerprint}, {verdict}");
                self.rows.push(Row::new("host key", mark, found).details(flaw));
            }
            ConnectEvent::OfferedMethods(methods) => self.offers.clone_from(methods),
            ConnectEvent::CredentialTried { what, result } => {
                self.tried.push(attempt(what, result))
            }
            ConnectEvent::LoggedIn { user } => {
                let row = Row::new("login", Mark::Ok, format!("as {user}"));
                let row = row.details(self.proofs());
                self.push(at, row);
            }
            ConnectEvent::Fallback(fault) => {
                let row = Row::new("gtop's own SSH", Mark::Note, clean(fault, LONGEST));
                let row = row.details(self.proofs());
                self.push(at, row);
            }
            ConnectEvent::SshProgram(program) => {
                self.leave_to(at, SSH_PROGRAM, clean(&program.to_string_lossy(), 200));
            }
            ConnectEvent::MasterFound(socket) => {
                let found = format!("open at {}", clean(&socket.to_string_lossy(), 200));
                self.push(at, Row::new(MASTER, Mark::Ok, found));
            }
            ConnectEvent::MasterMissing => {
                let found = "none is open; one would spare logins that ask (see ControlPath)";
                self.push(at, Row::new(MASTER, Mark::Apart, found));
            }
            ConnectEvent::GatewayMaster { gateway, socket } => {
                let socket = clean(&socket.to_string_lossy(), 200);
                if let Some(row) = self.row("way") {
                    row.details.push(format!("{gateway}: over its master connection at {socket}"));
                }
            }
            ConnectEvent::SlurmStep(job) => self.leave_to(at, SRUN, format!("a step of job {job}")),
            ConnectEvent::SlurmStepFailed(fault) => {
                self.program = None;
                let tried =
                    self.rows.extract_if(.., |row| row.step == SRUN && row.mark == Mark::Ok);
                let tried = tried.map(|row| format!("tried: {}", row.found)).collect();
                self.push(at, Row::new(SRUN, Mark::Note, clean(fault, LONGEST)).details(tried));
            }
            ConnectEvent::Exec(command) => self.leave_to(at, "exec command", clean(command, 400)),
            ConnectEvent::GatewayStarted(_) | ConnectEvent::GatewayFinished => {}
        }
    }

    /// Notes what both sides agreed upon.
    fn agree(&mut self, exchange: &str, cipher: &str, mac: &str) {
        if let Some(row) = self.row("key exchange") {
            // Some ciphers need none, and its name means nothing then.
            let mac = if cipher.contains("gcm") || cipher.contains("poly1305") {
                String::new()
            } else {
                format!(", {mac}")
            };
            row.found = format!("{exchange}, {cipher}{mac}");
        }
        // Keys are agreed upon only with a host that is believed.
        if let Some(row) = self.row("host key").filter(|row| row.mark == Mark::Note) {
            row.found.push_str("; believed all the same, by StrictHostKeyChecking");
        }
    }

    /// Notes that a program does the rest.
    fn leave_to(&mut self, at: Instant, step: &'static str, found: String) {
        self.program = Some(step);
        self.last = at;
        self.rows.push(Row::new(step, Mark::Ok, found));
    }

    /// Returns what the node offers, and what was tried.
    fn proofs(&mut self) -> Vec<String> {
        let offers = std::mem::take(&mut self.offers);
        let offers = (!offers.is_empty()).then(|| format!("node offers: {}", offers.join(", ")));
        offers.into_iter().chain(std::mem::take(&mut self.tried)).collect()
    }

    fn arrive(mut self, ended: Instant, banner: Option<&str>) {
        let took = self.since(ended);
        if let Some(step) = self.program {
            if let Some(row) = self.row(step) {
                row.took = Some(took);
                match step {
                    SRUN => row.found.push_str(" reaches it"),
                    SSH_PROGRAM => row.found.push_str(" reaches the node"),
                    _ => {}
                }
            }
            return;
        }
        let banner = banner.and_then(|text| text.lines().find(|line| !line.trim().is_empty()));
        let details = banner.map(|line| format!("says before login: {}", clean(line, 200)));
        let row = Row::new("channel", Mark::Ok, "open, the command was started");
        self.rows.push(row.took(took).details(details.into_iter().collect()));
    }

    fn fail(mut self, ended: Instant, fault: &Fault, advice: &Advice) {
        let took = self.since(ended);
        while !self.gateways.is_empty() {
            self.leave_gateway(ended);
        }
        let step = self.program.unwrap_or_else(|| step_of(fault, self.step));
        let mut details = std::mem::take(&mut self.failed);
        if step == "login" {
            details.extend(self.proofs());
        }
        // What stands behind the step that failed was not reached.
        if let Some(place) = self.rows.iter().position(|row| row.step == step) {
            let is_told = |row: &Row| row.mark != Mark::Apart;
            let rest = self.rows.split_off(place + 1);
            self.rows.extend(rest.into_iter().filter(is_told));
            if let Some(row) = self.rows.get_mut(place) {
                if row.mark != Mark::Apart {
                    let found = std::mem::take(&mut row.found);
                    let is_program = self.program == Some(step);
                    let found = if is_program { format!("tried: {found}") } else { found };
                    row.details.insert(0, found);
                }
                row.details.extend(details);
            }
        } else {
            self.rows.push(Row::new(step, Mark::Failed, "").details(details));
        }
        if let Some(row) = self.row(step) {
            row.mark = Mark::Failed;
            row.found = sentence(fault);
            row.remedy = Some(advice.of_transport(fault));
            row.took = row.took.or(Some(took)).max(Some(took));
        }
    }
}

/// Returns the step that a fault is a fault of.
fn step_of(fault: &Fault, last: ConnectPhase) -> &'static str {
    match fault {
        Fault::NameNotFound { .. } => "name",
        Fault::Unreachable { .. } | Fault::ConnectionRefused { .. } | Fault::TooManyOpenFiles => {
            "connection"
        }
        Fault::TimedOut { step, .. } | Fault::ConnectionLost { step, .. } => step_name(*step),
        Fault::NotSsh { .. } => "greeting",
        Fault::NoCommonAlgorithm { .. } => "key exchange",
        Fault::HostKeyUnknown { .. }
        | Fault::HostCertificateRefused { .. }
        | Fault::HostKeyChanged(_)
        | Fault::HostKeyRevoked { .. } => "host key",
        Fault::AuthenticationRefused { .. }
        | Fault::TooManyKeys { .. }
        | Fault::MoreAuthenticationRequired { .. }
        | Fault::PasswordOnly { .. }
        | Fault::Unanswered { .. }
        | Fault::KeyUnusable { .. }
        | Fault::KeyEncrypted { .. }
        | Fault::JobRequired { .. }
        | Fault::AccountRefused { .. }
        | Fault::AgentUnreachable { .. } => "login",
        Fault::ChannelRefused { .. } | Fault::CommandRefused => "channel",
        Fault::NeedsSshProgram { .. }
        | Fault::UnsupportedAlgorithms { .. }
        | Fault::BadConfiguration { .. } => "configuration",
        Fault::AtGateway { .. }
        | Fault::GatewayCannotReach { .. }
        | Fault::GatewayForwardingRefused { .. }
        | Fault::ProxyCommandFailed { .. } => "way",
        Fault::SshProgram { .. } | Fault::ExecFailed { .. } | Fault::ProgramNotFound { .. } => {
            SSH_PROGRAM
        }
        Fault::SlurmStep { .. } => SRUN,
        Fault::SessionLost { .. } => step_name(last),
    }
}

const fn step_name(step: ConnectPhase) -> &'static str {
    match step {
        ConnectPhase::Configuration => "configuration",
        ConnectPhase::Name => "name",
        ConnectPhase::Connection => "connection",
        ConnectPhase::Greeting => "greeting",
        ConnectPhase::KeyExchange => "key exchange",
        ConnectPhase::Login => "login",
        ConnectPhase::Command => "channel",
    }
}

fn words(way: &RouteSummary) -> String {
    match way {
        RouteSummary::Direct => "direct".to_owned(),
        RouteSummary::Gateways(names) => format!("through {}", clean(&names.join(", then "), 400)),
        RouteSummary::Command(command) => format!("by the command {}", clean(command, 200)),
    }
}

fn judged(verdict: &HostKeyStatus, line: Option<&(std::path::PathBuf, usize)>) -> (Mark, String) {
    let place = |file: &std::path::Path, line: usize| {
        format!("{}:{line}", clean(&file.to_string_lossy(), 200))
    };
    match verdict {
        HostKeyStatus::Known => {
            let by =
                line.map_or_else(String::new, |(file, line)| format!(" by {}", place(file, *line)));
            (Mark::Ok, format!("known{by}"))
        }
        HostKeyStatus::Certified { file, line } => {
            (Mark::Ok, format!("certified by the authority in {}", place(file, *line)))
        }
        HostKeyStatus::Exempt => {
            (Mark::Ok, "not looked up, by NoHostAuthenticationForLocalhost".to_owned())
        }
        HostKeyStatus::Unknown => (Mark::Note, "in no known_hosts file".to_owned()),
        HostKeyStatus::Changed { file, line, .. } => {
            (Mark::Note, format!("not the one of {}", place(file, *line)))
        }
        HostKeyStatus::Revoked { file, line } => {
            let file = clean(&file.to_string_lossy(), 200);
            let line = line.map_or_else(String::new, |line| format!(":{line}"));
            (Mark::Note, format!("revoked in {file}{line}"))
        }
    }
}

fn attempt(what: &str, result: &CredentialOutcome) -> String {
    match result {
        CredentialOutcome::Accepted => format!("accepted: {what}"),
        CredentialOutcome::Partial => format!("accepted, but not enough: {what}"),
        CredentialOutcome::Refused => format!("refused: {what}"),
        CredentialOutcome::Skipped(why) => format!("not shown: {what} ({})", clean(why, 300)),
    }
}

/// Returns the little that is worth telling of a gateway.
fn brief(note: &ConnectEvent) -> Option<String> {
    match note {
        ConnectEvent::ConnectFailed { address, why } => Some(format!("{address}: {why}")),
        ConnectEvent::Connected(address) => Some(address.to_string()),
        ConnectEvent::ServerVersion(text) => Some(text.clone()),
        ConnectEvent::HostKey { algorithm, verdict, line, .. } => {
            Some(format!("host key {algorithm} {}", judged(verdict, line.as_ref()).1))
        }
        ConnectEvent::CredentialTried { what, result } => Some(attempt(what, result)),
        ConnectEvent::LoggedIn { user } => Some(format!("logged in as {user}")),
        ConnectEvent::PhaseStarted(_)
        | ConnectEvent::Route(_)
        | ConnectEvent::GatewayStarted(_)
        | ConnectEvent::GatewayFinished
        | ConnectEvent::GatewayConnected(_)
        | ConnectEvent::Resolved(_)
        | ConnectEvent::Negotiated { .. }
        | ConnectEvent::OfferedMethods(_)
        | ConnectEvent::Fallback(_)
        | ConnectEvent::Exec(_)
        | ConnectEvent::SshProgram(_)
        | ConnectEvent::MasterFound(_)
        | ConnectEvent::MasterMissing
        | ConnectEvent::GatewayMaster { .. }
        | ConnectEvent::SlurmStep(_)
        | ConnectEvent::SlurmStepFailed(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{JobId, NodeName};
    use crate::transport::{Profile, Reach, SshTarget, StepCause, Target};

    /// Returns the rows of these notes, a millisecond apart, as `mark step took: found | details`.
    fn told(notes: Vec<ConnectEvent>, outcome: Result<Option<&str>, &Fault>) -> Vec<String> {
        let began = Instant::now();
        let after = |count: usize| began + Duration::from_millis(u64::try_from(count).unwrap());
        let ended = after(notes.len() + 1);
        let notes: Vec<_> = notes
            .into_iter()
            .enumerate()
            .map(|(place, note)| TracedEvent { at: after(place + 1), note })
            .collect();
        let ssh = SshTarget {
            host: "gpu01".to_owned(),
            user: None,
            port: None,
            profile: Profile::System,
        };
        let target = Target { name: NodeName::new("gpu01").unwrap(), reach: Reach::Ssh(ssh) };
        let mut found = Vec::new();
        rows(&notes, Span { began, ended }, outcome, &Advice::about(&target), &mut found);
        let line = |row: &Row| {
            let took = row.took.map_or(0, |took| took.as_millis());
            let details = row.details.join(" | ");
            format!("{} {} {took}: {} | {details}", row.mark.word(), row.step, row.found)
        };
        found.iter().map(line).collect()
    }

    #[test]
    fn what_happens_at_gateways_is_told_of_them_and_not_of_the_node() {
        let key = || ConnectEvent::CredentialTried {
            what: "id".to_owned(),
            result: CredentialOutcome::Accepted,
        };
        let notes = vec![
            ConnectEvent::Route(RouteSummary::Gateways(vec![
                "bastion".to_owned(),
                "login".to_owned(),
            ])),
            ConnectEvent::GatewayStarted("login".to_owned()),
            ConnectEvent::GatewayStarted("bastion".to_owned()),
            ConnectEvent::Connected("192.0.2.1:22".parse().unwrap()),
            key(),
            ConnectEvent::GatewayFinished,
            ConnectEvent::GatewayConnected("bastion".to_owned()),
            key(),
            ConnectEvent::GatewayFinished,
            ConnectEvent::GatewayConnected("login".to_owned()),
            ConnectEvent::ServerVersion("SSH-2.0-x".to_owned()),
        ];
        let fault =
            Fault::TimedOut { step: ConnectPhase::KeyExchange, after: Duration::from_secs(1) };
        let rows = told(notes, Err(&fault));
        let expected = [
            "ok way 8: through bastion, then login | bastion: 192.0.2.1:22, accepted: id (3 ms) | login: accepted: id (7 ms)",
            "- name 0: done by the gateway | ",
            "ok connection 1: login has connected us | ",
            "ok greeting 1: SSH-2.0-x | ",
        ];
        assert_eq!(rows[..4], expected);
        assert!(
            rows[4].starts_with("FAILED key exchange 1: timed out exchanging keys"),
            "{rows:?}"
        );
        assert_eq!(rows.len(), 5);
    }

    #[test]
    fn a_step_that_leads_there_or_not_has_a_row() {
        let step = || ConnectEvent::SlurmStep(JobId::new("7").unwrap());
        assert_eq!(told(vec![step()], Ok(None))[0], "ok srun 1: a step of job 7 reaches it | ");
        let notes = vec![
            step(),
            ConnectEvent::SlurmStepFailed("Slurm refuses it".to_owned()),
            ConnectEvent::Route(RouteSummary::Direct),
        ];
        let rows = told(notes, Ok(None));
        assert_eq!(rows[0], "note srun 1: Slurm refuses it | tried: a step of job 7");
        assert!(rows.last().unwrap().starts_with("ok channel"), "{rows:?}");
        let refused = Fault::SlurmStep { cause: StepCause::Refused, says: String::new() };
        let rows = told(vec![step()], Err(&refused));
        assert!(rows[0].starts_with("FAILED srun 1: ") && rows.len() == 1, "{rows:?}");
        assert!(
            rows[0].ends_with(" | tried: a step of job 7"),
            "it is not said to reach it: {rows:?}"
        );
    }

    #[test]
    fn a_fault_without_any_note_has_a_step_all_the_same() {
        let gone = Fault::SessionLost { why: "gtop is ending".to_owned() };
        let rows = told(Vec::new(), Err(&gone));
        assert!(rows[0].starts_with("FAILED configuration"), "{rows:?}");
        let step = vec![ConnectEvent::PhaseStarted(ConnectPhase::Login)];
        assert!(told(step, Err(&gone))[0].starts_with("FAILED login"));
    }
}
