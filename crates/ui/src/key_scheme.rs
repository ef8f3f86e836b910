//! Whose keys are bound: those of gtop, or those of a monitor that fingers already know.

use gtop_fleet::query::SortColumn;

/// A set of key bindings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyScheme {
    #[default]
    Gtop,
    Nvitop,
    Nvtop,
    Htop,
}

impl KeyScheme {
    pub const ALL: [Self; 4] = [Self::Gtop, Self::Nvitop, Self::Nvtop, Self::Htop];

    /// Returns a column of the process table with the letter that it has in the sort menu of this scheme.
    pub(crate) fn process_sort_column(self, column: SortColumn) -> SortColumn {
        let letters: &[(&str, char)] = if self == Self::Nvitop { NVITOP_LETTERS } else { &[] };
        let letter = letters.iter().find(|(name, _)| *name == column.name);
        SortColumn { key: letter.map_or(column.key, |(_, letter)| *letter), ..column }
    }
}

/// The letters after `o` in nvitop, where they differ from gtop's, and one for the column that loses its own.
const NVITOP_LETTERS: &[(&str, char)] = &[("gpumem", 'g'), ("prss", 'm'), ("gpu", 'v')];
