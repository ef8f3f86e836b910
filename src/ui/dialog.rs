//! Modal dialogs: while one is open, it receives every key.

use std::ops::ControlFlow;

use crate::query::{SortColumn, SortOrder};
use crate::ui::RenderContext;
use crate::ui::action::{Action, SortAction, UiRequest};
use crate::ui::dialog::setup::Setup;
use crate::ui::dialog::signal::SignalDialog;
use crate::ui::input::Key;
use crate::ui::widgets::line::Line;
use crate::ui::widgets::menu::Menu;

pub(crate) mod setup;
pub(crate) mod signal;

#[derive(Clone, Debug, PartialEq)]
pub enum Dialog {
    /// A menu of actions, with what Enter does to one.
    Menu(Menu<Action>, &'static str),
    /// The setup screen.
    Setup(Setup),
    /// The dialog that selects a signal and asks for confirmation.
    Signal(Box<SignalDialog>),
}

/// What a key does to a dialog: it closes, and an action is performed; or it stays open and makes a request.
pub(crate) type DialogStep = ControlFlow<Option<Action>, Option<UiRequest>>;

impl Dialog {
    /// Makes the sort menu, the cursor on the current column. If `reverses`, uppercase letters sort in reverse.
    pub(crate) fn sort(order: SortOrder, columns: &[SortColumn], reverses: bool) -> Self {
        let menu = columns.iter().fold(Menu::new("sort by"), |menu, column| {
            let state = match (column.name == order.column, order.is_reversed) {
                (false, _) => "",
                (true, false) => "current",
                (true, true) => "current, reversed",
            };
            let set = |is_reversed| {
                Action::Sort(SortAction::Set(SortOrder { column: column.name, is_reversed }))
            };
            let by = Action::Sort(SortAction::By(column.name));
            let menu = menu.with_item(
                if reverses { set(false) } else { by },
                Some(column.key),
                column.label,
                state,
            );
            if reverses { menu.with_uppercase(set(true)) } else { menu }
        });
        let current = columns.iter().position(|column| column.name == order.column);
        Self::Menu(menu.with_cursor(current.unwrap_or(0)), "choose")
    }

    pub(crate) fn on_key(&mut self, key: Key) -> DialogStep {
        match self {
            Self::Menu(menu, _) => menu.on_key(key).map_continue(|()| None),
            Self::Setup(setup) => setup.on_key(key),
            Self::Signal(dialog) => dialog.on_key(key),
        }
    }

    /// Draws the dialog below a horizontal rule.
    pub(crate) fn lines(
        &self,
        context: RenderContext<'_>,
        width: u16,
        max_lines: usize,
    ) -> Vec<Line> {
        let room = max_lines.saturating_sub(1);
        let mut lines = vec![Line::new().rule(width)];
        lines.extend(match self {
            Self::Menu(menu, _) => menu.lines(width, room.min(menu.height())),
            Self::Setup(setup) => setup.lines(width, room),
            Self::Signal(dialog) => dialog.lines(context, width, room.min(dialog.height())),
        });
        lines.truncate(max_lines);
        lines
    }

    /// Returns the key hints of the dialog.
    pub fn hints(&self) -> Vec<(String, &'static str)> {
        let hints: &[(&str, &'static str)] = match self {
            Self::Menu(menu, verb) if menu.has_uppercase() => {
                &[("↑ ↓", "move"), ("Enter", verb), ("uppercase", "reverse"), ("Esc", "close")]
            }
            Self::Menu(_, verb) => &[("↑ ↓", "move"), ("Enter", verb), ("Esc", "close")],
            Self::Setup(setup) => setup.hints(),
            Self::Signal(dialog) => dialog.hints(),
        };
        hints.iter().map(|(key, meaning)| ((*key).to_owned(), *meaning)).collect()
    }
}
