//! The fleet as the screen shows it: live or frozen, filtered, and drawn with the display options.

use jiff::tz::TimeZone;

use crate::fleet::Fleet;
use crate::insight::FleetView;
use crate::query::Filter;
use crate::time::Timestamp;
use crate::ui::RenderContext;
use crate::ui::display_options::DisplayOptions;

/// The latest snapshot, the frozen one if any, and how they are shown.
#[derive(Debug)]
pub(super) struct ShownFleet {
    pub(super) live: FleetView,
    pub(super) frozen: Option<FleetView>,
    pub(super) filter: Filter,
    pub(super) display: DisplayOptions,
    zone: TimeZone,
}

impl ShownFleet {
    pub(super) fn new(zone: TimeZone) -> Self {
        let (live, filter, display) = Default::default();
        Self { live, frozen: None, filter, display, zone }
    }

    /// Returns the snapshot on the screen.
    pub(super) fn view(&self) -> &FleetView {
        self.frozen.as_ref().unwrap_or(&self.live)
    }

    pub(super) fn context(&self) -> RenderContext<'_> {
        RenderContext { view: self.view(), options: &self.display, zone: &self.zone }
    }

    /// Replaces the latest snapshot and returns the one before.
    pub(super) fn update(&mut self, fleet: Fleet, now: Timestamp) -> FleetView {
        let next = self.live.updated(fleet, now, self.filter.clone(), &self.display.selection);
        std::mem::replace(&mut self.live, next)
    }

    pub(super) fn set_filter(&mut self, filter: Filter, now: Timestamp) {
        self.filter = filter;
        self.rebuild(now);
    }

    /// Rebuilds the snapshots with the current filter and selection.
    pub(super) fn rebuild(&mut self, now: Timestamp) {
        let again = |fleet_view: &FleetView, now| {
            fleet_view.refiltered(now, self.filter.clone(), &self.display.selection)
        };
        self.live = again(&self.live, self.live.now.max(now));
        self.frozen = self.frozen.as_ref().map(|fleet_view| again(fleet_view, fleet_view.now));
    }
}
