//! The setup pages: settings that can be changed while gtop runs, by arrow keys or by typing.
//!
//! Knows only names and texts; the settings' owner validates and applies them.

use std::ops::ControlFlow;

use crate::dialog::dialog_step::DialogStep;
use crate::input::{Key, NamedKey};
use crate::request::UiRequest;
use crate::widgets::line::{Line, Tone, wrap};
use crate::widgets::line_editor::LineEditor;
use crate::widgets::list::{Movement, Viewport};
use checklist::Checklist;
use gtop_fleet::settings::ColumnSpec;
use gtop_local::text::width_of;

mod checklist;

/// Maximum length of a typed value, in bytes.
const MAX_VALUE_LENGTH: usize = 400;
/// Maximum rows of the pages, including tabs and help text.
const MAX_ROWS: usize = 14;

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupEntry {
    /// Name in the config file.
    pub name: &'static str,
    /// What it is in words.
    pub label: &'static str,
    /// The unit of its value; empty if it has none.
    pub unit: &'static str,
    /// Its default, as it would be typed; empty for none.
    pub default: &'static str,
    /// Current value, as it would be typed.
    pub value: String,
    /// Values that the arrow keys cycle through.
    pub steps: Vec<&'static str>,
    /// True if other values than `steps` may be typed.
    pub is_typed: bool,
    /// Columns to choose from; empty if the setting is no column list.
    pub columns: Vec<ColumnSpec>,
    /// What the setting does, or what its value means.
    pub help: String,
    /// Where the value comes from, such as `default`.
    pub origin: String,
    /// True if it was changed and not saved.
    pub is_changed: bool,
}

/// A page of related settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupPage {
    pub title: &'static str,
    pub entries: Vec<SetupEntry>,
}

/// The pages, with the current page, row and input.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setup {
    pages: Vec<SetupPage>,
    page: usize,
    row: usize,
    /// The input line, while a value is typed.
    editor: Option<LineEditor>,
    /// The checklist, while columns are chosen.
    checklist: Option<Checklist>,
}

impl Setup {
    /// Opens the first page.
    pub fn new(pages: Vec<SetupPage>) -> Self {
        Self { pages, ..Self::default() }
    }

    /// Updates the values; the page and row stay.
    pub(crate) fn update_pages(&mut self, now: &Self) {
        self.pages.clone_from(&now.pages);
    }

    /// Reopens the input with a rejected value, if the cursor is still on its setting.
    pub(crate) fn reopen_rejected(&mut self, name: &str, text: &str) {
        let is_here = self.entry().is_some_and(|entry| entry.name == name && entry.is_typed);
        if is_here && self.checklist.is_none() {
            self.editor.get_or_insert_with(|| LineEditor::new(text, MAX_VALUE_LENGTH));
        }
    }

    /// Returns true while a value is typed; all keys then go to the input line.
    pub(crate) fn is_typing(&self) -> bool {
        self.editor.is_some()
    }

    fn entries(&self) -> &[SetupEntry] {
        self.pages.get(self.page).map_or(&[], |page| &page.entries)
    }

    fn entry(&self) -> Option<&SetupEntry> {
        self.entries().get(self.row)
    }

    /// Returns true if the setting under the cursor is a list of columns.
    fn has_columns(&self) -> bool {
        self.entry().is_some_and(|entry| !entry.columns.is_empty())
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys mean nothing here")]
    pub(crate) fn on_key(&mut self, key: Key) -> DialogStep {
        if let Some(editor) = &mut self.editor {
            match key {
                Key::Named(NamedKey::Enter) => {
                    let value = editor.text().trim().to_owned();
                    self.editor = None;
                    return self.set(value);
                }
                Key::Named(NamedKey::Escape) | Key::Control('c') => self.editor = None,
                _ => drop(editor.on_key(key)),
            }
            return ControlFlow::Continue(None);
        }
        if let Some(list) = &mut self.checklist {
            match list.on_key(key) {
                ControlFlow::Break(()) => self.checklist = None,
                ControlFlow::Continue(Some(value)) => return self.set(value),
                ControlFlow::Continue(None) => {}
            }
            return ControlFlow::Continue(None);
        }
        match key {
            Key::Named(NamedKey::Right | NamedKey::Enter) | Key::Letter('l' | ' ')
                if self.has_columns() =>
            {
                let entry = self.entry();
                self.checklist =
                    entry.map(|entry| Checklist::new(entry.columns.clone(), &entry.value));
            }
            Key::Named(NamedKey::Left) | Key::Letter('h') if self.has_columns() => {}
            Key::Named(NamedKey::Escape) | Key::Letter('q') | Key::Control('c') => {
                return ControlFlow::Break(None);
            }
            Key::Named(NamedKey::Tab) | Key::Letter(']') => self.cycle_page(1),
            Key::Shift(NamedKey::Tab) | Key::Letter('[') => {
                self.cycle_page(self.pages.len().saturating_sub(1));
            }
            Key::Named(NamedKey::Enter) if self.entry().is_some_and(|entry| entry.is_typed) => {
                self.open_editor();
            }
            Key::Named(NamedKey::Right | NamedKey::Enter) | Key::Letter('l' | ' ') => {
                return self.cycle_value(true);
            }
            Key::Named(NamedKey::Left) | Key::Letter('h') => return self.cycle_value(false),
            Key::Letter(digit @ '1'..='9') => {
                let page = digit.to_digit(10).and_then(|digit| usize::try_from(digit).ok());
                let page = page.unwrap_or(1) - 1;
                if page < self.pages.len() {
                    (self.page, self.row) = (page, 0);
                }
            }
            other => {
                if let Some(step) = Movement::from_dialog_key(other) {
                    self.row = step.new_index(self.row, self.entries().len(), 8);
                }
            }
        }
        ControlFlow::Continue(None)
    }

    fn open_editor(&mut self) {
        self.editor = self.entry().map(|entry| LineEditor::new(&entry.value, MAX_VALUE_LENGTH));
    }

    fn cycle_page(&mut self, by: usize) {
        self.page = (self.page + by) % self.pages.len().max(1);
        self.row = 0;
    }

    /// Sets the next or previous value, wrapping at the ends; a setting without such values is typed.
    fn cycle_value(&mut self, is_forward: bool) -> DialogStep {
        let Some(entry) = self.entry() else { return ControlFlow::Continue(None) };
        let count = entry.steps.len();
        let to = match entry.steps.iter().position(|value| *value == entry.value) {
            Some(at) if is_forward => (at + 1) % count,
            Some(at) => (at + count - 1) % count,
            None => {
                // A typed number may lie between two steps.
                let typed = entry.value.parse::<f64>().ok();
                let above = entry.steps.iter().position(|step| step.parse().ok() > typed);
                if is_forward {
                    above.unwrap_or(0)
                } else {
                    above.filter(|above| *above > 0).unwrap_or(count).saturating_sub(1)
                }
            }
        };
        if let Some(value) = entry.steps.get(to) {
            return self.set((*value).to_owned());
        }
        self.open_editor();
        ControlFlow::Continue(None)
    }

    fn set(&mut self, value: String) -> DialogStep {
        let page = self.pages.get_mut(self.page);
        let entry = page.and_then(|page| page.entries.get_mut(self.row));
        ControlFlow::Continue(entry.map(|entry| {
            entry.value.clone_from(&value);
            entry.is_changed = true;
            "changed, not saved".clone_into(&mut entry.origin);
            UiRequest::ChangeSetting(entry.name, value)
        }))
    }

    /// Returns the lines: tabs, visible rows and the help text of the selected row.
    pub(crate) fn lines(&self, width: u16, max_lines: usize) -> Vec<Line> {
        let max_lines = max_lines.min(MAX_ROWS);
        let mut lines = vec![self.tabs(width)];
        if let (Some(list), Some(entry)) = (&self.checklist, self.entry()) {
            lines.extend(list.lines(entry.label, width, max_lines.saturating_sub(1)));
            lines.truncate(max_lines);
            return lines;
        }
        let help = self.entry().map(|entry| help_lines(entry, width)).unwrap_or_default();
        let name =
            self.pages.iter().flat_map(|page| &page.entries).map(|entry| width_of(entry.label));
        let name = name.max().unwrap_or(0).min(width / 2);
        let room = max_lines.saturating_sub(1 + help.len());
        let rows = (self.entries().len(), Some(self.row));
        Viewport::default().draw_below(&mut lines, None, rows, (width, room), |index| {
            self.entry_line(index, name, width)
        });
        lines.extend(help);
        lines.truncate(max_lines);
        lines
    }

    /// Draws a setting: its value, or the input line while it is typed.
    fn entry_line(&self, index: usize, name: u16, width: u16) -> Option<Line> {
        let entry = self.entries().get(index)?;
        let line = Line::new().gap(1).left_aligned(entry.label, name, Tone::Plain).gap(2);
        let room = width.saturating_sub(line.width());
        if let Some(editor) = self.editor.as_ref().filter(|_| index == self.row) {
            return Some(line.append(editor.line("", room)));
        }
        let value_text = value_text(entry, &entry.value);
        let tone = if entry.is_changed { Tone::Strong } else { Tone::Plain };
        let value = width_of(&value_text).clamp(16, 34).min(room.saturating_sub(1));
        let line = line.left_aligned(&value_text, value, tone);
        let origin = Line::new().gap(2).text(entry.origin.as_str(), Tone::Faint);
        let has_room = line.width() + origin.width() <= width;
        Some(if has_room { line.append(origin) } else { line })
    }

    fn tabs(&self, width: u16) -> Line {
        let title = Line::styled("Setup", Tone::Strong);
        let pages = self.pages.iter().enumerate();
        let line = pages.fold(title, |line, (index, page)| {
            let tone = if index == self.page { Tone::Accent } else { Tone::Faint };
            line.gap(2).text(format!("{} {}", index + 1, page.title), tone)
        });
        line.truncated(width)
    }

    /// Returns the key hints for the current state.
    pub fn hints(&self) -> &'static [(&'static str, &'static str)] {
        if self.editor.is_some() {
            return &[("Enter", "set"), ("Esc", "cancel")];
        }
        if self.checklist.is_some() {
            return &[
                ("↑ ↓", "row"),
                ("Space", "on, off"),
                ("← →", "move"),
                ("a", "auto, all"),
                ("Enter", "done"),
            ];
        }
        if self.has_columns() {
            return &[("↑ ↓", "row"), ("Enter", "choose"), ("Tab", "page"), ("Esc", "close")];
        }
        &[
            ("↑ ↓", "row"),
            ("← →", "change"),
            ("Enter", "change, type"),
            ("Tab", "page"),
            ("Esc", "close"),
        ]
    }
}

/// Wraps the help of a setting into two lines at most; its default and its name in files follow.
fn help_lines(entry: &SetupEntry, width: u16) -> Vec<Line> {
    let mut texts = wrap(&entry.help, width.saturating_sub(1), usize::MAX).into_iter();
    let (first, rest) = (texts.next().unwrap_or_default(), texts.collect::<Vec<_>>().join(" "));
    let default = match entry.default {
        "" if entry.columns.is_empty() => String::new(),
        "" => "default: auto   ".to_owned(),
        default => format!("default: {}   ", value_text(entry, default)),
    };
    let name = format!("{default}in config files: {}", entry.name);
    let rest = Some(rest).filter(|rest| !rest.is_empty());
    let texts = [first].into_iter().chain(rest).chain([name]).map(|text| {
        let words = text.split(' ');
        words.fold(Line::new(), |line, word| line.gap(1).text(word, Tone::Faint)).truncated(width)
    });
    texts.collect()
}

/// Returns the text of a value, with its unit.
fn value_text(entry: &SetupEntry, value: &str) -> String {
    match value {
        "" if !entry.columns.is_empty() => "auto".to_owned(),
        "" => "not set".to_owned(),
        "true" => "yes".to_owned(),
        "false" => "no".to_owned(),
        other if entry.unit.is_empty() => other.to_owned(),
        other => format!("{other} {}", entry.unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(
        name: &'static str,
        value: &str,
        steps: &[&'static str],
        is_typed: bool,
    ) -> SetupEntry {
        SetupEntry {
            name,
            label: name,
            unit: "",
            default: "",
            value: value.to_owned(),
            steps: steps.to_vec(),
            is_typed,
            columns: Vec::new(),
            help: format!("what {name} does"),
            origin: "default".to_owned(),
            is_changed: false,
        }
    }

    fn setup() -> Setup {
        let general = vec![
            entry("theme", "dark", &["dark", "light", "mono"], false),
            entry("interval", "0.7", &["0.5", "1"], true),
        ];
        let selection = vec![entry("only", "", &[], true)];
        Setup::new(vec![
            SetupPage { title: "General", entries: general },
            SetupPage { title: "SharedSelection", entries: selection },
        ])
    }

    #[test]
    fn arrow_keys_cycle_values_and_enter_edits() {
        let change = |name, value: &str| {
            ControlFlow::Continue(Some(UiRequest::ChangeSetting(name, value.to_owned())))
        };
        let named = Key::Named;
        for (keys, expected) in [
            (vec![named(NamedKey::Right)], change("theme", "light")),
            (vec![named(NamedKey::Left)], change("theme", "mono")),
            (
                vec![Key::Letter(' '), Key::Letter(' '), named(NamedKey::Enter)],
                change("theme", "dark"),
            ),
            (vec![named(NamedKey::Down), named(NamedKey::Right)], change("interval", "1")),
            (vec![Key::Letter('j'), named(NamedKey::Left)], change("interval", "0.5")),
            (
                vec![
                    named(NamedKey::Down),
                    named(NamedKey::Enter),
                    Key::Letter('5'),
                    named(NamedKey::Enter),
                ],
                change("interval", "0.75"),
            ),
            (
                vec![
                    named(NamedKey::Tab),
                    named(NamedKey::Right),
                    Key::Letter('q'),
                    named(NamedKey::Enter),
                ],
                change("only", "q"),
            ),
            (
                vec![Key::Letter('2'), named(NamedKey::Enter), named(NamedKey::Escape)],
                ControlFlow::Continue(None),
            ),
            (vec![Key::Shift(NamedKey::Tab), named(NamedKey::Escape)], ControlFlow::Break(None)),
            (vec![Key::Letter('9'), Key::Letter('q')], ControlFlow::Break(None)),
        ] {
            let mut setup = setup();
            let event = keys.iter().map(|key| setup.on_key(*key)).last();
            assert_eq!(event, Some(expected), "{keys:?}");
        }
    }

    #[test]
    fn a_rejected_value_is_edited_again() {
        let mut setup = setup();
        setup.reopen_rejected("theme", "blue");
        assert!(!setup.is_typing());
        assert!(setup.on_key(Key::Letter('j')).is_continue());
        setup.reopen_rejected("theme", "blue");
        assert!(!setup.is_typing());
        setup.reopen_rejected("interval", "70000");
        assert!(setup.on_key(Key::Named(NamedKey::Backspace)).is_continue());
        let event = setup.on_key(Key::Named(NamedKey::Enter));
        assert_eq!(
            event,
            ControlFlow::Continue(Some(UiRequest::ChangeSetting("interval", "7000".to_owned())))
        );
    }

    #[test]
    fn empty_pages_and_tiny_screens_are_handled() {
        let mut empty = Setup::default();
        for key in [NamedKey::Right, NamedKey::Enter, NamedKey::Tab, NamedKey::Down] {
            assert_eq!(empty.on_key(Key::Named(key)), ControlFlow::Continue(None));
        }
        for (width, max_lines) in [(0, 0), (1, 1), (5, 2), (80, 3), (80, 30)] {
            let lines = setup().lines(width, max_lines);
            assert!(lines.len() <= max_lines && lines.iter().all(|line| line.width() <= width));
        }
    }
}
