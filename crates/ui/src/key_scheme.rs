//! Whose keys are bound: those of gtop, or those of a monitor that fingers already know.

use crate::choices::choices;
use gtop_fleet::query::SortColumn;
use gtop_fleet::settings::value;

choices! {
    /// A set of key bindings.
    pub enum KeyScheme {
        #[default]
        Gtop = value("gtop", "the keys of gtop"),
        Nvitop = value("nvitop", "k kills, Tab selects, / reverses the order, o and a letter sorts"),
        Nvtop = value("nvtop", "h and l scroll commands, F-keys as in gtop"),
        Htop = value("htop", "k sends signals, P M T N sort, I reverses, F5 shows the tree"),
    }
}

impl KeyScheme {
    pub const ALL: [Self; 4] = [Self::Gtop, Self::Nvitop, Self::Nvtop, Self::Htop];

    /// Returns true if a process is always selected, as in the monitor that the scheme is named after.
    pub(crate) const fn always_selects(self) -> bool {
        matches!(self, Self::Nvtop | Self::Htop)
    }

    /// Returns a column of the process table with the letter that it has in the sort menu of this scheme.
    pub(crate) fn process_sort_column(self, column: SortColumn) -> SortColumn {
        let letters: &[(&str, char)] = if self == Self::Nvitop { NVITOP_LETTERS } else { &[] };
        let letter = letters.iter().find(|(name, _)| *name == column.name);
        SortColumn { key: letter.map_or(column.key, |(_, letter)| *letter), ..column }
    }
}

/// The letters after `o` in nvitop, where they differ from gtop's, and one for the column that loses its own.
const NVITOP_LETTERS: &[(&str, char)] = &[("gpumem", 'g'), ("prss", 'm'), ("gpu", 'v')];
