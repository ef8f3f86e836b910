//! Preferences: settings that keys change too, such as the sort order, the fleet layout and the charts of a node.

use crate::display_options::DisplayOptions;
use crate::navigation::Navigation;
use crate::settings::ScreenSettings;

/// Returns the settings with what keys have changed.
pub(crate) fn with_preferences(
    settings: &ScreenSettings,
    navigation: &Navigation,
    display: &DisplayOptions,
) -> ScreenSettings {
    let Navigation { fleet, processes, job, users, shared, .. } = navigation;
    let jobs = job.list.order;
    let density = shared.panel.density.or(processes.density);
    ScreenSettings {
        sort_fleet: fleet.order.column,
        reverse_fleet: fleet.order.is_reversed,
        sort_processes: processes.order.column,
        reverse_processes: processes.order.is_reversed,
        sort_jobs: jobs.column,
        reverse_jobs: jobs.is_reversed,
        sort_users: users.order.column,
        reverse_users: users.order.is_reversed,
        fleet_form: fleet.layout,
        fleet_map: fleet.metric,
        fleet_group: fleet.grouping,
        node_processes: !shared.panel.hides_processes,
        node_chart: shared.panel.charts.is_shown,
        charted: shared.panel.charts.aliases(display),
        monitor: density.unwrap_or(display.density),
        ..settings.clone()
    }
}

/// Applies preferences that differ from those before; what keys have changed of others stays.
pub(crate) fn apply_preferences(
    navigation: &mut Navigation,
    before: &ScreenSettings,
    now: &ScreenSettings,
) {
    /// Sets places to fields that have changed.
    macro_rules! apply {
        ($($field:ident => $place:expr;)*) => {
            $(if now.$field != before.$field {
                $place = now.$field;
            })*
        };
    }
    let Navigation { fleet, processes, job, users, shared, .. } = navigation;
    apply! {
        sort_fleet => fleet.order.column;
        reverse_fleet => fleet.order.is_reversed;
        sort_processes => processes.order.column;
        reverse_processes => processes.order.is_reversed;
        sort_jobs => job.list.order.column;
        reverse_jobs => job.list.order.is_reversed;
        sort_users => users.order.column;
        reverse_users => users.order.is_reversed;
        fleet_form => fleet.layout;
        fleet_map => fleet.metric;
        node_chart => shared.panel.charts.is_shown;
    }
    if now.fleet_group != before.fleet_group {
        fleet.group_by(now.fleet_group);
    }
    if now.node_processes != before.node_processes {
        shared.panel.hides_processes = !now.node_processes;
    }
    // These settings override what keys have changed.
    if now.charted != before.charted {
        shared.panel.charts.metrics = None;
    }
    if now.monitor != before.monitor {
        (shared.panel.density, processes.density) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::display_options::Density;
    use crate::views::fleet::{Grouping, Layout, MapMetric};
    use gtop_fleet::query::DisplaySelection;
    use gtop_fleet::settings::SettingGroup as _;

    #[test]
    fn the_defaults_of_preferences_are_the_state_at_start() {
        let settings = ScreenSettings::default();
        let display = DisplayOptions::default();
        assert_eq!(with_preferences(&settings, &Navigation::default(), &display), settings);
    }

    #[test]
    fn preferences_that_are_applied_are_returned() {
        let defaults = ScreenSettings::default();
        let settings = ScreenSettings {
            sort_fleet: "util",
            reverse_fleet: true,
            sort_processes: "gpumem",
            reverse_processes: true,
            sort_jobs: "outliers",
            reverse_jobs: true,
            sort_users: "idle-held",
            reverse_users: true,
            fleet_form: Layout::Map,
            fleet_map: MapMetric::Owner,
            fleet_group: Grouping::Job,
            node_processes: false,
            node_chart: true,
            monitor: Density::Full,
            charted: ["throttled", "temp", "enc"].map(str::to_owned).into(),
            ..defaults.clone()
        };
        let display = DisplayOptions::new(&settings, DisplaySelection::default());
        let mut navigation = Navigation::default();
        navigation.shared.panel.density = Some(Density::Compact);
        apply_preferences(&mut navigation, &defaults, &settings);
        assert_eq!(with_preferences(&defaults, &navigation, &display), settings);
        let before = defaults.texts();
        let changed: Vec<_> =
            settings.texts().into_iter().filter(|text| !before.contains(text)).collect();
        assert_eq!(changed.len(), 15);
        for setting in ScreenSettings::TABLE {
            let is_preference = changed.iter().any(|(name, _)| *name == setting.name);
            assert!(!is_preference || !setting.page.is_empty(), "{} is not saved", setting.name);
        }
        // What keys change stays while the settings do not change.
        navigation.users.order.is_reversed = false;
        apply_preferences(&mut navigation, &settings, &settings);
        let now = with_preferences(&settings, &navigation, &display);
        assert_eq!(now, ScreenSettings { reverse_users: false, ..settings });
    }
}
