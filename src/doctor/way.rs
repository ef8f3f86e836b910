//! From the notes of the way into a node to its steps.

use std::time::Duration;

use tokio::time::Instant;

use crate::doctor::remedy::Advice;
use crate::doctor::{Mark, Row};
use crate::model::clean;
use crate::transport::{Attempt, Fault, Note, Noted, Step, Verdict, Way};

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
    notes: &[Noted],
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
        step: Step::Configuration,
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
    step: Step,
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

    fn follow(&mut self, noted: &Noted) {
        let Noted { at, note } = noted;
        if let Note::Gateway(name) = note {
            self.gateways.push(Stop { name: name.clone(), began: *at, found: Vec::new() });
        } else if *note == Note::GatewayEnd {
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

    fn follow_node(&mut self, at: Instant, note: &Note) {
        match note {
            Note::Begins(step) => {
                if *step == Step::Command {
                    self.last = at;
                }
                self.step = *step;
            }
            Note::Way(way) => {
                let row = Row::new("way", Mark::Ok, words(way));
                self.push(at, row);
                if *way != Way::Direct {
                    let by = match way {
                        Way::Command(_) => "done by the command",
                        Way::Gateways(_) | Way::Direct => "done by the gateway",
                    };
                    self.rows.push(Row::new("name", Mark::Apart, by));
                    self.rows.push(Row::new("connection", Mark::Apart, by));
                }
            }
            Note::Through(gateway) => {
                let took = self.since(at);
                if let Some(row) = self.row("connection") {
                    row.mark = Mark::Ok;
                    row.found = format!("{gateway} has connected us");
                    row.took = Some(took);
                }
            }
            Note::Addresses(addresses) => {
                let found: Vec<_> = addresses.iter().map(|a| a.ip().to_string()).collect();
                self.push(at, Row::new("name", Mark::Ok, found.join(", ")));
            }
            Note::NoAnswer { address, why } => {
                self.failed.push(format!("{address}: {why}"));
            }
            Note::Connected(address) => {
                let mark = if self.failed.is_empty() { Mark::Ok } else { Mark::Note };
                let row = Row::new("connection", mark, format!("{address} answers"));
                let row = row.details(std::mem::take(&mut self.failed));
                self.push(at, row);
            }
            Note::Greeting(text) => {
                let mark = if text.starts_with("SSH-") { Mark::Ok } else { Mark::Note };
                self.push(at, Row::new("greeting", mark, text.clone()));
            }
            Note::Agreed { exchange, cipher, mac } => self.agree(exchange, cipher, mac),
            Note::HostKey { algorithm, fingerprint, verdict, line, flaw } => {
                self.push(at, Row::new("key exchange", Mark::Ok, "agreed"));
                let (mark, verdict) = judged(verdict, line.as_ref());
                let flaw = flaw.iter().map(|flaw| format!("its certificate {flaw}")).collect();
                let found = format!("{algorithm} {fingerprint}, {verdict}");
                self.rows.push(Row::new("host key", mark, found).details(flaw));
            }
            Note::Offers(methods) => self.offers.clone_from(methods),
            Note::Tried { what, result } => self.tried.push(attempt(what, result)),
            Note::LoggedIn { user } => {
                let row = Row::new("login", Mark::Ok, format!("as {user}"));
                let row = row.details(self.proofs());
                self.push(at, row);
            }
            Note::Beyond(fault) => {
                let row = Row::new("gtop's own SSH", Mark::Note, clean(fault, LONGEST));
                let row = row.details(self.proofs());
                self.push(at, row);
            }
            Note::Program(program) => {
                self.leave_to(at, SSH_PROGRAM, clean(&program.to_string_lossy(), 200));
            }
            Note::Master(socket) => {
                let found = format!("open at {}", clean(&socket.to_string_lossy(), 200));
                self.push(at, Row::new(MASTER, Mark::Ok, found));
            }
            Note::NoMaster => {
                let found = "none is open; one would spare logins that ask (see ControlPath)";
                self.push(at, Row::new(MASTER, Mark::Apart, found));
            }
            Note::GatewayMaster { gateway, socket } => {
                let socket = clean(&socket.to_string_lossy(), 200);
                if let Some(row) = self.row("way") {
                    row.details.push(format!("{gateway}: over its master connection at {socket}"));
                }
            }
            Note::StepOf(job) => self.leave_to(at, SRUN, format!("a step of job {job}")),
            Note::NoStep(fault) => {
                self.program = None;
                let tried =
                    self.rows.extract_if(.., |row| row.step == SRUN && row.mark == Mark::Ok);
                let tried = tried.map(|row| format!("tried: {}", row.found)).collect();
                self.push(at, Row::new(SRUN, Mark::Note, clean(fault, LONGEST)).details(tried));
            }
            Note::Exec(command) => self.leave_to(at, "exec command", clean(command, 400)),
            Note::Gateway(_) | Note::GatewayEnd => {}
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
fn step_of(fault: &Fault, last: Step) -> &'static str {
    match fault {
        Fault::NameNotFound { .. } => "name",
        Fault::Unreachable { .. } | Fault::Refused { .. } | Fault::FileLimit => "connection",
        Fault::TimedOut { step, .. } | Fault::Broken { step, .. } => step_name(*step),
        Fault::NotSsh { .. } => "greeting",
        Fault::NoCommonAlgorithm { .. } => "key exchange",
        Fault::HostKeyUnknown { .. }
        | Fault::HostCertificateRefused { .. }
        | Fault::HostKeyChanged(_)
        | Fault::HostKeyRevoked { .. } => "host key",
        Fault::AuthenticationRefused { .. }
        | Fault::TooManyKeys { .. }
        | Fault::MoreAuthentication { .. }
        | Fault::PasswordOnly { .. }
        | Fault::Unanswered { .. }
        | Fault::KeyUnusable { .. }
        | Fault::KeyEncrypted { .. }
        | Fault::NoJob { .. }
        | Fault::AccountRefused { .. }
        | Fault::AgentUnreachable { .. } => "login",
        Fault::ChannelRefused { .. } | Fault::CommandRefused => "channel",
        Fault::OnlySsh { .. } | Fault::NoKnownAlgorithm { .. } | Fault::BadConfiguration { .. } => {
            "configuration"
        }
        Fault::ByWayOf { .. }
        | Fault::GatewayCannotReach { .. }
        | Fault::GatewayForbids { .. }
        | Fault::ProxyCommandFailed { .. } => "way",
        Fault::SshProgram { .. } | Fault::ExecFailed { .. } | Fault::ProgramNotFound { .. } => {
            SSH_PROGRAM
        }
        Fault::Step { .. } => SRUN,
        Fault::SessionLost { .. } => step_name(last),
    }
}

const fn step_name(step: Step) -> &'static str {
    match step {
        Step::Configuration => "configuration",
        Step::Name => "name",
        Step::Connection => "connection",
        Step::Greeting => "greeting",
        Step::KeyExchange => "key exchange",
        Step::Login => "login",
        Step::Command => "channel",
    }
}

fn words(way: &Way) -> String {
    match way {
        Way::Direct => "direct".to_owned(),
        Way::Gateways(names) => format!("through {}", clean(&names.join(", then "), 400)),
        Way::Command(command) => format!("by the command {}", clean(command, 200)),
    }
}

fn judged(verdict: &Verdict, line: Option<&(std::path::PathBuf, usize)>) -> (Mark, String) {
    let place = |file: &std::path::Path, line: usize| {
        format!("{}:{line}", clean(&file.to_string_lossy(), 200))
    };
    match verdict {
        Verdict::Known => {
            let by =
                line.map_or_else(String::new, |(file, line)| format!(" by {}", place(file, *line)));
            (Mark::Ok, format!("known{by}"))
        }
        Verdict::Certified { file, line } => {
            (Mark::Ok, format!("certified by the authority in {}", place(file, *line)))
        }
        Verdict::Exempt => {
            (Mark::Ok, "not looked up, by NoHostAuthenticationForLocalhost".to_owned())
        }
        Verdict::Unknown => (Mark::Note, "in no known_hosts file".to_owned()),
        Verdict::Changed { file, line, .. } => {
            (Mark::Note, format!("not the one of {}", place(file, *line)))
        }
        Verdict::Revoked { file, line } => {
            let file = clean(&file.to_string_lossy(), 200);
            let line = line.map_or_else(String::new, |line| format!(":{line}"));
            (Mark::Note, format!("revoked in {file}{line}"))
        }
    }
}

fn attempt(what: &str, result: &Attempt) -> String {
    match result {
        Attempt::Accepted => format!("accepted: {what}"),
        Attempt::Partly => format!("accepted, but not enough: {what}"),
        Attempt::Refused => format!("refused: {what}"),
        Attempt::Skipped(why) => format!("not shown: {what} ({})", clean(why, 300)),
    }
}

/// Returns the little that is worth telling of a gateway.
fn brief(note: &Note) -> Option<String> {
    match note {
        Note::NoAnswer { address, why } => Some(format!("{address}: {why}")),
        Note::Connected(address) => Some(address.to_string()),
        Note::Greeting(text) => Some(text.clone()),
        Note::HostKey { algorithm, verdict, line, .. } => {
            Some(format!("host key {algorithm} {}", judged(verdict, line.as_ref()).1))
        }
        Note::Tried { what, result } => Some(attempt(what, result)),
        Note::LoggedIn { user } => Some(format!("logged in as {user}")),
        Note::Begins(_)
        | Note::Way(_)
        | Note::Gateway(_)
        | Note::GatewayEnd
        | Note::Through(_)
        | Note::Addresses(_)
        | Note::Agreed { .. }
        | Note::Offers(_)
        | Note::Beyond(_)
        | Note::Exec(_)
        | Note::Program(_)
        | Note::Master(_)
        | Note::NoMaster
        | Note::GatewayMaster { .. }
        | Note::StepOf(_)
        | Note::NoStep(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{JobId, NodeName};
    use crate::transport::{Profile, Reach, SshTarget, StepCause, Target};

    /// Returns the rows of these notes, a millisecond apart, as `mark step took: found | details`.
    fn told(notes: Vec<Note>, outcome: Result<Option<&str>, &Fault>) -> Vec<String> {
        let began = Instant::now();
        let after = |count: usize| began + Duration::from_millis(u64::try_from(count).unwrap());
        let ended = after(notes.len() + 1);
        let notes: Vec<_> = notes
            .into_iter()
            .enumerate()
            .map(|(place, note)| Noted { at: after(place + 1), note })
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
        let key = || Note::Tried { what: "id".to_owned(), result: Attempt::Accepted };
        let notes = vec![
            Note::Way(Way::Gateways(vec!["bastion".to_owned(), "login".to_owned()])),
            Note::Gateway("login".to_owned()),
            Note::Gateway("bastion".to_owned()),
            Note::Connected("192.0.2.1:22".parse().unwrap()),
            key(),
            Note::GatewayEnd,
            Note::Through("bastion".to_owned()),
            key(),
            Note::GatewayEnd,
            Note::Through("login".to_owned()),
            Note::Greeting("SSH-2.0-x".to_owned()),
        ];
        let fault = Fault::TimedOut { step: Step::KeyExchange, after: Duration::from_secs(1) };
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
        let step = || Note::StepOf(JobId::new("7").unwrap());
        assert_eq!(told(vec![step()], Ok(None))[0], "ok srun 1: a step of job 7 reaches it | ");
        let notes =
            vec![step(), Note::NoStep("Slurm refuses it".to_owned()), Note::Way(Way::Direct)];
        let rows = told(notes, Ok(None));
        assert_eq!(rows[0], "note srun 1: Slurm refuses it | tried: a step of job 7");
        assert!(rows.last().unwrap().starts_with("ok channel"), "{rows:?}");
        let refused = Fault::Step { cause: StepCause::Refused, says: String::new() };
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
        let step = vec![Note::Begins(Step::Login)];
        assert!(told(step, Err(&gone))[0].starts_with("FAILED login"));
    }
}
