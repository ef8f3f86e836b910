//! The signal dialog: choice of the signal, confirmation, and results.
//!
//! A signal is sent only after a confirmation that lists every process. The node checks the identity of the
//! process again before it sends the signal.

use std::ops::ControlFlow;

use crate::dialog::dialog_step::DialogStep;
use crate::input::{Key, NamedKey};
use crate::process_target::{ProcessTarget, SignalTargets, short_command};
use crate::render_context::{RenderContext, Size};
use crate::request::{NodeReply, NodeRequest, UiRequest};
use crate::widgets::line::{Line, Tone};
use crate::widgets::list::{Movement, Viewport};
use crate::widgets::menu::Menu;
use crate::widgets::table::{Cell, Fade, Table, TableColumn, TableRoom};
use gtop_local::text::UNKNOWN;
use gtop_model::{ProcessRequest, RequestError, Signal};

/// Processes visible at once; the list scrolls.
const MAX_ROWS: usize = 10;

/// The dialog, from the choice of a signal to the replies of the nodes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SignalDialog {
    step: SignalStep,
    targets: Vec<(ProcessTarget, Option<Result<(), RequestError>>)>,
    /// The number of tagged processes that the filter hides; they get no signal.
    hidden: usize,
    viewport: Viewport,
}

#[derive(Clone, Debug, PartialEq)]
enum SignalStep {
    Choose(Menu<Signal>),
    Confirm(Signal),
    Sent(Signal),
}

impl SignalDialog {
    /// Opens the dialog at the choice of a signal, or at the confirmation if the signal is given.
    pub(crate) fn new(signal: Option<Signal>, targets: SignalTargets) -> Self {
        let SignalTargets { listed, hidden } = targets;
        let step = signal.map_or_else(|| SignalStep::Choose(menu(&listed)), SignalStep::Confirm);
        let targets = listed.into_iter().map(|target| (target, None)).collect();
        Self { step, targets, hidden, viewport: Viewport::default() }
    }

    pub(crate) fn on_key(&mut self, key: Key) -> DialogStep {
        if let SignalStep::Choose(menu) = &mut self.step {
            match menu.on_key(key) {
                ControlFlow::Break(None) => return ControlFlow::Break(None),
                ControlFlow::Break(Some(signal)) => self.step = SignalStep::Confirm(signal),
                ControlFlow::Continue(()) => {}
            }
            return ControlFlow::Continue(None);
        }
        match (key, &self.step) {
            (Key::Named(NamedKey::Escape) | Key::Control('c') | Key::Letter('q'), _)
            | (Key::Named(NamedKey::Enter), SignalStep::Sent(_)) => ControlFlow::Break(None),
            (Key::Named(NamedKey::Enter), SignalStep::Confirm(signal)) => {
                let signal = *signal;
                self.step = SignalStep::Sent(signal);
                ControlFlow::Continue(Some(UiRequest::SignalProcesses(self.requests(signal))))
            }
            (key, _) => {
                let (top, rows) = (self.viewport.top, self.viewport.rows);
                if let Some(step) = Movement::from_dialog_key(key) {
                    self.viewport.top = step.new_index(top, self.targets.len(), rows);
                }
                ControlFlow::Continue(None)
            }
        }
    }

    fn requests(&self, signal: Signal) -> Vec<NodeRequest> {
        let targets = self.targets.iter().map(|(target, _)| NodeRequest {
            node: target.node.clone(),
            process_request: ProcessRequest::Signal(target.key, signal),
        });
        targets.collect()
    }

    /// Handles a reply; the last success closes the dialog with a message. Returns `None` if it answers a request
    /// from elsewhere.
    pub(crate) fn on_reply(&mut self, reply: &NodeReply) -> Option<ControlFlow<String>> {
        let SignalStep::Sent(signal) = self.step else { return None };
        let ProcessRequest::Signal(key, sent) = reply.request.process_request else {
            return None;
        };
        let mut waiting = self.targets.iter_mut().filter(|(_, answer)| answer.is_none());
        let waiting_target =
            waiting.find(|(target, _)| sent == signal && target.matches(&reply.request.node, key));
        let (_, answer) = waiting_target?;
        *answer = Some(reply.result.as_ref().map(|_| ()).map_err(Clone::clone));
        if self.targets.iter().any(|(_, answer)| *answer != Some(Ok(()))) {
            return Some(ControlFlow::Continue(()));
        }
        let name = signal.name();
        Some(ControlFlow::Break(match self.targets.as_slice() {
            [(target, _)] => format!("{name} sent to {}", target.name()),
            all => format!("{name} sent to {} processes", all.len()),
        }))
    }

    pub(crate) fn lines(&self, context: RenderContext<'_>, size: Size) -> Vec<Line> {
        let (width, max_lines) = size;
        let signal = match &self.step {
            SignalStep::Choose(menu) => return menu.lines(width, max_lines.min(menu.height())),
            SignalStep::Confirm(signal) | SignalStep::Sent(signal) => *signal,
        };
        let count = self.targets.len();
        let count_text = if count == 1 { String::new() } else { format!("{count} processes") };
        let targets_text = if count == 1 { "this process" } else { &count_text };
        let title = match &self.step {
            SignalStep::Sent(_) => {
                Line::styled(format!("{} to {targets_text}", signal.name()), Tone::Strong)
            }
            SignalStep::Choose(_) | SignalStep::Confirm(_) => {
                let except = match self.hidden {
                    0 => String::new(),
                    count => format!(", leaving out {count} hidden by the filter"),
                };
                let question = format!("send {} to {targets_text}{except}?", signal.name());
                Line::styled(question, Tone::Warn).text("  Enter sends, Esc cancels", Tone::Faint)
            }
        };
        let mut lines = vec![title.truncated(width)];
        let rows = max_lines.saturating_sub(2).min(MAX_ROWS).min(count);
        let viewport = self.viewport.scrolled_to(rows, count, None);
        let columns = columns();
        let room = TableRoom::new(width, 0, 2);
        let table = Table::fit(&columns, TargetTable { is_wide: width >= 110 }, &[], room);
        if max_lines > 2 {
            lines.push(table.titles().truncated(width));
        }
        let mut last = viewport.top;
        for (target, answer) in self.targets.get(viewport.range(count)).unwrap_or_default() {
            let error = answer.as_ref().and_then(|answer| answer.as_ref().err());
            if lines.len() + 1 + usize::from(error.is_some()) > max_lines {
                break;
            }
            let row = (target, self.note(context, target, answer.as_ref()));
            lines.push(table.row(Line::new(), &row, Fade::None).truncated(width));
            lines.extend(error.map(|error| {
                Line::new().gap(11).text(error.to_string(), Tone::Bad).truncated(width)
            }));
            last += 1;
        }
        if last - viewport.top < count && lines.len() < max_lines {
            let text = format!("{}–{last} of {count}; ↑ ↓ scroll", viewport.top + 1);
            lines.push(Line::styled(text, Tone::Faint).truncated(width));
        }
        lines
    }

    /// Returns the number of lines that show everything.
    pub(crate) fn height(&self) -> usize {
        match &self.step {
            SignalStep::Choose(menu) => menu.height(),
            SignalStep::Confirm(_) | SignalStep::Sent(_) => {
                let count = self.targets.len();
                let failed =
                    self.targets.iter().filter(|(_, answer)| matches!(answer, Some(Err(_))));
                let reasons = failed.count().min(MAX_ROWS);
                2 + count.min(MAX_ROWS) + reasons + usize::from(count > MAX_ROWS)
            }
        }
    }

    /// Returns the note of a process: before sending, whether it can be signalled; afterwards, the result.
    fn note(
        &self,
        context: RenderContext<'_>,
        target: &ProcessTarget,
        answer: Option<&Result<(), RequestError>>,
    ) -> (String, Tone) {
        match (answer, &self.step) {
            (Some(Ok(())), _) => ("sent".to_owned(), Tone::Accent),
            (Some(Err(_)), _) => ("not sent".to_owned(), Tone::Bad),
            (None, SignalStep::Sent(_)) => ("waiting for the node".to_owned(), Tone::Faint),
            (None, SignalStep::Choose(_) | SignalStep::Confirm(_)) => {
                match (target.unsignalled_reason(context.view), target.is_ours) {
                    (Some(reason), _) => (reason.to_owned(), Tone::Bad),
                    (None, Some(false)) if target.is_reached_as_root(context.view) => {
                        let user = target.user.as_deref().unwrap_or(UNKNOWN);
                        (format!("{user}'s, signalled as root"), Tone::Bad)
                    }
                    (None, Some(false)) => {
                        ("not yours; only root may signal it".to_owned(), Tone::Warn)
                    }
                    (None, Some(true) | None) => (String::new(), Tone::Plain),
                }
            }
        }
    }

    /// Returns the key hints of the current step.
    pub(crate) fn hints(&self) -> &'static [(&'static str, &'static str)] {
        match &self.step {
            SignalStep::Choose(_) => &[("↑ ↓", "move"), ("Enter", "choose"), ("Esc", "cancel")],
            SignalStep::Confirm(_) => &[("↑ ↓", "scroll"), ("Enter", "send"), ("Esc", "cancel")],
            SignalStep::Sent(_) => &[("↑ ↓", "scroll"), ("Esc", "close")],
        }
    }
}

/// Builds the menu of signals; the common ones have a letter.
fn menu(targets: &[ProcessTarget]) -> Menu<Signal> {
    let targets_text = match targets {
        [one] => one.name(),
        all => format!("{} processes", all.len()),
    };
    let empty = Menu::new(format!("signal to {targets_text}"));
    let menu = Signal::ALL.into_iter().fold(empty, |menu, signal| {
        let label = format!("{:>2} SIG{}", signal.number(), signal.name());
        menu.with_item(signal, signal.key(), label, signal.help())
    });
    let gentlest = Signal::ALL.iter().position(|signal| *signal == Signal::Terminate);
    menu.with_cursor(gentlest.unwrap_or(0))
}

/// What cells are drawn from, apart from their process.
struct TargetTable {
    is_wide: bool,
}

/// A process and its note.
type TargetRow<'a> = (&'a ProcessTarget, (String, Tone));
type TargetColumn<'a> = TableColumn<TargetTable, TargetRow<'a>>;

const fn columns<'a>() -> [TargetColumn<'a>; 4] {
    [
        TargetColumn::right("PID", 9, |_, (target, _), _| {
            Cell::toned(target.key.pid.to_string(), Tone::Strong)
        }),
        TargetColumn::left("USER", 8, |_, (target, _), _| {
            target.user.as_deref().unwrap_or(UNKNOWN).to_owned().into()
        })
        .sized(|table, _| if table.is_wide { 12 } else { 8 }),
        TargetColumn::left("NODE", 10, |_, (target, _), _| target.node.label().to_owned().into())
            .sized(|table, _| if table.is_wide { 20 } else { 10 }),
        TargetColumn::rest("COMMAND", 0, |_, (target, note), place| {
            Cell::Line(command_and_note(target, note, place.width))
        })
        .sized(|_, room| room.max(1)),
    ]
}

fn command_and_note(target: &ProcessTarget, (note, tone): &(String, Tone), width: u16) -> Line {
    let command = short_command(&target.command, false);
    if note.is_empty() {
        return Line::styled(command, Tone::Plain);
    }
    let note = Line::styled(note.as_str(), *tone);
    // The reason why a signal cannot be sent matters more than the end of the command.
    let room = (width / 2).min(width.saturating_sub(2 + note.width()));
    Line::new().left_aligned(&command, room, Tone::Plain).gap(2).append(note)
}

/// Replies that arrive after the dialog was closed.
#[derive(Clone, Debug, Default)]
pub(crate) struct LateReplies {
    sent: usize,
    /// Description of the first failure and the number of further failures.
    failed: Option<(String, usize)>,
    at: gtop_local::time::Timestamp,
}

impl LateReplies {
    /// Counts a reply and returns a summary. After 10 seconds without a reply the count starts over.
    pub(crate) fn on_reply(&mut self, reply: &NodeReply, signal: Signal) -> String {
        if reply.at.since(self.at) > std::time::Duration::from_secs(10) {
            *self = Self::default();
        }
        self.at = reply.at;
        let ProcessRequest::Signal(key, _) = reply.request.process_request else {
            return String::new();
        };
        match &reply.result {
            Ok(_) => self.sent += 1,
            Err(error) => {
                let failure = format!("{} on {}: {error}", key.pid, reply.request.node.label());
                let failed = self.failed.take();
                self.failed =
                    Some(failed.map_or((failure, 0), |(first, others)| (first, others + 1)));
            }
        }
        let name = signal.name();
        match (&self.failed, self.sent) {
            (None, 1) => format!("{name} sent to {} on {}", key.pid, reply.request.node.label()),
            (None, sent) => format!("{name} sent to {sent} processes"),
            (Some((failure, 0)), 0) => format!("{name} not sent to {failure}"),
            (Some((failure, others)), sent) => {
                format!("{name} sent to {sent}, not to {}: {failure}", others + 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_local::time::Timestamp;
    use gtop_model::{NodeName, ProcessKey, ProcessResponse, Refusal};

    fn target(node: &str, pid: u32) -> ProcessTarget {
        ProcessTarget {
            node: NodeName::new(node).unwrap(),
            key: ProcessKey { pid, start_ticks: 9 },
            user: Some("alice".into()),
            command: "/usr/bin/python train.py".into(),
            is_ours: Some(true),
            is_on_device: true,
        }
    }

    fn reply(request: &NodeRequest, answer: Result<ProcessResponse, RequestError>) -> NodeReply {
        NodeReply { request: request.clone(), result: answer, at: Timestamp::default() }
    }

    /// Confirms the signal and returns the requests.
    fn sent(dialog: &mut SignalDialog) -> Vec<NodeRequest> {
        let ControlFlow::Continue(Some(UiRequest::SignalProcesses(requests))) =
            dialog.on_key(ENTER)
        else {
            panic!("nothing is sent")
        };
        requests
    }

    const ENTER: Key = Key::Named(NamedKey::Enter);

    #[test]
    fn nothing_is_sent_without_confirmation() {
        let mut dialog = SignalDialog::new(Some(Signal::Kill), vec![target("a", 1)].into());
        assert!(matches!(dialog.on_key(Key::Letter('y')), ControlFlow::Continue(None)));
        assert!(matches!(dialog.on_key(Key::Named(NamedKey::Escape)), ControlFlow::Break(None)));
        let requests = sent(&mut dialog);
        let question = ProcessRequest::Signal(ProcessKey { pid: 1, start_ticks: 9 }, Signal::Kill);
        assert_eq!(
            requests,
            [NodeRequest { node: NodeName::new("a").unwrap(), process_request: question }]
        );
        assert!(matches!(dialog.on_key(ENTER), ControlFlow::Break(None)), "it is sent once");
    }

    #[test]
    fn the_menu_leads_to_the_confirmation() {
        let mut dialog = SignalDialog::new(None, vec![target("a", 1)].into());
        assert!(matches!(dialog.on_key(Key::Letter('K')), ControlFlow::Continue(None)));
        let requests = sent(&mut dialog);
        assert!(matches!(requests[0].process_request, ProcessRequest::Signal(_, Signal::Kill)));
        // Enter on the menu chooses the least forceful signal that ends a process.
        let mut dialog = SignalDialog::new(None, vec![target("a", 1)].into());
        assert!(dialog.on_key(ENTER).is_continue());
        let requests = sent(&mut dialog);
        assert!(matches!(
            requests[0].process_request,
            ProcessRequest::Signal(_, Signal::Terminate)
        ));
    }

    #[test]
    fn each_process_has_its_own_reply_and_failures_stay_on_the_screen() {
        let mut dialog =
            SignalDialog::new(Some(Signal::Terminate), vec![target("a", 1), target("b", 1)].into());
        let requests = sent(&mut dialog);
        assert_eq!(
            dialog.on_reply(&reply(&requests[1], Ok(ProcessResponse::Sent))),
            Some(ControlFlow::Continue(()))
        );
        // The process with the same pid on the other node is still waiting.
        let answered: Vec<bool> =
            dialog.targets.iter().map(|(_, answer)| answer.is_some()).collect();
        assert_eq!(answered, [false, true]);
        let elsewhere = NodeRequest { node: NodeName::new("c").unwrap(), ..requests[0].clone() };
        assert_eq!(dialog.on_reply(&reply(&elsewhere, Ok(ProcessResponse::Sent))), None);
        let refused = Err(RequestError::from(Refusal::Gone));
        assert_eq!(dialog.on_reply(&reply(&requests[0], refused)), Some(ControlFlow::Continue(())));
        let again = dialog.on_reply(&reply(&requests[0], Ok(ProcessResponse::Sent)));
        assert_eq!(again, None, "nobody asked twice");
    }

    #[test]
    fn success_is_reported_in_one_sentence() {
        let mut dialog =
            SignalDialog::new(Some(Signal::Terminate), vec![target("gpu03", 41)].into());
        let requests = sent(&mut dialog);
        let Some(ControlFlow::Break(text)) =
            dialog.on_reply(&reply(&requests[0], Ok(ProcessResponse::Sent)))
        else {
            panic!()
        };
        assert_eq!(text, "TERM sent to 41 python train.py of alice on gpu03");
    }

    #[test]
    fn late_replies_are_summarised_and_failures_named() {
        let request = |pid| NodeRequest {
            node: NodeName::new("a").unwrap(),
            process_request: ProcessRequest::Signal(
                ProcessKey { pid, start_ticks: 9 },
                Signal::Kill,
            ),
        };
        let mut late = LateReplies::default();
        let mut on_reply = |pid, answer| late.on_reply(&reply(&request(pid), answer), Signal::Kill);
        assert_eq!(on_reply(1, Ok(ProcessResponse::Sent)), "KILL sent to 1 on a");
        assert_eq!(on_reply(2, Ok(ProcessResponse::Sent)), "KILL sent to 2 processes");
        let gone = || Err(RequestError::from(Refusal::Gone));
        assert_eq!(on_reply(3, gone()), "KILL sent to 2, not to 1: 3 on a: the process has ended");
        assert_eq!(on_reply(4, gone()), "KILL sent to 2, not to 2: 3 on a: the process has ended");
    }
}
