//! Generates the pages of the setup dialog from the table of settings.

use super::kind::SettingKind;
use super::setting::Setting;
use super::settings::{Layer, Settings};
use super::table::SETTINGS;
use crate::ui::{Setup, SetupEntry, SetupPage};

/// Titles of the pages, in order.
const PAGES: [&str; 7] =
    ["General", "Fleet", "Devices", "Chart", "Processes", "Selection", "Columns"];

/// Returns the pages with the current values.
pub fn setup(settings: &Settings) -> Setup {
    let pages = PAGES.into_iter().map(|title| SetupPage {
        title,
        entries: SETTINGS
            .iter()
            .filter(|setting| setting.page == Some(title))
            .map(|setting| entry(settings, setting))
            .collect(),
    });
    Setup::new(pages.collect())
}

fn entry(settings: &Settings, setting: &'static Setting) -> SetupEntry {
    let value = settings.value(setting.name).map(|value| value.to_string()).unwrap_or_default();
    let steps = match setting.kind {
        SettingKind::Switch => vec!["false", "true"],
        SettingKind::Choice(choices) => choices.iter().map(|choice| choice.name).collect(),
        SettingKind::Seconds { .. }
        | SettingKind::Count { .. }
        | SettingKind::PercentPair
        | SettingKind::Text(_)
        | SettingKind::List(_)
        | SettingKind::DistinctList(..)
        | SettingKind::Columns(_) => setting.steps.to_vec(),
    };
    let help = match setting.kind {
        SettingKind::Choice(choices) => {
            let choice = choices.iter().find(|choice| choice.name == value);
            choice.map_or_else(
                || setting.help.to_owned(),
                |choice| format!("{value}: {}", choice.help),
            )
        }
        SettingKind::Switch
        | SettingKind::Seconds { .. }
        | SettingKind::Count { .. }
        | SettingKind::PercentPair
        | SettingKind::Text(_)
        | SettingKind::List(_)
        | SettingKind::DistinctList(..)
        | SettingKind::Columns(_) => setting.help.to_owned(),
    };
    SetupEntry {
        name: setting.name,
        value,
        steps,
        is_typed: !matches!(
            setting.kind,
            SettingKind::Switch | SettingKind::Choice(_) | SettingKind::Columns(_)
        ),
        columns: if let SettingKind::Columns(headings) = setting.kind { headings } else { &[] },
        help,
        origin: settings.origin(setting.name).to_owned(),
        is_changed: settings.layer(setting.name) == Layer::Changed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_settings_and_every_setting_a_known_page() {
        for title in PAGES {
            assert!(SETTINGS.iter().any(|setting| setting.page == Some(title)), "{title}");
        }
        let pages = SETTINGS.iter().filter_map(|setting| setting.page);
        assert!(pages.into_iter().all(|page| PAGES.contains(&page)));
    }
}
