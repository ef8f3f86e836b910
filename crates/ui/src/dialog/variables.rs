//! The editor of the variables of a run: their values with their types, and whether the job has taken them over.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::dialog::dialog_step::{DialogStep, ReplyStep};
use crate::dialog::output::OutputDialog;
use crate::input::{Key, NamedKey};
use crate::render_context::{RenderContext, Size};
use crate::request::UiRequest;
use crate::widgets::line::{Line, Tone};
use crate::widgets::line_editor::LineEditor;
use crate::widgets::list::{Movement, Viewport};
use crate::widgets::number_format::or_unknown;
use gtop_fleet::insight::runs::RunRow;
use gtop_local::text::width_of;
use gtop_model::training::variables::{
    Acknowledgement, acknowledgement, display, edit_text, parse_value, parse_variables,
};
use gtop_model::{
    RunId, RunList, RunReply, RunRequest, RunRequestError, RunResponse, RunVariable, RunVariables,
};

/// Maximum length of a value in bytes.
const MAX_VALUE_BYTES: usize = 2_000;
/// Columns of the widest name.
const MAX_NAME_WIDTH: u16 = 30;

/// The editor.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct VariablesDialog {
    run: RunId,
    title: Arc<str>,
    variables: RunVariables,
    acknowledged: Option<Arc<[RunVariable]>>,
    /// The selected variable, by name.
    selected: Option<Arc<str>>,
    step: EditStep,
    /// The control file's text before it was written here, which an older list still has.
    replaced: Option<Arc<str>>,
    /// The variables that were written here.
    written: Vec<Arc<str>>,
    message: Option<(String, Tone)>,
    is_readonly: bool,
    /// What the run prints, below the variables, if it is shown.
    output: Option<Box<OutputDialog>>,
}

#[derive(Clone, Debug, PartialEq)]
enum EditStep {
    Browse,
    /// A value is typed; with the control file's text when typing began.
    Edit(LineEditor, Arc<str>),
    /// A value was sent.
    Sent,
}

impl VariablesDialog {
    pub(crate) fn new(row: &RunRow, is_readonly: bool) -> Self {
        let run = &row.run;
        let progress = run.progress.as_ref();
        Self {
            run: run.id.clone(),
            title: row.title().into(),
            variables: run.variables.clone(),
            acknowledged: progress.and_then(|progress| progress.acknowledged.clone()),
            selected: run.variables.list.first().map(|variable| Arc::clone(&variable.name)),
            step: EditStep::Browse,
            replaced: None,
            written: Vec::new(),
            message: None,
            is_readonly,
            output: None,
        }
    }

    pub(crate) fn is_typing(&self) -> bool {
        matches!(self.step, EditStep::Edit(..)) || self.is_searching()
    }

    /// Returns true while a pattern for the output is typed.
    fn is_searching(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.is_typing())
    }

    /// Returns the output, if it is shown.
    pub(crate) fn output_mut(&mut self) -> Option<&mut OutputDialog> {
        self.output.as_deref_mut()
    }

    pub(crate) fn closing_requests(&self) -> Option<UiRequest> {
        self.output.as_ref().and_then(|output| output.closing_requests())
    }

    /// Shows the output, or hides it.
    fn toggle_output(&mut self) -> Option<UiRequest> {
        if self.output.is_some() {
            let closing = self.closing_requests();
            self.output = None;
            return closing;
        }
        let output = OutputDialog::new(self.run.clone(), Arc::clone(&self.title));
        self.output = Some(Box::new(output));
        Some(UiRequest::Runs(vec![RunRequest::OpenOutputs(self.run.clone())]))
    }

    /// Returns how many lines of the dialog are of the output: half of them.
    pub(crate) const fn output_rows(max_lines: usize) -> usize {
        max_lines / 2
    }

    /// Notes the newest values; what is being typed stays.
    pub(crate) fn on_list(&mut self, list: &RunList) {
        let Some(run) = list.runs.iter().find(|run| run.id == self.run) else { return };
        if self.replaced.is_none() || run.variables.text != self.replaced {
            self.variables = run.variables.clone();
            self.replaced = None;
        }
        let progress = run.progress.as_ref();
        self.acknowledged = progress.and_then(|progress| progress.acknowledged.clone());
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys are typed or mean nothing")]
    pub(crate) fn on_key(&mut self, key: Key) -> DialogStep {
        let EditStep::Edit(editor, base) = &mut self.step else { return self.browse(key) };
        match key {
            Key::Named(NamedKey::Escape) | Key::Control('c') => {
                self.step = EditStep::Browse;
                self.message = None;
            }
            Key::Named(NamedKey::Enter) => {
                let (typed, base) = (editor.text().to_owned(), Arc::clone(base));
                return self.submit(&typed, base);
            }
            key => {
                if editor.on_key(key) {
                    let typed = editor.text().to_owned();
                    self.validate(&typed);
                }
            }
        }
        ControlFlow::Continue(None)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys mean nothing here")]
    fn browse(&mut self, key: Key) -> DialogStep {
        if self.is_searching() {
            return self.press_in_output(key);
        }
        match key {
            Key::Named(NamedKey::Escape) | Key::Control('c') | Key::Letter('q' | 'e') => {
                return ControlFlow::Break(None);
            }
            Key::Named(NamedKey::Enter) if self.step == EditStep::Browse => self.edit(),
            Key::Letter('o') => return ControlFlow::Continue(self.toggle_output()),
            Key::Named(NamedKey::Up | NamedKey::Down) | Key::Letter('j' | 'k') => {
                self.select(key);
            }
            key if self.output.is_some() => return self.press_in_output(key),
            key => self.select(key),
        }
        ControlFlow::Continue(None)
    }

    fn select(&mut self, key: Key) {
        let Some(movement) = Movement::from_dialog_key(key) else { return };
        let list = &self.variables.list;
        let to = movement.new_index(self.position(), list.len(), 8);
        self.selected = list.get(to).map(|variable| Arc::clone(&variable.name));
    }

    /// Passes a key on to the output: to scroll and to search it, to follow it and to hide a stream.
    fn press_in_output(&mut self, key: Key) -> DialogStep {
        let Some(output) = &mut self.output else { return ControlFlow::Continue(None) };
        let request = output.on_key(key).continue_value().flatten();
        ControlFlow::Continue(request)
    }

    /// Begins to edit the selected variable.
    fn edit(&mut self) {
        if self.is_readonly {
            self.message = Some(("editing is disabled (--readonly)".to_owned(), Tone::Warn));
            return;
        }
        let Some((variable, base)) = self.current().cloned().zip(self.variables.text.clone())
        else {
            return;
        };
        self.message = None;
        self.step = EditStep::Edit(LineEditor::new(&edit_text(&variable), MAX_VALUE_BYTES), base);
    }

    /// Shows in place what is wrong with a value.
    fn validate(&mut self, typed: &str) {
        let Some(variable) = self.current() else { return };
        let error = parse_value(variable.kind, typed).err();
        self.message = error.map(|error| (error, Tone::Bad));
    }

    fn submit(&mut self, typed: &str, base: Arc<str>) -> DialogStep {
        let Some(variable) = self.current().cloned() else {
            self.step = EditStep::Browse;
            return ControlFlow::Continue(None);
        };
        match parse_value(variable.kind, typed) {
            Err(error) => {
                self.message = Some((error, Tone::Bad));
                ControlFlow::Continue(None)
            }
            Ok(json) if *json == *variable.json => {
                self.step = EditStep::Browse;
                self.message = Some(("unchanged".to_owned(), Tone::Faint));
                ControlFlow::Continue(None)
            }
            Ok(json) => {
                self.step = EditStep::Sent;
                self.message = Some((format!("writing {}…", variable.name), Tone::Faint));
                let (run, name) = (self.run.clone(), variable.name);
                let request = RunRequest::SetVariable { run, base, name, json };
                ControlFlow::Continue(Some(UiRequest::Runs(vec![request])))
            }
        }
    }

    /// Handles a reply; returns `None` if it is none of this dialog's.
    pub(crate) fn on_reply(&mut self, reply: &RunReply) -> Option<ReplyStep> {
        if let Some(step) = self.output.as_mut().and_then(|output| output.on_reply(reply)) {
            return Some(step.map_break(|reason| {
                self.output = None;
                reason
            }));
        }
        let RunRequest::SetVariable { run, base, name, .. } = &reply.request else { return None };
        if *run != self.run {
            return None;
        }
        self.step = EditStep::Browse;
        self.message = Some(match &reply.result {
            Ok(RunResponse::Changed(text)) => {
                // The new text is known before the next list.
                if let Ok(list) = parse_variables(text) {
                    let text = Some(Arc::clone(text));
                    self.replaced = Some(Arc::clone(base));
                    self.variables = RunVariables { text, list: list.into(), fault: None };
                }
                if !self.written.contains(name) {
                    self.written.push(Arc::clone(name));
                }
                (format!("{name} written"), Tone::Low)
            }
            Ok(_) => (format!("{name} written"), Tone::Low),
            Err(RunRequestError::Conflict) => {
                let text =
                    "someone else has changed the file; nothing was written, check the values";
                (text.to_owned(), Tone::Bad)
            }
            Err(error) => (format!("{name} was not written: {error}"), Tone::Bad),
        });
        Some(ControlFlow::Continue(None))
    }

    fn position(&self) -> usize {
        let mut names = self.variables.list.iter().map(|variable| &variable.name);
        names.position(|name| self.selected.as_ref() == Some(name)).unwrap_or(0)
    }

    fn current(&self) -> Option<&RunVariable> {
        self.variables.list.get(self.position())
    }

    pub(crate) fn lines(&self, context: RenderContext<'_>, size: Size) -> Vec<Line> {
        let (width, max_lines) = size;
        let Some(output) = &self.output else { return self.upper_lines(context, width, max_lines) };
        let rows = Self::output_rows(max_lines);
        let mut lines = self.upper_lines(context, width, max_lines - rows);
        lines.resize(max_lines - rows, Line::new());
        lines.extend(output.lines(width, rows));
        lines
    }

    /// Draws the variables.
    fn upper_lines(&self, context: RenderContext<'_>, width: u16, max_lines: usize) -> Vec<Line> {
        let mut lines = vec![self.title_line(context).truncated(width)];
        let message = self.message.as_ref();
        let message = message.map(|(text, tone)| Line::styled(text.as_str(), *tone));
        if let Some(fault) = &self.variables.fault {
            let text = format!("control file: {fault}");
            lines.push(Line::styled(text, Tone::Bad).truncated(width));
        }
        let list = &self.variables.list;
        if list.is_empty() {
            let text = "the run has no variables to edit (no control file, or an empty one)";
            lines.push(Line::styled(text, Tone::Faint).truncated(width));
        }
        let names = list.iter().map(|variable| width_of(&variable.name)).max().unwrap_or(0);
        let name_width = names.clamp(4, MAX_NAME_WIDTH.min((width / 3).max(4)));
        let room = max_lines.saturating_sub(lines.len() + usize::from(message.is_some()));
        let counts = (list.len(), Some(self.position()));
        Viewport::default().draw_below(&mut lines, None, counts, (width, room), |at| {
            Some(self.row(list.get(at)?, at == self.position(), name_width, width))
        });
        lines.extend(message.map(|line| line.truncated(width)));
        lines.truncate(max_lines);
        lines
    }

    fn row(&self, variable: &RunVariable, is_current: bool, name_width: u16, width: u16) -> Line {
        let line = Line::new()
            .gap(1)
            .left_aligned(&variable.name, name_width, Tone::Strong)
            .gap(1)
            .left_aligned(variable.kind.as_str(), 6, Tone::Faint)
            .gap(1);
        if let (EditStep::Edit(editor, _), true) = (&self.step, is_current) {
            let room = width.saturating_sub(line.width());
            return line.append(editor.line("", room));
        }
        let line = line.text(display(variable), Tone::Plain);
        let is_written = self.written.contains(&variable.name);
        let state = match acknowledgement(variable, self.acknowledged.as_deref()) {
            Acknowledgement::Done if is_written => ("taken over by the job", Tone::Low),
            Acknowledgement::Pending => ("pending", Tone::Warn),
            Acknowledgement::NotTold if is_written => {
                ("written; this job does not confirm it", Tone::Faint)
            }
            Acknowledgement::Done | Acknowledgement::NotTold => return line,
        };
        line.gap(2).text(state.0, state.1)
    }

    /// Returns the run, its process and what it uses.
    fn title_line(&self, context: RenderContext<'_>) -> Line {
        let line = Line::styled(format!("variables of {}", self.title), Tone::Strong);
        let runs = context.view.runs.as_ref();
        let row = runs.and_then(|runs| runs.rows.iter().find(|row| row.run.id == self.run));
        let Some(row) = row else { return line.text("  the run is gone", Tone::Warn) };
        let progress = row.run.progress.as_ref();
        let pid = or_unknown(progress.and_then(|progress| progress.pid), |pid| pid.to_string());
        let units = context.options.units();
        let resources = &row.resources;
        let rate = or_unknown(row.times.rate, |rate| format!("{rate:.2}"));
        let text = format!(
            "  {}  {rate} it/s  pid {pid}  CPU {}  RAM {}  GPU {}",
            row.status.as_str(),
            or_unknown(resources.cpu_percent, |percent| format!("{percent:.0}%")),
            or_unknown(resources.resident, |bytes| units.amount(bytes)),
            or_unknown(resources.device_memory, |bytes| units.amount(bytes)),
        );
        line.text(text, Tone::Faint)
    }

    pub(crate) fn hints(&self) -> &'static [(&'static str, &'static str)] {
        match (&self.step, &self.output) {
            (EditStep::Edit(..), _) => &[("Enter", "write"), ("Esc", "cancel")],
            (EditStep::Sent, _) => &[("Esc", "close")],
            (EditStep::Browse, Some(output)) if output.is_typing() => output.hints(),
            (EditStep::Browse, Some(_)) => &[
                ("↑ ↓", "move"),
                ("Enter", "edit"),
                ("o", "hide the output"),
                ("PgUp PgDn", "scroll it"),
                ("/ n N", "search"),
                ("1 2", "streams"),
                ("Esc", "close"),
            ],
            (EditStep::Browse, None) => {
                &[("↑ ↓", "move"), ("Enter", "edit"), ("o", "show the output"), ("Esc", "close")]
            }
        }
    }
}
