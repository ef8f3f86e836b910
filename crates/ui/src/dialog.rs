//! Modal dialogs: while one is open, it receives every key.

use crate::action::{Action, SortAction};
use crate::clipboard::Clip;
use crate::dialog::delete::DeleteDialog;
use crate::dialog::dialog_step::{DialogStep, ReplyStep};
use crate::dialog::explain::ExplanationDialog;
use crate::dialog::host_keys::HostKeyDialog;
use crate::dialog::output::OutputDialog;
use crate::dialog::run_filter::RunFilter;
use crate::dialog::setup::Setup;
use crate::dialog::signal::SignalDialog;
use crate::dialog::variables::VariablesDialog;
use crate::input::Key;
use crate::render_context::{RenderContext, Size};
use crate::request::UiRequest;
use crate::widgets::line::Line;
use crate::widgets::menu::Menu;
use gtop_fleet::query::{SortColumn, SortOrder};
use gtop_model::{RunReply, RunRequest};

pub(crate) mod delete;
mod dialog_step;
pub(crate) mod explain;
pub(crate) mod host_keys;
pub(crate) mod output;
pub(crate) mod run_filter;
pub(crate) mod setup;
pub(crate) mod signal;
pub(crate) mod variables;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Dialog {
    /// A menu of actions, with what Enter does to one.
    Menu(Menu<Action>, &'static str),
    /// The setup screen.
    Setup(Setup),
    /// The dialog that selects a signal and asks for confirmation.
    Signal(Box<SignalDialog>),
    /// The prompt for a part of the names of runs.
    RunFilter(RunFilter),
    /// The editor of the variables of a run.
    Variables(Box<VariablesDialog>),
    /// The output of a run.
    Output(Box<OutputDialog>),
    /// What deleting a run removes, and the confirmation.
    Delete(Box<DeleteDialog>),
    /// The explanation of a row.
    Explanation(Box<ExplanationDialog>),
    /// The question about hosts that are not known.
    HostKeys(Box<HostKeyDialog>),
}

impl Dialog {
    /// Makes the sort menu, the cursor on the current column. If `reverses`, uppercase letters sort in reverse.
    pub(crate) fn sort(order: SortOrder, columns: &[SortColumn], reverses: bool) -> Self {
        let menu = columns.iter().fold(Menu::new("sort by"), |menu, column| {
            let is_current = column.name == order.column;
            let state = match (is_current, order.is_reversed, reverses) {
                (false, ..) => "",
                (true, false, false) => "current; press again to reverse",
                (true, true, false) => "current, reversed; press again to undo",
                (true, false, true) => "current",
                (true, true, true) => "current, reversed",
            };
            let order = SortOrder::by(column.name);
            let sort = if reverses { SortAction::Set(order) } else { SortAction::By(column.name) };
            let menu = menu.with_item(Action::Sort(sort), Some(column.key), column.label, state);
            match (reverses, is_current) {
                (true, _) => {
                    let order = SortOrder { is_reversed: true, ..order };
                    menu.with_uppercase(Action::Sort(SortAction::Set(order)))
                }
                (false, true) => menu.with_question(format!(
                    "reverse the order? Press {} or Enter again",
                    column.key
                )),
                (false, false) => menu,
            }
        });
        let current = columns.iter().position(|column| column.name == order.column);
        Self::Menu(menu.with_cursor(current.unwrap_or(0)), "choose")
    }

    /// Makes the menu of what can be copied.
    pub(crate) fn copy(clips: Vec<Clip>) -> Self {
        let menu = clips.into_iter().fold(Menu::new("copy"), |menu, clip| {
            let (key, what, excerpt) = (clip.key, clip.what, clip.excerpt());
            menu.with_item(Action::CopyText(clip), Some(key), what, excerpt)
        });
        Self::Menu(menu, "copy")
    }

    pub(crate) fn on_key(&mut self, key: Key) -> DialogStep {
        match self {
            Self::Menu(menu, _) => menu.on_key(key).map_continue(|()| None),
            Self::Setup(setup) => setup.on_key(key),
            Self::Signal(dialog) => dialog.on_key(key),
            Self::RunFilter(prompt) => prompt.on_key(key),
            Self::Variables(dialog) => dialog.on_key(key),
            Self::Output(dialog) => dialog.on_key(key),
            Self::Delete(dialog) => dialog.on_key(key),
            Self::Explanation(dialog) => dialog.on_key(key),
            Self::HostKeys(dialog) => dialog.on_key(key),
        }
    }

    /// Returns true while a line is typed.
    pub(crate) fn is_typing(&self) -> bool {
        match self {
            Self::Setup(setup) => setup.is_typing(),
            Self::RunFilter(_) => true,
            Self::Variables(dialog) => dialog.is_typing(),
            Self::Output(dialog) => dialog.is_typing(),
            Self::HostKeys(dialog) => dialog.is_typing(),
            Self::Menu(..) | Self::Signal(_) | Self::Delete(_) | Self::Explanation(_) => false,
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other dialogs request nothing")]
    /// Returns the request that an opened dialog makes.
    pub(crate) fn opening_request(&self) -> Option<UiRequest> {
        let request = match self {
            Self::Delete(dialog) => RunRequest::PlanDeletion(dialog.run().clone()),
            Self::Output(dialog) => RunRequest::OpenOutputs(dialog.run().clone()),
            Self::HostKeys(dialog) => return dialog.opening_request(),
            _ => return None,
        };
        Some(UiRequest::Runs(vec![request]))
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other dialogs request nothing")]
    /// Returns the requests that a dialog makes when it is closed.
    pub(crate) fn closing_requests(&self) -> Option<UiRequest> {
        match self {
            Self::Output(dialog) => dialog.closing_requests(),
            Self::Variables(dialog) => dialog.closing_requests(),
            Self::HostKeys(dialog) => dialog.closing_request(),
            _ => None,
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other dialogs show no output")]
    /// Returns the output of a run that is shown, and its height in a dialog of `max_lines`.
    pub(crate) fn output_mut(&mut self, max_lines: usize) -> Option<(&mut OutputDialog, usize)> {
        match self {
            Self::Output(dialog) => Some((dialog, max_lines)),
            Self::Variables(dialog) => {
                dialog.output_mut().map(|output| (output, VariablesDialog::output_rows(max_lines)))
            }
            _ => None,
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other dialogs request nothing of runs")]
    /// Handles the reply to a request about runs; a text closes the dialog and is shown. Returns `None` if the request
    /// was none of this dialog's.
    pub(crate) fn on_run_reply(&mut self, reply: &RunReply) -> Option<ReplyStep> {
        match self {
            Self::Delete(dialog) => dialog.on_reply(reply),
            Self::Variables(dialog) => dialog.on_reply(reply),
            Self::Output(dialog) => dialog.on_reply(reply),
            _ => None,
        }
    }

    /// Draws the dialog below a horizontal rule.
    pub(crate) fn lines(&self, context: RenderContext<'_>, size: Size) -> Vec<Line> {
        let (width, max_lines) = size;
        let room = max_lines.saturating_sub(1);
        let mut lines = vec![Line::new().rule(width)];
        lines.extend(match self {
            Self::Menu(menu, _) => menu.lines(width, room.min(menu.height())),
            Self::Setup(setup) => setup.lines(width, room),
            Self::Signal(dialog) => dialog.lines(context, (width, room.min(dialog.height()))),
            Self::RunFilter(prompt) => prompt.lines(width),
            Self::Variables(dialog) => dialog.lines(context, (width, room)),
            Self::Output(dialog) => dialog.lines(width, room),
            Self::Delete(dialog) => dialog.lines(width, room),
            Self::Explanation(dialog) => dialog.lines(context.view.now, width, room),
            Self::HostKeys(dialog) => dialog.lines(width, room),
        });
        lines.truncate(max_lines);
        lines
    }

    /// Returns the key hints of the dialog.
    pub(crate) fn hints(&self) -> Vec<(String, &'static str)> {
        let hints: &[(&str, &'static str)] = match self {
            Self::Menu(menu, verb) if menu.has_uppercase() => {
                &[("↑ ↓", "move"), ("Enter", verb), ("uppercase", "reverse"), ("Esc", "close")]
            }
            Self::Menu(_, verb) => &[("↑ ↓", "move"), ("Enter", verb), ("Esc", "close")],
            Self::Setup(setup) => setup.hints(),
            Self::Signal(dialog) => dialog.hints(),
            Self::RunFilter(_) => &[("Enter", "show"), ("Esc", "cancel")],
            Self::Variables(dialog) => dialog.hints(),
            Self::Output(dialog) => dialog.hints(),
            Self::Delete(dialog) => dialog.hints(),
            Self::HostKeys(dialog) => dialog.hints(),
            Self::Explanation(dialog) => dialog.hints(),
        };
        hints.iter().map(|(key, meaning)| ((*key).to_owned(), *meaning)).collect()
    }
}
