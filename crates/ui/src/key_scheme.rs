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

    /// Returns its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gtop => "gtop",
            Self::Nvitop => "nvitop",
            Self::Nvtop => "nvtop",
            Self::Htop => "htop",
        }
    }

    /// Returns the scheme of a name in settings; that of gtop for other names.
    pub fn from_name(name: &str) -> Self {
        Self::ALL.into_iter().find(|scheme| scheme.name() == name).unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_schemes() {
        for scheme in KeyScheme::ALL {
            assert_eq!(KeyScheme::from_name(scheme.name()), scheme);
        }
        assert_eq!(KeyScheme::from_name("vi"), KeyScheme::Gtop);
    }
}
