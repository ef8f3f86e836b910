//! Groups of settings: structs whose fields are the values, each declared once.

use crate::settings::field::{DEFAULT_ORIGIN, Given, Layer};
use crate::settings::kind::SettingValue;
use crate::settings::setting::Setting;

/// A group of settings, declared by [`settings!`](crate::settings!).
pub trait SettingGroup {
    /// The settings, in the order of `--help`.
    const TABLE: &'static [Setting];

    /// Reads all fields; `value` returns the value of the setting of a name.
    fn read(value: impl Fn(&'static str) -> Given<Option<SettingValue>>) -> Self;

    /// Returns the names of all settings with their values, as on the command line.
    fn texts(&self) -> Vec<(&'static str, String)>;
}

/// Declares a [`SettingGroup`]: each field with its type and its [`Declaration`](crate::settings::Declaration). The
/// setting has the name of the field, with `-` for `_`.
#[macro_export]
macro_rules! settings {
    ($(#[$about:meta])* $seen:vis struct $group:ident {
        $($field_seen:vis $field:ident: $type:ty = $declaration:expr,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        $seen struct $group {
            $($field_seen $field: $type,)*
        }

        impl $crate::settings::SettingGroup for $group {
            const TABLE: &'static [$crate::settings::Setting] = &[$({
                const DECLARATION: $crate::settings::Declaration<$type> = $declaration;
                DECLARATION.named($crate::settings!(@name $field))
            }),*];

            fn read(
                value: impl Fn(
                    &'static str,
                ) -> $crate::settings::Given<Option<$crate::settings::SettingValue>>,
            ) -> Self {
                Self {
                    $($field: $crate::settings::SettingField::from_setting(value(
                        $crate::settings!(@name $field),
                    )),)*
                }
            }

            fn texts(&self) -> Vec<(&'static str, String)> {
                vec![$((
                    $crate::settings!(@name $field),
                    $crate::settings::SettingField::to_setting(&self.$field)
                        .map(|value| value.to_string())
                        .unwrap_or_default(),
                )),*]
            }
        }

        impl Default for $group {
            fn default() -> Self {
                $crate::settings::default_group()
            }
        }
    };
    (@name $field:ident) => {{
        const BYTES: [u8; stringify!($field).len()] =
            $crate::settings::dashed(stringify!($field));
        const NAME: &str = match str::from_utf8(&BYTES) {
            Ok(name) => name,
            Err(_) => "",
        };
        NAME
    }};
}

/// Returns the defaults of a group.
#[doc(hidden)]
pub fn default_group<G: SettingGroup>() -> G {
    G::read(|name| {
        let setting = G::TABLE.iter().find(|setting| setting.name == name);
        let value = setting.and_then(Setting::default_value);
        Given { name, value, layer: Layer::Default, origin: DEFAULT_ORIGIN.to_owned() }
    })
}

/// Returns the name of a field with `-` for `_`.
#[doc(hidden)]
pub const fn dashed<const LENGTH: usize>(field: &str) -> [u8; LENGTH] {
    let mut name = [b'-'; LENGTH];
    let (mut letters, mut places) = (field.as_bytes(), name.as_mut_slice());
    while let ([letter, more_letters @ ..], [place, more_places @ ..]) = (letters, places) {
        if *letter != b'_' {
            *place = *letter;
        }
        (letters, places) = (more_letters, more_places);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use crate::query::ProcessKinds;
    use crate::settings::{
        check, choice, count, list, open_switch, percent_pair, seconds, switch, text,
    };

    settings! {
        /// One of each kind.
        struct Sample {
            is_on: bool = switch(),
            is_open: Option<bool> = open_switch(),
            process_type: ProcessKinds = choice("TYPE"),
            every_so_often: Duration = seconds(0.5, 60.0).or("2.5"),
            limit: Option<Duration> = seconds(0.5, 60.0),
            most: Option<u32> = count(1, 8),
            shares: Option<(u8, u8)> = percent_pair(),
            login: Given<Option<String>> = text(check::login, "NAME").with_origin(),
            hosts: Vec<String> = list(check::any, "HOST"),
        }
    }

    const NAMES: [&str; 9] = [
        "is-on",
        "is-open",
        "process-type",
        "every-so-often",
        "limit",
        "most",
        "shares",
        "login",
        "hosts",
    ];

    fn values(sample: &Sample) -> Vec<String> {
        sample.texts().into_iter().map(|(_, value)| value).collect()
    }

    #[test]
    fn settings_are_named_after_fields_and_read_as_declared() {
        assert!(Sample::TABLE.iter().map(|setting| setting.name).eq(NAMES));
        let defaults = Sample::default();
        assert_eq!(values(&defaults), ["false", "", "all", "2.5", "", "", "", "", ""]);
        let texts = ["true", "false", "graphics", "1", "0.5", "8", "10,75", "ada", "a,b"];
        let read = Sample::read(|name| {
            let index = NAMES.iter().position(|known| *known == name).unwrap();
            let value = Sample::TABLE[index].kind.parse(texts[index]).ok();
            let (layer, origin) = (Layer::ConfigFile, "config.toml:3".to_owned());
            Given { name, value, layer, origin }
        });
        let expected = Sample {
            is_on: true,
            is_open: Some(false),
            process_type: ProcessKinds::Graphics,
            every_so_often: Duration::from_secs(1),
            limit: Some(Duration::from_millis(500)),
            most: Some(8),
            shares: Some((10, 75)),
            login: Given {
                name: "login",
                value: Some("ada".to_owned()),
                layer: Layer::ConfigFile,
                origin: "config.toml:3".to_owned(),
            },
            hosts: vec!["a".to_owned(), "b".to_owned()],
        };
        assert_eq!(read, expected);
        assert_eq!(values(&read), texts);
        assert_eq!(read.login.origin_text().unwrap(), "login: config.toml:3");
        assert_eq!(defaults.login.origin_text(), None);
    }
}
