//! How a setting of a group is declared: its kind, and what the builder methods add.

use std::marker::PhantomData;
use std::time::Duration;

use crate::query::SortColumn;
use crate::settings::column_spec::ColumnSpec;
use crate::settings::field::{Choice, Given, choice_values};
use crate::settings::kind::{Check, SettingKind};
use crate::settings::setting::{EnvAlias, Flag, Setting};

/// A setting whose value is read as a `T`. [`settings!`](crate::settings!) gives it its name.
#[derive(Debug)]
#[must_use]
pub struct Declaration<T> {
    setting: Setting,
    value: PhantomData<fn() -> T>,
}

/// Returns a switch that is off by default.
pub const fn switch() -> Declaration<bool> {
    Declaration::of(Setting { default: "false", ..Setting::of_kind(SettingKind::Switch, "") })
}

/// Returns a switch without a default.
pub const fn open_switch() -> Declaration<Option<bool>> {
    Declaration::of(Setting::of_kind(SettingKind::Switch, ""))
}

/// Returns a choice among the values of a type; by default the first.
pub const fn choice<T: Choice>(value_name: &'static str) -> Declaration<T> {
    let default = if let [(first, _), ..] = T::CHOICES { first.name } else { "" };
    let kind = SettingKind::Choice(choice_values::<T>);
    Declaration::of(Setting { default, ..Setting::of_kind(kind, value_name) })
}

/// Returns the sort order of a view; by default by node.
pub const fn sort(columns: fn() -> Vec<SortColumn>) -> Declaration<&'static str> {
    let setting = Setting::of_kind(SettingKind::Sort(columns), "COLUMN");
    Declaration::of(Setting { default: "node", ..setting })
}

/// Returns the columns of a table; by default as many as fit.
pub const fn columns(columns: fn() -> Vec<ColumnSpec>) -> Declaration<Vec<String>> {
    Declaration::of(Setting::of_kind(SettingKind::Columns(columns), "COLUMN")).page("Columns")
}

/// Returns a duration in seconds.
pub const fn seconds(min: f64, max: f64) -> Declaration<Option<Duration>> {
    Declaration::of(Setting::of_kind(SettingKind::Seconds { min, max }, "SECONDS"))
}

/// Returns a whole number.
pub const fn count(min: u32, max: u32) -> Declaration<Option<u32>> {
    Declaration::of(Setting::of_kind(SettingKind::Count { min, max }, "COUNT"))
}

/// Returns two percentages, the smaller first.
pub const fn percent_pair() -> Declaration<Option<(u8, u8)>> {
    Declaration::of(Setting::of_kind(SettingKind::PercentPair, "PERCENT"))
}

/// Returns a text.
pub const fn text(check: Check, value_name: &'static str) -> Declaration<Option<String>> {
    Declaration::of(Setting::of_kind(SettingKind::Text(check), value_name))
}

/// Returns a list of texts.
pub const fn list(check: Check, value_name: &'static str) -> Declaration<Vec<String>> {
    Declaration::of(Setting::of_kind(SettingKind::List(check), value_name))
}

/// Returns a list of distinct texts: at least one, at most `max`.
pub const fn distinct_list(
    check: Check,
    max: usize,
    value_name: &'static str,
) -> Declaration<Vec<String>> {
    Declaration::of(Setting::of_kind(SettingKind::DistinctList(check, max), value_name))
}

impl<T> Declaration<Option<T>> {
    /// Sets the default, so that there is always a value.
    pub const fn or(self, default: &'static str) -> Declaration<T> {
        Declaration::of(Setting { default, ..self.setting })
    }
}

impl Declaration<bool> {
    /// Turns a switch on by default; `off_help` is the help of `--no-NAME`.
    pub const fn on_by_default(self, off_help: &'static str) -> Self {
        Self::of(Setting { default: "true", off_help, ..self.setting })
    }
}

/// Declares a method for each of these fields of [`Setting`], which sets it.
macro_rules! setters {
    ($($(#[$about:meta])* $field:ident: $type:ty,)*) => {
        $(
            $(#[$about])*
            pub const fn $field(self, $field: $type) -> Self {
                Self::of(Setting { $field, ..self.setting })
            }
        )*
    };
}

impl<T> Declaration<T> {
    const fn of(setting: Setting) -> Self {
        Self { setting, value: PhantomData }
    }

    /// Reads the value together with its origin.
    pub const fn with_origin(self) -> Declaration<Given<T>> {
        Declaration::of(self.setting)
    }

    setters! {
        default: &'static str,
        help: &'static str,
        /// Gives the option another name than the setting.
        long: &'static str,
        aliases: &'static [&'static str],
        flags: &'static [Flag],
        page: &'static str,
        /// Names it in words for the setup dialog.
        label: &'static str,
        steps: &'static [&'static str],
        env_aliases: &'static [EnvAlias],
        conflicts: &'static [&'static str],
    }

    pub const fn short(self, short: char) -> Self {
        Self::of(Setting { short: Some(short), ..self.setting })
    }

    /// Sets the value of the option given without one.
    pub const fn bare(self, value: &'static str) -> Self {
        Self::of(Setting { default_missing_value: Some(value), ..self.setting })
    }

    pub const fn global(self) -> Self {
        Self::of(Setting { is_global: true, ..self.setting })
    }

    /// Leaves the option to the declaration of the command line.
    pub const fn without_option(self) -> Self {
        Self::of(Setting { has_option: false, ..self.setting })
    }

    /// Returns the setting under its name.
    pub const fn named(self, name: &'static str) -> Setting {
        Setting { name, ..self.setting }
    }
}
