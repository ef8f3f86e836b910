//! Applies settings to the screen, changes them while it runs, and saves them.

use std::collections::BTreeSet;
use std::path::Path;

use tokio::sync::mpsc;

use crate::app::recent_filters::RecentFilterFile;
use crate::app::variable;
use crate::config::{self, ConfigPaths, Settings};
use crate::setting_table::{self, FilterSettings, IntervalSettings};
use gtop_collect::scheduler::SchedulerKind;
use gtop_fleet::query::{DisplaySelection, NameColumns, VisibleDevice};
use gtop_fleet::settings::Layer;
use gtop_local::process::account::Account;
use gtop_local::storage::user_dirs;
use gtop_ui::{
    DisplayOptions, Keymap, RedrawPace, ScreenSettings, SettingsEvent, Theme, UiConfig,
    UiPreference,
};

/// Upper limit for the indices in `CUDA_VISIBLE_DEVICES`.
const MAX_VISIBLE_DEVICES: usize = 1024;

/// The settings of a running screen.
#[derive(Debug)]
pub(super) struct SettingsController {
    pub(super) settings: Settings,
    /// Paths of the configuration files; `None` without a home directory, then nothing is saved.
    pub(super) paths: Option<ConfigPaths>,
    /// Notifies the screen of changes and errors.
    pub(super) events: mpsc::Sender<SettingsEvent>,
}

impl SettingsController {
    pub(super) fn ui_config(&self) -> UiConfig {
        let settings: ScreenSettings = self.settings.read();
        let IntervalSettings { interval, redraw, .. } = self.settings.read();
        UiConfig {
            theme: settings.chosen_theme(variable),
            detects_background: settings.is_light().is_none(),
            display: display_options(&self.settings, variable),
            interval: interval.value,
            redraw: RedrawPace { interval: redraw.value, is_fixed: redraw.layer != Layer::Default },
            settings,
            setup: setting_table::setup(&self.settings),
        }
    }

    /// Changes a setting; an invalid value is reported and changes nothing.
    pub(super) async fn change(&mut self, name: &str, text: &str) {
        if let Err(why) = self.settings.change(name, text) {
            self.send_event(SettingsEvent::Rejected(name.to_owned(), text.to_owned(), why)).await;
        }
        self.publish().await;
    }

    /// Saves the settings that differ from `config.toml`, including preferences changed by keys.
    pub(super) async fn save(&mut self, changed: Vec<UiPreference>) {
        let Some(paths) = &self.paths else {
            self.send_event(SettingsEvent::Message("cannot save: HOME is not set".to_owned()))
                .await;
            return;
        };
        for (name, value) in changed {
            if let Err(why) = self.settings.change(name, &value) {
                self.send_event(SettingsEvent::Message(why)).await;
            }
        }
        let message = match paths.save(&config::setup_text(&self.settings)) {
            Ok(path) => {
                let names: Vec<_> =
                    self.settings.to_save().iter().map(|(setting, _)| setting.name).collect();
                self.settings.mark_saved("setup.toml");
                format!("saved to {}: {}", tilde_path(&path), summarize(&names))
            }
            Err(error) => error.to_string(),
        };
        self.send_event(SettingsEvent::Message(message)).await;
        self.publish().await;
    }

    /// Keeps a filter for later runs.
    pub(super) async fn remember_filter(&self, filter: String) {
        if let Err(problem) = RecentFilterFile::of_user().remember(filter).await {
            self.send_event(SettingsEvent::Message(problem)).await;
        }
    }

    async fn publish(&self) {
        self.send_event(SettingsEvent::Changed(Box::new(self.ui_config()))).await;
    }

    async fn send_event(&self, event: SettingsEvent) {
        // Fails if the screen has ended.
        self.events.send(event).await.ok();
    }
}

/// Returns the key bindings; files with problems in them are ignored.
pub(super) fn key_bindings(settings: &Settings) -> Keymap {
    let scheme = settings.read::<ScreenSettings>().key_scheme;
    Keymap::configured(&settings.keys, scheme).0
}

/// Returns a path with `~` for the home directory.
fn tilde_path(path: &Path) -> String {
    let home = user_dirs::home();
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    }
}

/// Returns the first few names and the number of the others.
fn summarize(names: &[&str]) -> String {
    match names {
        [] => "no settings differ from config.toml".to_owned(),
        [first, second, third, more @ ..] if more.len() > 1 => {
            format!("{first}, {second}, {third} and {} more", more.len())
        }
        names => names.join(", "),
    }
}

/// Returns colours and glyphs; `variable` reads an environment variable.
pub(super) fn theme(settings: &Settings, variable: impl Fn(&str) -> Option<String>) -> Theme {
    settings.read::<ScreenSettings>().chosen_theme(variable)
}

/// Returns the display options; `variable` reads an environment variable.
pub(super) fn display_options(
    settings: &Settings,
    variable: impl Fn(&str) -> Option<String>,
) -> DisplayOptions {
    let scheduler = SchedulerKind::in_path(variable("PATH").unwrap_or_default());
    DisplayOptions {
        has_scheduler: scheduler.is_some(),
        scheduler: &scheduler.unwrap_or_default().profile().words,
        ..settings.read::<ScreenSettings>().display_options(selection(settings, variable))
    }
}

/// Returns the filter of devices and processes.
fn selection(settings: &Settings, variable: impl Fn(&str) -> Option<String>) -> DisplaySelection {
    let filters: FilterSettings = settings.read();
    let screen: ScreenSettings = settings.read();
    // An unset CUDA_VISIBLE_DEVICES makes all devices visible.
    let visible = filters.only_visible.then(|| variable("CUDA_VISIBLE_DEVICES"));
    let users = filters.user_processes.into_iter().flat_map(|user| {
        if user == setting_table::CURRENT_USER { Account::own_names() } else { vec![user] }
    });
    DisplaySelection {
        devices: Some(numbers(&filters.only)).filter(|numbers| !numbers.is_empty()),
        visible: visible.flatten().map(|listed| visible_devices(&listed)),
        kinds: filters.process_type,
        users: users.collect(),
        pids: numbers(&filters.pid),
        names: NameColumns {
            has_index: screen.gpu_index,
            has_name: screen.gpu_name,
            has_uuid: screen.gpu_uuid,
        },
    }
}

fn numbers(texts: &[String]) -> BTreeSet<u32> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

/// Parses `CUDA_VISIBLE_DEVICES` as CUDA does: indices or prefixes of UUIDs, up to the first that is neither.
fn visible_devices(listed: &str) -> Vec<VisibleDevice> {
    let devices = listed.split(',').take(MAX_VISIBLE_DEVICES).map_while(|device| {
        let device = device.trim();
        if device.starts_with("GPU-") || device.starts_with("MIG-") {
            return Some(VisibleDevice::Uuid(device.into()));
        }
        device.parse().ok().map(VisibleDevice::Index)
    });
    devices.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::SettingSources;
    use crate::setting_table::setting;
    use gtop_fleet::query::ProcessKinds;
    use gtop_fleet::settings::{Choice as _, SettingGroup as _};
    use gtop_ui::{ChartMetric, Density, GlyphSet, Palette, ThemeName};

    fn settings_with(values: &[(&str, &str)]) -> Settings {
        let value = |(name, text): &(&str, &str)| {
            let setting = setting(name).unwrap();
            (setting.name, setting.kind.parse(text).unwrap())
        };
        let args: BTreeMap<_, _> = values.iter().map(value).collect();
        setting_table::merge(SettingSources { args, ..SettingSources::default() }, |_| None)
    }

    #[test]
    fn default_settings_give_the_default_display() {
        let scheduler = &SchedulerKind::default().profile().words;
        let expected = DisplayOptions { scheduler, ..DisplayOptions::default() };
        assert_eq!(display_options(&settings_with(&[]), |_| None), expected);
        let variable = |name: &str| (name == "LANG").then(|| "C.UTF-8".to_owned());
        assert_eq!(
            theme(&settings_with(&[]), variable),
            ScreenSettings::default().chosen_theme(variable)
        );
    }

    #[test]
    fn theme_and_background_are_set_independently() {
        let colourless = |_: &str| None;
        for (values, palette, detects_background) in [
            (vec![], Palette::Neutral, true),
            (vec![("theme", "hot")], Palette::HotNeutral, true),
            (vec![("theme", "hot"), ("background", "light")], Palette::HotLight, false),
            (
                vec![("theme", "color-blind"), ("background", "light")],
                Palette::ColourBlindLight,
                false,
            ),
            (vec![("background", "light")], Palette::Light, false),
            (vec![("key-scheme", "nvitop")], Palette::Neutral, true),
            (vec![("key-scheme", "nvitop"), ("background", "light")], Palette::Light, false),
            (vec![("key-scheme", "nvitop"), ("theme", "mono")], Palette::Mono, true),
            (vec![("key-scheme", "htop")], Palette::Neutral, true),
            (vec![("theme", "light")], Palette::Light, false),
            (vec![("theme", "dark"), ("background", "light")], Palette::Light, false),
            (vec![("theme", "light"), ("background", "auto")], Palette::Light, false),
            (vec![("theme", "light"), ("background", "dark")], Palette::Dark, false),
        ] {
            let settings = settings_with(&values);
            assert_eq!(theme(&settings, colourless).palette, palette, "{values:?}");
            let screen: ScreenSettings = settings.read();
            assert_eq!(screen.is_light().is_none(), detects_background, "{values:?}");
        }
    }

    #[test]
    fn each_theme_of_the_table_has_its_own_palette() {
        let mut seen = Vec::new();
        for (choice, _) in ThemeName::CHOICES.iter().skip(1) {
            let theme = theme(&settings_with(&[("theme", choice.name)]), |_| None).palette;
            assert!(!seen.contains(&theme), "{}", choice.name);
            seen.push(theme);
        }
    }

    #[test]
    fn settings_reach_the_display_options() {
        let settings = settings_with(&[
            ("gpu-util-thresh", "20,60"),
            ("fahrenheit", "true"),
            ("monitor", "compact"),
            ("ascii", "true"),
            ("readonly", "true"),
            ("charted", "power,enc,mem"),
        ]);
        let display = display_options(&settings, |_| None);
        assert_eq!(display.load, display.device);
        assert!((display.load.high - 60.0).abs() < f32::EPSILON);
        assert!(
            display.is_fahrenheit && display.is_readonly && display.density == Density::Compact
        );
        assert!(!display.chart.is_reversed);
        assert_eq!(
            display.chart.metrics,
            ["power", "enc", "mem"].map(|name| ChartMetric::from_name(name).unwrap())
        );
        assert_eq!(theme(&settings, |_| None).glyphs, GlyphSet::Ascii);
    }

    #[test]
    fn ascii_follows_the_locale_until_it_is_set() {
        let glyphs = |settings: &Settings, locale: &str| {
            theme(settings, |name| (name == "LC_ALL").then(|| locale.to_owned())).glyphs
        };
        let mut settings = settings_with(&[]);
        assert_eq!(glyphs(&settings, "C"), GlyphSet::Ascii);
        assert_eq!(glyphs(&settings, "C.UTF-8"), GlyphSet::Unicode);
        settings.change("ascii", "true").unwrap();
        assert_eq!(glyphs(&settings, "C.UTF-8"), GlyphSet::Ascii);
        settings.change("ascii", "false").unwrap();
        assert_eq!(glyphs(&settings, "C"), GlyphSet::Unicode);
        let written: Vec<_> = settings
            .to_save()
            .iter()
            .map(|(setting, value)| format!("{}={value}", setting.name))
            .collect();
        assert_eq!(written, ["ascii=false"]);
    }

    #[test]
    fn filters_become_the_display_selection() {
        let selected = |values: &[(&str, &str)], variables: &[(&str, &str)]| {
            display_options(&settings_with(values), |name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
            .selection
        };
        let selection = selected(
            &[
                ("only", "0,2"),
                ("process-type", "only-graphics"),
                ("user-processes", "@,bob"),
                ("pid", "7"),
                ("gpu-name", "false"),
            ],
            &[],
        );
        assert_eq!(selection.devices, Some([0, 2].into()));
        assert_eq!(selection.kinds, ProcessKinds::OnlyGraphics);
        assert_eq!(
            selection.users,
            Account::own_names().into_iter().chain(["bob".to_owned()]).collect()
        );
        assert!(
            selection.pids.contains(&7) && !selection.names.has_name && selection.names.has_index
        );
        let visible = |listed: Option<&str>| {
            let variables: Vec<_> =
                listed.iter().map(|text| ("CUDA_VISIBLE_DEVICES", *text)).collect();
            selected(&[("only-visible", "true")], &variables).visible
        };
        let (index, uuid) = (VisibleDevice::Index, |text: &str| VisibleDevice::Uuid(text.into()));
        for (listed, expected) in [
            (None, None),
            (Some(""), Some(vec![])),
            (Some("0,2"), Some(vec![index(0), index(2)])),
            (Some("GPU-ab, MIG-cd"), Some(vec![uuid("GPU-ab"), uuid("MIG-cd")])),
            (Some("1,-1,0"), Some(vec![index(1)])),
            (Some("NoDevFiles"), Some(vec![])),
        ] {
            assert_eq!(visible(listed), expected, "{listed:?}");
        }
        assert_eq!(selected(&[], &[("CUDA_VISIBLE_DEVICES", "0")]).visible, None);
    }

    #[tokio::test]
    async fn a_valid_change_is_published_and_an_invalid_one_rejected() {
        let home = tempfile::tempdir().unwrap();
        let paths = ConfigPaths::at(home.path().join("gtop/config.toml")).ok();
        let (events, mut published) = mpsc::channel(8);
        let mut controller = SettingsController { settings: settings_with(&[]), paths, events };
        controller.change("interval", "2").await;
        let Some(SettingsEvent::Changed(config)) = published.recv().await else { panic!() };
        assert_eq!(config.interval.as_secs(), 2);
        controller.change("interval", "0").await;
        let Some(SettingsEvent::Rejected(name, text, error)) = published.recv().await else {
            panic!()
        };
        assert_eq!((name.as_str(), text.as_str()), ("interval", "0"));
        assert!(error.starts_with("interval: expected seconds"), "{error}");
        assert!(
            matches!(published.recv().await, Some(SettingsEvent::Changed(config)) if config.interval.as_secs() == 2)
        );
        controller
            .save(vec![("fleet-form", "map".to_owned()), ("reverse-users", "true".to_owned())])
            .await;
        let Some(SettingsEvent::Message(message)) = published.recv().await else { panic!() };
        let path = home.path().join("gtop/setup.toml");
        let names = "interval, fleet-form, reverse-users";
        assert_eq!(message, format!("saved to {}: {names}", path.display()));
        let written = std::fs::read_to_string(path).unwrap();
        let expected = "\ninterval = 2\nfleet-form = \"map\"\nreverse-users = true\n";
        assert!(written.ends_with(expected), "{written}");
        let Some(SettingsEvent::Changed(config)) = published.recv().await else { panic!() };
        assert!(config.settings.texts().contains(&("fleet-form", "map".to_owned())));
    }
}
