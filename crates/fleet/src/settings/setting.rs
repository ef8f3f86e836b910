//! The definition of a setting: names, type, default, help, and where it can be set.

use crate::settings::kind::{SettingKind, SettingValue};

/// A setting.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Setting {
    /// Name in files. The option is `--NAME` as a rule, the variable `GTOP_NAME` in upper case.
    pub name: &'static str,
    /// The option if it is not called as the setting; empty otherwise.
    pub(super) long: &'static str,
    /// Short option.
    pub short: Option<char>,
    /// Further long options.
    pub aliases: &'static [&'static str],
    pub kind: SettingKind,
    /// Placeholder for the value in help.
    pub value_name: &'static str,
    /// Default as text; empty for none.
    pub default: &'static str,
    /// Value of an option given without one; then a value needs an equals sign.
    pub default_missing_value: Option<&'static str>,
    /// Options that set one fixed value.
    pub flags: &'static [Flag],
    pub help: &'static str,
    /// Help of `--no-NAME`, for a switch that is on by default.
    pub off_help: &'static str,
    /// What the setup dialog calls it; empty for its name.
    pub label: &'static str,
    /// Its page in the setup dialog; empty if it is not there.
    pub page: &'static str,
    /// Values to step through on the setup page, where the type does not define them.
    pub steps: &'static [&'static str],
    /// Variables of other programs, read if no other source sets a value.
    pub env_aliases: &'static [EnvAlias],
    /// The option is accepted after a subcommand too.
    pub is_global: bool,
    /// The option is generated from this table; otherwise the command line declares it.
    pub has_option: bool,
    /// Options that exclude it.
    pub conflicts: &'static [&'static str],
}

/// An option that sets one fixed value.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Flag {
    /// Name, without `--`.
    pub name: &'static str,
    /// Short option.
    pub short: Option<char>,
    /// The value it sets.
    pub value: &'static str,
    pub help: &'static str,
}

/// A variable of another program.
#[derive(Clone, Copy, Debug)]
pub struct EnvAlias {
    pub variable: &'static str,
    pub mapping: EnvMapping,
}

/// How the value of another program's variable is converted; other values are ignored.
#[derive(Clone, Copy, Debug)]
pub enum EnvMapping {
    /// As that of the `GTOP_` variable.
    SameSyntax,
    /// A list separated by commas; each of these words stands for a value.
    ListWords(&'static [(&'static str, &'static str)]),
    /// Any value but an empty one stands for this value.
    IfSet(&'static str),
    /// Any value but an empty one or `0` stands for this value.
    IfNotZero(&'static str),
}

pub const fn flag(name: &'static str, value: &'static str, help: &'static str) -> Flag {
    Flag { name, short: None, value, help }
}

pub const fn env_alias(variable: &'static str, mapping: EnvMapping) -> EnvAlias {
    EnvAlias { variable, mapping }
}

impl Flag {
    pub const fn short(self, short: char) -> Self {
        Self { short: Some(short), ..self }
    }
}

impl Setting {
    /// Returns a setting of which only the kind is known.
    pub(super) const fn of_kind(kind: SettingKind, value_name: &'static str) -> Self {
        Self {
            name: "",
            long: "",
            short: None,
            aliases: &[],
            kind,
            value_name,
            default: "",
            default_missing_value: None,
            flags: &[],
            help: "",
            off_help: "",
            label: "",
            page: "",
            steps: &[],
            env_aliases: &[],
            is_global: false,
            has_option: true,
            conflicts: &[],
        }
    }

    /// Returns the name of the option, without `--`.
    pub const fn option_name(&self) -> &'static str {
        if self.long.is_empty() { self.name } else { self.long }
    }

    /// Returns the name of the `GTOP_` variable.
    pub fn variable(&self) -> String {
        format!("GTOP_{}", self.name.replace('-', "_").to_uppercase())
    }

    /// Returns the parsed default; `None` if there is none.
    pub fn default_value(&self) -> Option<SettingValue> {
        if self.default.is_empty() { None } else { self.kind.parse(self.default).ok() }
    }

    /// Returns true for a switch that is on by default.
    pub fn is_on_by_default(&self) -> bool {
        self.default_value() == Some(SettingValue::Switch(true))
    }
}
