//! `--anonymize`: replaces names in everything that is printed or logged, equally in all of it.

use std::sync::{Arc, Mutex};

use crate::cli::OutputOptions;
use gtop_fleet::{Anonymizer, Fleet};
use gtop_local::lock::lock;

/// Whether names are replaced, and by what; clones share the replacements.
#[derive(Clone, Debug, Default)]
pub(super) struct Privacy(Option<Arc<Mutex<Anonymizer>>>);

impl Privacy {
    pub(super) fn of(options: &OutputOptions) -> Self {
        Self(options.print.anonymize.then(Arc::default))
    }

    pub(super) fn is_anonymous(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the fleet as it may be shown.
    pub(super) fn apply(&self, fleet: Fleet) -> Fleet {
        let Some(anonymizer) = &self.0 else { return fleet };
        lock(anonymizer).anonymize(&fleet)
    }
}
