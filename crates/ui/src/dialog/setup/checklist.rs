//! The checklist that selects and orders the columns of a table.

use std::ops::ControlFlow;

use crate::input::{Key, NamedKey};
use crate::widgets::line::{Line, Tone};
use crate::widgets::list::{Movement, Viewport};
use gtop_fleet::settings::ColumnSpec;
use gtop_local::text::width_of;

/// The columns of a table, the selected ones and the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Checklist {
    columns: Vec<ColumnSpec>,
    /// Names of the selected columns, from left to right.
    selected: Vec<&'static str>,
    row: usize,
}

impl Checklist {
    /// Opens the checklist with the columns of a setting's value selected.
    pub(super) fn new(columns: Vec<ColumnSpec>, value: &str) -> Self {
        let selected = value.split(',').filter_map(|name| {
            let column = columns.iter().find(|column| column.name == name.trim());
            column.filter(|column| !column.is_fixed).map(|column| column.name)
        });
        let selected = selected.collect();
        let row = columns.iter().position(|column| !column.is_fixed).unwrap_or(0);
        Self { columns, selected, row }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys mean nothing here")]
    /// Handles a key. One that changes the selection returns it, separated by commas: empty for as many as fit.
    pub(super) fn on_key(&mut self, key: Key) -> ControlFlow<(), Option<String>> {
        let is_changed = match key {
            Key::Named(NamedKey::Escape | NamedKey::Enter)
            | Key::Letter('q')
            | Key::Control('c') => {
                return ControlFlow::Break(());
            }
            Key::Letter(' ') => self.toggle(),
            Key::Letter('a') => {
                let selectable = self.columns.iter().filter(|column| !column.is_fixed);
                let all = selectable.map(|column| column.name);
                self.selected = if self.selected.is_empty() { all.collect() } else { Vec::new() };
                true
            }
            Key::Named(NamedKey::Left) | Key::Letter('h') => self.move_column(false),
            Key::Named(NamedKey::Right) | Key::Letter('l') => self.move_column(true),
            other => {
                if let Some(step) = Movement::from_dialog_key(other) {
                    self.row = step.new_index(self.row, self.columns.len(), 8);
                }
                false
            }
        };
        ControlFlow::Continue(is_changed.then(|| self.selected.join(",")))
    }

    fn position_of(&self, column: &ColumnSpec) -> Option<usize> {
        self.selected.iter().position(|name| *name == column.name)
    }

    /// Selects the column under the cursor, or removes it; returns true if it can be selected.
    fn toggle(&mut self) -> bool {
        let column = self.columns.get(self.row).filter(|column| !column.is_fixed);
        let Some(column) = column else { return false };
        match self.position_of(column) {
            Some(at) => drop(self.selected.remove(at)),
            None => self.selected.push(column.name),
        }
        true
    }

    /// Swaps a selected column with its neighbour; returns true if it has one.
    fn move_column(&mut self, is_later: bool) -> bool {
        let at = self.columns.get(self.row).and_then(|column| self.position_of(column));
        let to = at.and_then(|at| if is_later { Some(at + 1) } else { at.checked_sub(1) });
        let both = at.zip(to.filter(|to| *to < self.selected.len()));
        if let Some((at, to)) = both {
            self.selected.swap(at, to);
        }
        both.is_some()
    }

    /// Returns at most `max_lines` lines; a selected column shows its position, 1 is leftmost.
    pub(super) fn lines(&self, name: &str, width: u16, max_lines: usize) -> Vec<Line> {
        let changed = match self.selected.len() {
            0 => "auto: as many as fit".to_owned(),
            count => format!("{count} chosen; columns that do not fit are dropped from the right"),
        };
        let title = Line::styled(name, Tone::Strong).gap(2).text(changed, Tone::Faint);
        let mut lines = vec![title.truncated(width)];
        let widest = self.columns.iter().map(|column| width_of(column.name)).max().unwrap_or(0);
        let (rows, room) = ((self.columns.len(), Some(self.row)), max_lines.saturating_sub(1));
        let size = (width, room);
        Viewport::default()
            .draw_below(&mut lines, None, rows, size, |index| self.column_line(index, widest));
        lines.truncate(max_lines);
        lines
    }

    fn column_line(&self, index: usize, name_width: u16) -> Option<Line> {
        let column = self.columns.get(index)?;
        let at = self.position_of(column);
        let mark = match at {
            _ if column.is_fixed => " * ".to_owned(),
            Some(at) => format!("{:>3}", at + 1),
            None => "   ".to_owned(),
        };
        let tone = if column.is_fixed || at.is_some() { Tone::Strong } else { Tone::Plain };
        let line = Line::new().text("[", Tone::Faint).text(mark, Tone::Accent);
        let line = line.text("] ", Tone::Faint).left_aligned(column.name, name_width, tone).gap(2);
        let line = line.left_aligned(column.title, 10, Tone::Faint).gap(1);
        Some(line.text(column.help, Tone::Faint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static COLUMNS: [ColumnSpec; 4] = [
        ColumnSpec { is_fixed: true, ..ColumnSpec::new("node", "NODE", "", "") },
        ColumnSpec::new("util", "%", "", ""),
        ColumnSpec::new("mem", "GiB", "", ""),
        ColumnSpec::new("note", "NOTE", "", ""),
    ];

    #[test]
    fn columns_are_selected_in_order_and_moved() {
        for (value, keys, expected) in [
            ("", " j ", "util,mem"),
            ("", "jj k ", "note,mem"),
            ("mem,util", " ", "mem"),
            ("mem,util", "h", "util,mem"),
            ("mem,util", "jl", "util,mem"),
            ("mem,util,note", "a", ""),
            ("", "a", "util,mem,note"),
            ("util", " ", ""),
        ] {
            let mut list = Checklist::new(COLUMNS.to_vec(), value);
            let event = keys.chars().map(|key| list.on_key(Key::Letter(key))).last();
            assert_eq!(
                event,
                Some(ControlFlow::Continue(Some(expected.to_owned()))),
                "{value} {keys}"
            );
        }
        let mut list = Checklist::new(COLUMNS.to_vec(), "note");
        for (key, expected) in [
            ('k', ControlFlow::Continue(None)),
            (' ', ControlFlow::Continue(None)),
            ('l', ControlFlow::Continue(None)),
            ('q', ControlFlow::Break(())),
        ] {
            assert_eq!(list.on_key(Key::Letter(key)), expected, "{key}");
        }
    }
}
