//! What the views draw from: a snapshot and the options to draw it with.

use jiff::tz::TimeZone;

use crate::display_options::DisplayOptions;
use gtop_fleet::insight::FleetView;
use gtop_model::SchedulerWords;

/// The columns and the lines to draw in, neither of which is exceeded.
pub(crate) type Size = (u16, usize);

/// The fleet and the options to draw it with.
#[derive(Clone, Copy, Debug)]
pub struct RenderContext<'a> {
    pub view: &'a FleetView,
    pub options: &'a DisplayOptions,
    /// The time zone of times of day.
    pub zone: &'a TimeZone,
}

impl RenderContext<'_> {
    /// Returns the words of the scheduler that lists the jobs, or of that of this machine.
    pub(crate) fn scheduler(&self) -> &'static SchedulerWords {
        let list = self.view.fleet.jobs.as_ref();
        list.map_or(self.options.scheduler, |list| &list.scheduler.words)
    }
}
