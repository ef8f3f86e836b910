//! The fleet as the screen shows it: live or frozen, filtered, and drawn with the display options.

use std::sync::Arc;

use jiff::tz::TimeZone;

use crate::display_options::DisplayOptions;
use crate::render_context::RenderContext;
use gtop_fleet::Fleet;
use gtop_fleet::insight::FleetView;
use gtop_fleet::query::{Filter, unfinished_name};
use gtop_local::time::Timestamp;

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
    /// The snapshots are still those of the filter before.
    is_filter_due: bool,
    /// The next snapshot does not continue the latest one.
    has_jumped: bool,
}

impl ShownFleet {
    pub(super) fn new(zone: TimeZone) -> Self {
        let (live, filter, display) = Default::default();
        let (is_filter_due, has_jumped) = (false, false);
        Self { live, frozen: None, filter, display, zone, is_filter_due, has_jumped }
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
        if self.has_jumped {
            // Since when there are problems is not known from the other time.
            self.live.problems = Arc::default();
        }
        let next = self.live.updated(fleet, now, self.filter.clone(), &self.display.selection);
        let before = std::mem::replace(&mut self.live, next);
        self.is_filter_due &= self.frozen.is_some();
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

    /// Replaces the filter while it is typed. The snapshots follow when they are drawn: a paste has many letters.
    pub(super) fn set_typed_filter(&mut self, filter: Filter) {
        self.filter = filter;
        self.is_filter_due = true;
    }

    /// Applies the filter that is typed. While its last word begins the name of a field or a state, and nothing matches,
    /// the terms before it apply.
    pub(super) fn apply_typed_filter(&mut self) {
        if !self.is_filter_due {
            return;
        }
        self.rebuild();
        let text = self.filter.text();
        if self.view().count() == 0
            && let Some(start) = unfinished_name(text)
        {
            let before: String = text.chars().take(start).collect();
            self.set_filter(Filter::new(&before).unwrap_or_default());
        }
    }

    /// Rebuilds the snapshots with the current filter and selection.
    pub(super) fn rebuild(&mut self) {
        self.is_filter_due = false;
        let frozen = self.frozen.as_mut().map(|frozen| &mut frozen.view);
        for view in std::iter::once(&mut self.live).chain(frozen) {
            *view = view.refiltered(view.now, self.filter.clone(), &self.display.selection);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use gtop_fleet::Node;
    use gtop_model::NodeName;

    #[test]
    fn a_filter_that_is_typed_is_applied_once_per_frame() {
        let mut shown = ShownFleet::new(TimeZone::UTC);
        let node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        let fleet = Fleet::new(vec![Arc::new(node)].into());
        shown.update(fleet.clone(), Timestamp::default());
        for text in ["u", "ut", "uti", "util"] {
            shown.set_typed_filter(Filter::new(text).unwrap());
            shown.apply_typed_filter();
            assert_eq!(shown.view().count(), 1, "it may become a term: {text}");
        }
        for text in ["n", "no", "non"] {
            shown.set_typed_filter(Filter::new(text).unwrap());
            assert_eq!(shown.view().count(), 1, "it is evaluated before it is drawn: {text}");
        }
        shown.apply_typed_filter();
        assert_eq!(shown.view().count(), 0);
        let matched = shown.view().matched.clone().unwrap();
        shown.apply_typed_filter();
        let again = shown.view().matched.as_ref().unwrap();
        assert!(Arc::ptr_eq(&matched, again), "nothing is due");
        // A frozen snapshot is not replaced by the next one, and still follows.
        let view = shown.live.clone();
        shown.frozen = Some(FrozenView { view, since: Timestamp::default() });
        shown.set_typed_filter(Filter::new("gpu").unwrap());
        shown.update(fleet, Timestamp::default());
        shown.apply_typed_filter();
        assert_eq!((shown.view().count(), shown.live.count()), (1, 1));
    }
}
