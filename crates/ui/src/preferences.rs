//! Preferences: settings that keys change too, such as the sort order, the fleet layout and the charts of a node.

use crate::dialog::setup::Setup;
use crate::display_options::DisplayOptions;
use crate::navigation::Navigation;
use crate::request::UiPreference;
use crate::settings::ScreenSettings;
use gtop_fleet::settings::SettingGroup as _;

/// What the user has chosen and gtop keeps.
#[derive(Debug, Default)]
pub(crate) struct Preferences {
    /// The settings as they last were, to find those that keys have changed since.
    settings: ScreenSettings,
    /// The setup pages, with the current settings.
    pub(crate) setup: Setup,
    /// The filters used last, the newest first.
    pub(crate) recent_filters: Vec<String>,
}

impl Preferences {
    /// Applies settings that differ from those before; what keys have changed of others stays.
    pub(crate) fn configure(&mut self, navigation: &mut Navigation, settings: ScreenSettings) {
        let (before, now) = (&self.settings, &settings);
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
        self.settings = settings;
    }

    /// Returns the settings that keys have changed, which count as saved from now on.
    pub(crate) fn save(
        &mut self,
        navigation: &Navigation,
        display: &DisplayOptions,
    ) -> Vec<UiPreference> {
        let before = self.settings.texts();
        // Already applied here; it must not be applied again when the saved settings are read back.
        self.settings = self.with_changes(navigation, display);
        self.settings.texts().into_iter().filter(|text| !before.contains(text)).collect()
    }

    /// Returns the settings with what keys have changed.
    fn with_changes(&self, navigation: &Navigation, display: &DisplayOptions) -> ScreenSettings {
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
            ..self.settings.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::display_options::Density;
    use crate::views::fleet::{Grouping, Layout, MapMetric};
    use gtop_fleet::query::DisplaySelection;

    #[test]
    fn the_defaults_of_preferences_are_the_state_at_start() {
        let settings = ScreenSettings::default();
        let display = DisplayOptions::default();
        let preferences = Preferences::default();
        assert_eq!(preferences.with_changes(&Navigation::default(), &display), settings);
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
        let display = settings.display_options(DisplaySelection::default());
        let mut navigation = Navigation::default();
        navigation.shared.panel.density = Some(Density::Compact);
        Preferences::default().configure(&mut navigation, settings.clone());
        let mut preferences = Preferences::default();
        assert_eq!(preferences.with_changes(&navigation, &display), settings);
        let changed = preferences.save(&navigation, &display);
        assert_eq!(changed.len(), 15);
        for setting in ScreenSettings::TABLE {
            let is_preference = changed.iter().any(|(name, _)| *name == setting.name);
            assert!(!is_preference || !setting.page.is_empty(), "{} is not saved", setting.name);
        }
        // What keys change stays while the settings do not change.
        navigation.users.order.is_reversed = false;
        preferences.configure(&mut navigation, settings.clone());
        let now = preferences.with_changes(&navigation, &display);
        assert_eq!(now, ScreenSettings { reverse_users: false, ..settings });
    }
}
