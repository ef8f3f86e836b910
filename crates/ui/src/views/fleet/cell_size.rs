//! The size of a cell of the heat map, and how a cell is drawn in several columns and lines.

use crate::widgets::line::{Symbol, Tone};

/// The columns and lines of a cell at most.
const MAX_SIZE: CellSize = CellSize { columns: 4, lines: 3 };
/// From this width on, the last column of a cell is blank, so that neighbours are told apart.
const MIN_COLUMNS_WITH_GAP: u16 = 3;

/// The columns and lines of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CellSize {
    pub(super) columns: u16,
    pub(super) lines: usize,
}

impl Default for CellSize {
    fn default() -> Self {
        Self { columns: 1, lines: 1 }
    }
}

impl CellSize {
    /// Returns the sizes with more columns, the widest first.
    pub(super) fn wider(self) -> impl Iterator<Item = Self> {
        (self.columns + 1..=MAX_SIZE.columns).rev().map(move |columns| Self { columns, ..self })
    }

    /// Returns the sizes with more lines, the highest first.
    pub(super) fn higher(self) -> impl Iterator<Item = Self> {
        (self.lines + 1..=MAX_SIZE.lines).rev().map(move |lines| Self { lines, ..self })
    }

    /// Returns one line of a cell, counted from the top. A load is one bar from the bottom of the cell, another symbol
    /// stands in its middle.
    pub(super) fn line(
        self,
        (symbol, tone): (Symbol, Tone),
        line: usize,
    ) -> impl Iterator<Item = (Symbol, Tone)> {
        const BLANK: Symbol = Symbol::Char(' ');
        let filled = self.columns - u16::from(self.columns >= MIN_COLUMNS_WITH_GAP);
        let middle = ((filled - 1) / 2, (self.lines - 1) / 2);
        (0..self.columns).map(move |column| {
            if column >= filled {
                return (BLANK, Tone::Plain);
            }
            if let Symbol::Level(load) = symbol {
                return (self.part_of_load(load, line).unwrap_or(BLANK), tone);
            }
            (if (column, line) == middle { symbol } else { BLANK }, tone)
        })
    }

    /// Returns the part of a load on one line, `None` above it.
    #[expect(clippy::cast_precision_loss, reason = "a cell has a few lines")]
    fn part_of_load(self, load: f32, line: usize) -> Option<Symbol> {
        if self.lines == 1 {
            return Some(Symbol::Level(load));
        }
        let below = self.lines - 1 - line;
        let part = load * self.lines as f32 - 100.0 * below as f32;
        (part > 0.0).then(|| Symbol::Area(part.min(100.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws a cell, each line as the parts of a load in tenths or as signs.
    fn drawn(columns: u16, lines: usize, symbol: Symbol) -> Vec<String> {
        let size = CellSize { columns, lines };
        let text = |(symbol, _): (Symbol, Tone)| match symbol {
            Symbol::Level(part) | Symbol::Area(part) => format!("{:.0}", part / 10.0),
            Symbol::Char(letter) => letter.to_string(),
            Symbol::Idle | Symbol::Faulty | Symbol::Overflow | Symbol::Letter(..) => "?".to_owned(),
        };
        (0..lines).map(|line| size.line((symbol, Tone::Mid), line).map(text).collect()).collect()
    }

    #[test]
    fn a_load_is_one_bar_from_the_bottom_and_a_sign_is_in_the_middle() {
        assert_eq!(drawn(1, 1, Symbol::Level(90.0)), ["9"]);
        assert_eq!(drawn(2, 2, Symbol::Level(90.0)), ["88", "1010"]);
        assert_eq!(drawn(4, 3, Symbol::Level(50.0)), ["    ", "555 ", "101010 "]);
        assert_eq!(drawn(3, 3, Symbol::Level(10.0)), ["   ", "   ", "33 "]);
        assert_eq!(drawn(1, 2, Symbol::Char('x')), ["x", " "]);
        assert_eq!(drawn(4, 3, Symbol::Char('x')), ["    ", " x  ", "    "]);
    }
}
