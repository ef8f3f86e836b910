//! `--anonymize`: replaces names in everything that is printed or logged, equally in all of it.

use std::sync::{Arc, Mutex, PoisonError};

use crate::cli::OutputOptions;
use gtop_fleet::{Anonymizer, Fleet};

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
        anonymizer.lock().unwrap_or_else(PoisonError::into_inner).anonymize(&fleet)
    }
}
