//! UI preferences: settings that keys change too, such as the sort order, the fleet layout and the charts of
//! a node. Each has the name of its setting.

use crate::action::UiPreference;
use crate::display_options::{Density, DisplayOptions};
use crate::navigation::Navigation;
use crate::views::fleet;
use crate::views::job;
use crate::views::processes;
use crate::views::users;
use gtop_fleet::query::{SortColumn, SortOrder};

/// The settings that keys change too.
pub const PREFERENCES: [&str; 15] = [
    "sort-fleet",
    "reverse-fleet",
    "sort-processes",
    "reverse-processes",
    "sort-jobs",
    "reverse-jobs",
    "sort-users",
    "reverse-users",
    "fleet-form",
    "fleet-map",
    "fleet-group",
    "node-processes",
    "node-chart",
    "charted",
    "monitor",
];

const fn bool_text(is_on: bool) -> &'static str {
    if is_on { "true" } else { "false" }
}

/// Returns the current values of [`PREFERENCES`], in their order.
pub fn preferences(navigation: &Navigation, display: &DisplayOptions) -> [UiPreference; 15] {
    let [fleet, processes] = [navigation.fleet.order, navigation.processes.order];
    let [jobs, users] = [navigation.job.list.order, navigation.users.order];
    let (layout, metric, grouping) = navigation.fleet.preferences();
    let density = navigation.shared.panel.density.or(navigation.processes.density);
    let monitor = match density.unwrap_or(display.density) {
        Density::Auto => "auto",
        Density::Full => "full",
        Density::Compact => "compact",
    };
    let values = [
        fleet.column,
        bool_text(fleet.is_reversed),
        processes.column,
        bool_text(processes.is_reversed),
        jobs.column,
        bool_text(jobs.is_reversed),
        users.column,
        bool_text(users.is_reversed),
        layout,
        metric,
        grouping,
        bool_text(!navigation.shared.panel.hides_processes),
        bool_text(navigation.shared.panel.charts.is_shown),
        &navigation.shared.panel.charts.setting_value(display),
        monitor,
    ];
    let mut values = values.into_iter();
    PREFERENCES.map(|name| (name, values.next().unwrap_or_default().to_owned()))
}

/// Restores one preference; ignores unknown names and values.
pub fn restore_preference(navigation: &mut Navigation, name: &str, value: &str) {
    let is_on = value == "true";
    let set_column = |order: &mut SortOrder, columns: Vec<SortColumn>| {
        let known = columns.into_iter().find(|column| column.name == value);
        order.column = known.map_or(order.column, |column| column.name);
    };
    match name {
        "sort-fleet" => set_column(&mut navigation.fleet.order, fleet::sort_columns()),
        "reverse-fleet" => navigation.fleet.order.is_reversed = is_on,
        "sort-processes" => set_column(&mut navigation.processes.order, processes::sort_columns()),
        "reverse-processes" => navigation.processes.order.is_reversed = is_on,
        "sort-jobs" => set_column(&mut navigation.job.list.order, job::sort_columns()),
        "reverse-jobs" => navigation.job.list.order.is_reversed = is_on,
        "sort-users" => set_column(&mut navigation.users.order, users::sort_columns()),
        "reverse-users" => navigation.users.order.is_reversed = is_on,
        "node-processes" => navigation.shared.panel.hides_processes = !is_on,
        "node-chart" => navigation.shared.panel.charts.is_shown = is_on,
        // The setting overrides what keys have changed.
        "charted" => navigation.shared.panel.charts.metrics = None,
        "monitor" => (navigation.shared.panel.density, navigation.processes.density) = (None, None),
        _ => navigation.fleet.restore_preference(name, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restored_preferences_are_returned() {
        let display = DisplayOptions { density: Density::Full, ..DisplayOptions::default() };
        let mut navigation = Navigation::default();
        navigation.shared.panel.density = Some(Density::Compact);
        let values = [
            "util",
            "true",
            "gpumem",
            "true",
            "outliers",
            "true",
            "idle-held",
            "true",
            "map",
            "owner",
            "job",
            "false",
            "true",
            "util,mem",
            "full",
        ];
        for (name, value) in PREFERENCES.into_iter().zip(values) {
            restore_preference(&mut navigation, name, value);
        }
        assert_eq!(preferences(&navigation, &display).map(|(_, value)| value), values);
        for name in PREFERENCES {
            restore_preference(&mut navigation, name, "nonsense");
        }
        let values_now = preferences(&navigation, &display).map(|(_, value)| value);
        assert_eq!(
            [0, 8, 10].map(|index: usize| values_now[index].as_str()),
            ["util", "map", "job"]
        );
    }
}
