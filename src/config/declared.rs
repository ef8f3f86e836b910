//! What can be set, as declared by those who read it.

use gtop_fleet::settings::{KeyTable, Setting};

/// What can be set: settings by the heading under which help lists them, in the order of `--help`, and key bindings.
#[derive(Clone, Copy, Debug)]
pub struct Declared {
    pub sections: &'static [(&'static str, &'static [Setting])],
    pub keys: KeyTable,
}

impl Declared {
    /// Returns all settings, in the order of `--help`.
    pub fn settings(self) -> impl Iterator<Item = &'static Setting> {
        self.sections.iter().flat_map(|(_, settings)| *settings)
    }

    /// Returns the setting of this name.
    pub fn setting(self, name: &str) -> Option<&'static Setting> {
        self.settings().find(|setting| setting.name == name)
    }

    /// Returns true if names of settings begin with this word and a dash: in files, a table may hold them.
    pub(super) fn begins_setting(self, word: &str) -> bool {
        let mut rests = self.settings().filter_map(|setting| setting.name.strip_prefix(word));
        rests.any(|rest| rest.starts_with('-'))
    }
}
