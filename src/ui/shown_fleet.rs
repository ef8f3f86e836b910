//! The fleet as the screen shows it: live or frozen, filtered, and drawn with the display options.

use jiff::tz::TimeZone;

use crate::fleet::Fleet;
use crate::insight::FleetView;
use crate::query::Filter;
use crate::time::Timestamp;
use crate::ui::RenderContext;
use crate::ui::display_options::DisplayOptions;

/// A snapshot that stays on the screen.
#[derive(Debug)]
pub(super) struct FrozenView {
    pub(super) view: FleetView,
    /// Since when it stays.
    pub(super) since: Timestamp,
}

/// The latest snapshot, the frozen one if any, and how they are shown.
#[derive(Debug)]
pub(super) struct ShownFleet {
    pub(super) live: FleetView,
    pub(super) frozen: Option<FrozenView>,
    pub(super) filter: Filter,
    pub(super) display: DisplayOptions,
    pub(super) zone: TimeZone,
    /// The next snapshot does not continue the latest one.
    has_jumped: bool,
}

impl ShownFleet {
    pub(super) fn new(zone: TimeZone) -> Self {
        let (live, filter, display) = Default::default();
        Self { live, frozen: None, filter, display, zone, has_jumped: false }
    }

    /// Returns the snapshot on the screen.
    pub(super) fn view(&self) -> &FleetView {
        self.frozen.as_ref().map_or(&self.live, |frozen| &frozen.view)
    }

    pub(super) fn context(&self) -> RenderContext<'_> {
        RenderContext { view: self.view(), options: &self.display, zone: &self.zone }
    }

    /// Notes that the next snapshot does not continue the latest one.
    pub(super) const fn jump(&mut self) {
        self.has_jumped = true;
    }

    /// Replaces the latest snapshot and returns the one before; `None` after a jump, which also ends a freeze.
    pub(super) fn update(&mut self, fleet: Fleet, now: Timestamp) -> Option<FleetView> {
        let next = self.live.updated(fleet, now, self.filter.clone(), &self.display.selection);
        let before = std::mem::replace(&mut self.live, next);
        if std::mem::take(&mut self.has_jumped) {
            self.frozen = None;
            return None;
        }
        Some(before)
    }

    pub(super) fn set_filter(&mut self, filter: Filter) {
        self.filter = filter;
        self.rebuild();
    }

    /// Rebuilds the snapshots with the current filter and selection.
    pub(super) fn rebuild(&mut self) {
        let again = |fleet_view: &FleetView| {
            fleet_view.refiltered(fleet_view.now, self.filter.clone(), &self.display.selection)
        };
        self.live = again(&self.live);
        if let Some(frozen) = &mut self.frozen {
            frozen.view = again(&frozen.view);
        }
    }
}
