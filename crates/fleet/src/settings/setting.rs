//! The definition of a setting: names, type, default, help, and where it can be set.

use crate::query::SortColumn;
use crate::settings::column_spec::ColumnSpec;
use crate::settings::kind::{ChoiceValue, SettingKind, SettingValue};

/// A setting.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Setting {
    /// Name in files. The option is `--NAME` as a rule, the variable `GTOP_NAME` in upper case.
    pub name: &'static str,
    /// The option if it is not called as the setting; empty otherwise.
    long: &'static str,
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

/// Returns a setting with a value; everything but these three is left at the default.
pub const fn option(name: &'static str, kind: SettingKind, value_name: &'static str) -> Setting {
    Setting {
        name,
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

/// Returns a switch that is off by default.
pub const fn switch(name: &'static str) -> Setting {
    option(name, SettingKind::Switch, "").default("false")
}

/// Returns a setting with a fixed list of values, set by [`Setting::values`].
pub const fn choice(name: &'static str, value_name: &'static str) -> Setting {
    option(name, SettingKind::Choice(&[]), value_name)
}

/// Returns the sort order of a view; by default the first.
pub const fn sort(name: &'static str, columns: fn() -> Vec<SortColumn>) -> Setting {
    option(name, SettingKind::Sort(columns), "COLUMN").default("node")
}

/// Returns the columns of a table; by default as many as fit.
pub const fn columns(name: &'static str, columns: fn() -> Vec<ColumnSpec>) -> Setting {
    option(name, SettingKind::Columns(columns), "COLUMN").page("Columns")
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
    pub const fn help(self, help: &'static str) -> Self {
        Self { help, ..self }
    }

    pub const fn short(self, short: char) -> Self {
        Self { short: Some(short), ..self }
    }

    /// Gives the option another name than the setting.
    pub const fn long(self, long: &'static str) -> Self {
        Self { long, ..self }
    }

    pub const fn aliases(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// Sets the values of a choice; the first is the default.
    pub const fn values(self, values: &'static [ChoiceValue]) -> Self {
        let default = if let [first, ..] = values { first.name } else { "" };
        Self { kind: SettingKind::Choice(values), default, ..self }
    }

    pub const fn default(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    /// Turns a switch on by default; `off_help` is the help of `--no-NAME`.
    pub const fn on_by_default(self, off_help: &'static str) -> Self {
        Self { default: "true", off_help, ..self }
    }

    /// Sets the value of the option given without one.
    pub const fn bare(self, value: &'static str) -> Self {
        Self { default_missing_value: Some(value), ..self }
    }

    pub const fn flags(self, flags: &'static [Flag]) -> Self {
        Self { flags, ..self }
    }

    pub const fn page(self, page: &'static str) -> Self {
        Self { page, ..self }
    }

    /// Names it in words for the setup dialog.
    pub const fn label(self, label: &'static str) -> Self {
        Self { label, ..self }
    }

    pub const fn steps(self, steps: &'static [&'static str]) -> Self {
        Self { steps, ..self }
    }

    pub const fn env_aliases(self, env_aliases: &'static [EnvAlias]) -> Self {
        Self { env_aliases, ..self }
    }

    pub const fn global(self) -> Self {
        Self { is_global: true, ..self }
    }

    /// Leaves the option to the declaration of the command line.
    pub const fn without_option(self) -> Self {
        Self { has_option: false, ..self }
    }

    pub const fn conflicts(self, conflicts: &'static [&'static str]) -> Self {
        Self { conflicts, ..self }
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
