//! Turns the trace of a connection into the steps of a report.

use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use crate::doctor::page::PAGE;
use crate::doctor::{StepResult, StepStatus};
use gtop_collect::transport;
use gtop_fleet::advice::{self, Known};
use gtop_local::text::excerpt;
use gtop_ssh::{
    ConnectEvent, ConnectPhase, CredentialOutcome, HostKeyStatus, Origin, RouteSummary, TracedEvent,
};

/// Maximum length of an error message, in characters.
const MAX_LINE_CHARS: usize = 900;

/// Name of the step for the ssh program.
const SSH_PROGRAM: &str = "ssh program";

/// Name of the step for a master connection that the user has opened.
const MASTER: &str = "master";

/// Name of the step for the login shell.
const LOGIN_SHELL: &str = "login shell";

/// Name of the step for a job step.
const SRUN: &str = "srun";

/// Start and end of a connection attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Period {
    pub(super) began: Instant,
    pub(super) ended: Instant,
}

/// Returns an error message on one line, without control characters.
pub(super) fn fault_text(fault: &transport::Fault) -> String {
    excerpt(&fault.to_string(), MAX_LINE_CHARS)
}

/// Adds the steps of a connection. `outcome` holds the banner shown before login, or the error.
pub(super) fn add_steps(
    events: &[TracedEvent],
    period: Period,
    outcome: Result<Option<&str>, &transport::Fault>,
    known: &Known,
    steps: &mut Vec<StepResult>,
) {
    let mut builder = StepBuilder {
        steps,
        last_step_end: period.began,
        gateways: Vec::new(),
        failed_addresses: Vec::new(),
        offered_methods: Vec::new(),
        attempts: Vec::new(),
        phase: ConnectPhase::Configuration,
        program: None,
    };
    for event in events {
        builder.on_event(event);
    }
    match outcome {
        Ok(banner) => builder.finish(period.ended, banner),
        Err(fault) => builder.fail(period.ended, fault, known),
    }
}

/// A jump host while the connection to it is set up.
struct Hop {
    name: String,
    began: Instant,
    findings: Vec<String>,
}

/// Builds the steps from the events of the trace.
struct StepBuilder<'a> {
    steps: &'a mut Vec<StepResult>,
    /// End of the last step.
    last_step_end: Instant,
    gateways: Vec<Hop>,
    /// Addresses that could not be connected to.
    failed_addresses: Vec<String>,
    offered_methods: Vec<String>,
    attempts: Vec<String>,
    phase: ConnectPhase,
    /// The step that stands for the whole connection, when a program sets it up.
    program: Option<&'static str>,
}

impl StepBuilder<'_> {
    fn take_elapsed(&mut self, at: Instant) -> Duration {
        let took = at.saturating_duration_since(self.last_step_end);
        self.last_step_end = at;
        took
    }

    fn push_step(&mut self, at: Instant, row: StepResult) {
        let took = self.take_elapsed(at);
        self.steps.push(row.with_duration(took));
    }

    fn find_step(&mut self, step: &str) -> Option<&mut StepResult> {
        self.steps.iter_mut().rev().find(|row| row.step == step)
    }

    fn on_event(&mut self, event: &TracedEvent) {
        let TracedEvent { at, event } = event;
        if let ConnectEvent::GatewayStarted(name) = event {
            self.gateways.push(Hop { name: name.clone(), began: *at, findings: Vec::new() });
        } else if *event == ConnectEvent::GatewayFinished {
            self.on_gateway_finished(*at);
        } else if let Some(hop) = self.gateways.last_mut() {
            hop.findings.extend(gateway_text(event));
        } else {
            self.on_node_event(*at, event);
        }
    }

    fn on_gateway_finished(&mut self, at: Instant) {
        let Some(Hop { name, began, findings }) = self.gateways.pop() else { return };
        let took = at.saturating_duration_since(began).as_millis();
        let line = format!("{name}: {} ({took} ms)", findings.join(", "));
        // The time for a nested jump host counts for the outer one only.
        let took = self.gateways.is_empty().then(|| self.take_elapsed(at));
        if let Some(row) = self.find_step("route") {
            row.details.push(line);
            row.duration = took.or(row.duration);
        }
    }

    fn on_host_key(&mut self, at: Instant, event: &ConnectEvent) {
        let ConnectEvent::HostKey { algorithm, fingerprint, status, line, certificate_problem } =
            event
        else {
            return;
        };
        self.push_step(at, StepResult::ok("key exchange", "agreed"));
        let (status, text) = host_key_text(status, line.as_ref());
        let problem = certificate_problem.iter().map(|why| format!("its certificate {why}"));
        let finding = format!("{algorithm} {fingerprint}, {text}");
        let row = StepResult::new("host key", status, finding);
        self.steps.push(row.with_details(problem.collect()));
    }

    fn on_node_event(&mut self, at: Instant, event: &ConnectEvent) {
        match event {
            ConnectEvent::PhaseStarted(phase) => {
                if *phase == ConnectPhase::Command {
                    self.last_step_end = at;
                }
                self.phase = *phase;
            }
            ConnectEvent::Route(route) => self.on_route(at, route),
            ConnectEvent::GatewayConnected(gateway) => {
                let took = self.take_elapsed(at);
                if let Some(row) = self.find_step("connection") {
                    row.status = StepStatus::Ok;
                    row.finding = format!("connected by {gateway}");
                    row.duration = Some(took);
                }
            }
            ConnectEvent::Resolved(addresses) => {
                let texts: Vec<_> = addresses.iter().map(|a| a.ip().to_string()).collect();
                self.push_step(at, StepResult::ok("name", texts.join(", ")));
            }
            ConnectEvent::ConnectFailed { address, why } => {
                self.failed_addresses.push(format!("{address}: {why}"));
            }
            ConnectEvent::Connected(address) => {
                let status = if self.failed_addresses.is_empty() {
                    StepStatus::Ok
                } else {
                    StepStatus::Note
                };
                let row = StepResult::new("connection", status, format!("{address} answers"));
                let row = row.with_details(std::mem::take(&mut self.failed_addresses));
                self.push_step(at, row);
            }
            ConnectEvent::ServerVersion(text) => {
                let status =
                    if text.starts_with("SSH-") { StepStatus::Ok } else { StepStatus::Note };
                self.push_step(at, StepResult::new("banner", status, text.clone()));
            }
            ConnectEvent::Negotiated { exchange, cipher, mac } => {
                self.set_algorithms(exchange, cipher, mac);
            }
            ConnectEvent::HostKey { .. } => self.on_host_key(at, event),
            ConnectEvent::OfferedMethods(methods) => self.offered_methods.clone_from(methods),
            ConnectEvent::CredentialTried { what, outcome: result } => {
                self.attempts.push(attempt_text(what, result));
            }
            ConnectEvent::LoggedIn { user } => {
                let row = StepResult::ok("login", format!("as {user}"));
                let row = row.with_details(self.take_attempts());
                self.push_step(at, row);
            }
            ConnectEvent::Fallback(fault) => {
                let row = StepResult::note("built-in SSH", excerpt(fault, MAX_LINE_CHARS));
                let row = row.with_details(self.take_attempts());
                self.push_step(at, row);
            }
            ConnectEvent::Delegated { to, what } => {
                self.delegate(at, to, excerpt(what, MAX_LINE_CHARS));
            }
            ConnectEvent::MasterFound(socket) => {
                let finding = format!("open at {}", path_text(socket));
                self.push_step(at, StepResult::ok(MASTER, finding));
            }
            ConnectEvent::MasterMissing => {
                let finding = "no master connection is open; one avoids repeated login prompts (see ControlPath)";
                self.push_step(at, StepResult::not_applicable(MASTER, finding));
            }
            ConnectEvent::GatewayMaster { gateway, socket } => {
                let socket = path_text(socket);
                if let Some(row) = self.find_step("route") {
                    row.details.push(format!("{gateway}: over its master connection at {socket}"));
                }
            }
            ConnectEvent::DelegateFailed(fault) => self.on_job_step_failed(at, fault),
            ConnectEvent::GatewayStarted(_) | ConnectEvent::GatewayFinished => {}
        }
    }

    fn on_job_step_failed(&mut self, at: Instant, fault: &str) {
        self.program = None;
        let tried =
            self.steps.extract_if(.., |row| row.step == SRUN && row.status == StepStatus::Ok);
        let tried = tried.map(|row| format!("tried: {}", row.finding)).collect();
        self.push_step(
            at,
            StepResult::note(SRUN, excerpt(fault, MAX_LINE_CHARS)).with_details(tried),
        );
    }

    fn on_route(&mut self, at: Instant, route: &RouteSummary) {
        self.push_step(at, StepResult::ok("route", route_text(route)));
        let reason = match route {
            RouteSummary::Direct => return,
            RouteSummary::Command(_) => "done by the command",
            RouteSummary::Gateways(_) => "done by the gateway",
        };
        self.steps.push(StepResult::not_applicable("name", reason));
        self.steps.push(StepResult::not_applicable("connection", reason));
    }

    /// Records the negotiated algorithms.
    fn set_algorithms(&mut self, exchange: &str, cipher: &str, mac: &str) {
        if let Some(row) = self.find_step("key exchange") {
            // AEAD ciphers have no MAC; the negotiated name is meaningless then.
            let mac = if cipher.contains("gcm") || cipher.contains("poly1305") {
                String::new()
            } else {
                format!(", {mac}")
            };
            row.finding = format!("{exchange}, {cipher}{mac}");
        }
        // A completed key exchange means that the host key was accepted.
        if let Some(row) = self.find_step("host key").filter(|row| row.status == StepStatus::Note) {
            row.finding.push_str("; accepted by StrictHostKeyChecking");
        }
    }

    /// Records that a program sets up the rest of the connection.
    fn delegate(&mut self, at: Instant, step: &'static str, finding: String) {
        self.program = Some(step);
        self.last_step_end = at;
        self.steps.push(StepResult::ok(step, finding));
    }

    /// Returns the login methods that the node offers, and the credentials that were tried.
    fn take_attempts(&mut self) -> Vec<String> {
        let offers = std::mem::take(&mut self.offered_methods);
        let offers = (!offers.is_empty()).then(|| format!("node offers: {}", offers.join(", ")));
        offers.into_iter().chain(std::mem::take(&mut self.attempts)).collect()
    }

    fn finish(mut self, ended: Instant, banner: Option<&str>) {
        let took = self.take_elapsed(ended);
        if let Some(step) = self.program {
            if let Some(row) = self.find_step(step) {
                row.duration = Some(took);
                if matches!(step, SRUN | SSH_PROGRAM) {
                    row.finding.insert_str(0, "connected by ");
                }
            }
            return;
        }
        let banner = banner.and_then(|text| text.lines().find(|line| !line.trim().is_empty()));
        let details = banner.map(|line| format!("login banner: {}", excerpt(line.trim(), 200)));
        let row = StepResult::ok("channel", "open, command started");
        self.steps.push(row.with_duration(took).with_details(details.into_iter().collect()));
    }

    fn fail(mut self, ended: Instant, fault: &transport::Fault, known: &Known) {
        let took = self.take_elapsed(ended);
        while !self.gateways.is_empty() {
            self.on_gateway_finished(ended);
        }
        let step = self.program.unwrap_or_else(|| step_of(fault, self.phase));
        let mut details = std::mem::take(&mut self.failed_addresses);
        if step == "login" {
            details.extend(self.take_attempts());
        }
        // Steps after the failed one were not reached: drops their "not applicable" rows.
        if let Some(position) = self.steps.iter().position(|row| row.step == step) {
            let mut rest = self.steps.split_off(position + 1);
            rest.retain(|row| row.status != StepStatus::NotApplicable);
            self.steps.append(&mut rest);
            if let Some(row) = self.steps.get_mut(position) {
                if row.status != StepStatus::NotApplicable {
                    let finding = std::mem::take(&mut row.finding);
                    let is_program = self.program == Some(step);
                    let finding = if is_program { format!("tried: {finding}") } else { finding };
                    row.details.insert(0, finding);
                }
                row.details.extend(details);
            }
        } else {
            self.steps.push(StepResult::failed(step, "").with_details(details));
        }
        if let Some(row) = self.find_step(step) {
            row.status = StepStatus::Failed;
            row.finding = fault_text(fault);
            row.remedy = Some(advice::of_cause(fault, known).text());
            row.duration = row.duration.or(Some(took)).max(Some(took));
        }
    }
}

/// Returns the name of the step that the error belongs to.
fn step_of(fault: &transport::Fault, last: ConnectPhase) -> &'static str {
    match fault {
        transport::Fault::Ssh(fault) => fault.step().unwrap_or(last.step()),
        transport::Fault::ExecFailed { .. } => SSH_PROGRAM,
        transport::Fault::JobStep { .. } => SRUN,
        transport::Fault::Loader { .. } => LOGIN_SHELL,
        transport::Fault::Scrape(_) => PAGE,
    }
}

fn route_text(route: &RouteSummary) -> String {
    match route {
        RouteSummary::Direct => "direct".to_owned(),
        RouteSummary::Gateways(names) => {
            format!("through {}", excerpt(&names.join(", then "), MAX_LINE_CHARS))
        }
        RouteSummary::Command(command) => {
            format!("by command {}", excerpt(command, MAX_LINE_CHARS))
        }
    }
}

fn path_text(path: &Path) -> String {
    excerpt(&path.to_string_lossy(), MAX_LINE_CHARS)
}

fn host_key_text(status: &HostKeyStatus, line: Option<&Origin>) -> (StepStatus, String) {
    match status {
        HostKeyStatus::Known => {
            let by = line.map(|line| format!(" by {line}"));
            (StepStatus::Ok, format!("known{}", by.unwrap_or_default()))
        }
        HostKeyStatus::Certified { at } => (StepStatus::Ok, format!("certified by the CA in {at}")),
        HostKeyStatus::Exempt => {
            (StepStatus::Ok, "not checked (NoHostAuthenticationForLocalhost)".to_owned())
        }
        HostKeyStatus::Unknown => (StepStatus::Note, "not in any known_hosts file".to_owned()),
        HostKeyStatus::Changed { at, .. } => (StepStatus::Note, format!("differs from {at}")),
        HostKeyStatus::Revoked { at } => (StepStatus::Note, format!("revoked in {at}")),
    }
}

fn attempt_text(what: &str, result: &CredentialOutcome) -> String {
    match result {
        CredentialOutcome::Accepted => format!("accepted: {what}"),
        CredentialOutcome::Partial => format!("accepted, more required: {what}"),
        CredentialOutcome::Refused => format!("refused: {what}"),
        CredentialOutcome::Skipped(why) => format!("not offered: {what} ({})", excerpt(why, 300)),
    }
}

/// Returns a short text for an event of a jump host; `None` if it is not reported.
fn gateway_text(event: &ConnectEvent) -> Option<String> {
    if let ConnectEvent::ConnectFailed { address, why } = event {
        Some(format!("{address}: {why}"))
    } else if let ConnectEvent::Connected(address) = event {
        Some(address.to_string())
    } else if let ConnectEvent::ServerVersion(text) = event {
        Some(text.clone())
    } else if let ConnectEvent::HostKey { algorithm, status, line, .. } = event {
        Some(format!("host key {algorithm} {}", host_key_text(status, line.as_ref()).1))
    } else if let ConnectEvent::CredentialTried { what, outcome } = event {
        Some(attempt_text(what, outcome))
    } else if let ConnectEvent::LoggedIn { user } = event {
        Some(format!("logged in as {user}"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_collect::transport::StepCause;
    use gtop_ssh::Fault;

    /// Returns the steps for these events, one millisecond apart, as `status step duration: finding | details`.
    fn steps_of(
        events: Vec<ConnectEvent>,
        outcome: Result<Option<&str>, &transport::Fault>,
    ) -> Vec<String> {
        let began = Instant::now();
        let after = |count: usize| began + Duration::from_millis(u64::try_from(count).unwrap());
        let ended = after(events.len() + 1);
        let events: Vec<_> = events
            .into_iter()
            .enumerate()
            .map(|(index, note)| TracedEvent { at: after(index + 1), event: note })
            .collect();
        let mut steps = Vec::new();
        add_steps(
            &events,
            Period { began, ended },
            outcome,
            &Known::new("gpu01", None, "gpu01", None),
            &mut steps,
        );
        let line = |row: &StepResult| {
            let took = row.duration.map_or(0, |took| took.as_millis());
            let details = row.details.join(" | ");
            format!("{} {} {took}: {} | {details}", row.status.words().0, row.step, row.finding)
        };
        steps.iter().map(line).collect()
    }

    #[test]
    fn events_of_gateways_belong_to_the_gateway_and_not_to_the_node() {
        let key = || ConnectEvent::CredentialTried {
            what: "id".to_owned(),
            outcome: CredentialOutcome::Accepted,
        };
        let events = vec![
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
            Fault::TimedOut { phase: ConnectPhase::KeyExchange, after: Duration::from_secs(1) };
        let rows = steps_of(events, Err(&fault.into()));
        let expected = [
            "ok route 8: through bastion, then login | bastion: 192.0.2.1:22, accepted: id (3 ms) | login: accepted: id (7 ms)",
            "- name 0: done by the gateway | ",
            "ok connection 1: connected by login | ",
            "ok banner 1: SSH-2.0-x | ",
        ];
        assert_eq!(rows[..4], expected);
        assert!(
            rows[4].starts_with("FAILED key exchange 1: timed out exchanging keys"),
            "{rows:?}"
        );
        assert_eq!(rows.len(), 5);
    }

    #[test]
    fn a_job_step_has_a_row_if_it_connects_and_if_it_fails() {
        let step = || ConnectEvent::Delegated { to: SRUN, what: "a step of job 7".to_owned() };
        assert_eq!(
            steps_of(vec![step()], Ok(None))[0],
            "ok srun 1: connected by a step of job 7 | "
        );
        let events = vec![
            step(),
            ConnectEvent::DelegateFailed("it is refused".to_owned()),
            ConnectEvent::Route(RouteSummary::Direct),
        ];
        let rows = steps_of(events, Ok(None));
        assert_eq!(rows[0], "note srun 1: it is refused | tried: a step of job 7");
        assert!(rows.last().unwrap().starts_with("ok channel"), "{rows:?}");
        let refused =
            transport::Fault::JobStep { cause: StepCause::Refused, message: String::new() };
        let rows = steps_of(vec![step()], Err(&refused));
        assert!(rows[0].starts_with("FAILED srun 1: ") && rows.len() == 1, "{rows:?}");
        assert!(
            rows[0].ends_with(" | tried: a step of job 7"),
            "not reported as connected: {rows:?}"
        );
    }

    #[test]
    fn a_fault_without_any_event_belongs_to_a_step() {
        let gone = Fault::SessionLost { why: "this program is exiting".to_owned() }.into();
        let rows = steps_of(Vec::new(), Err(&gone));
        assert!(rows[0].starts_with("FAILED configuration"), "{rows:?}");
        let step = vec![ConnectEvent::PhaseStarted(ConnectPhase::Login)];
        assert!(steps_of(step, Err(&gone))[0].starts_with("FAILED login"));
    }
}
