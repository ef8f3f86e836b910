//! What there is to say of a setting: its names, what it takes, where it stands.

use super::kind::{Kind, Value};

/// Something that can be set.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name in files; the option is this behind `--`, the variable this in capitals behind `GTOP_`.
    pub name: &'static str,
    /// Its option of one letter.
    pub short: Option<char>,
    /// Further names of the option.
    pub aliases: &'static [&'static str],
    /// What it takes.
    pub kind: Kind,
    /// How help calls what it takes.
    pub value_name: &'static str,
    /// What it is when nobody says anything; empty for nothing.
    pub default: &'static str,
    /// What an option without a value means; then values need an equals sign.
    pub default_missing_value: Option<&'static str>,
    /// Options that stand for one value.
    pub flags: &'static [Flag],
    /// What it does.
    pub help: &'static str,
    /// What `--no-NAME` does, of a switch that is on unless turned off.
    pub off_help: &'static str,
    /// Under which heading help lists it.
    pub heading: &'static str,
    /// The setup page it stands on.
    pub page: Option<&'static str>,
    /// Values the setup page goes through, where the kind does not tell.
    pub steps: &'static [&'static str],
    /// Foreign variables that are read where nothing of ours says otherwise.
    pub env_aliases: &'static [EnvAlias],
    /// Its option may stand behind a subcommand.
    pub is_global: bool,
    /// The option is made from this table, and not declared with those that belong to it.
    pub has_option: bool,
    /// Options that cannot stand beside it.
    pub conflicts: &'static [&'static str],
}

/// An option that stands for one value.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its name behind `--`.
    pub name: &'static str,
    /// Its one letter.
    pub short: Option<char>,
    /// The value.
    pub value: &'static str,
    /// What it does.
    pub help: &'static str,
}

/// A variable that is not ours.
#[derive(Clone, Copy, Debug)]
pub struct EnvAlias {
    /// Its name.
    pub variable: &'static str,
    /// How it is read.
    pub mapping: EnvMapping,
}

/// How a foreign variable is read; what it means not is passed over.
#[derive(Clone, Copy, Debug)]
pub enum EnvMapping {
    /// As our own would be.
    SameSyntax,
    /// One of these words in a list with commas means a value.
    ListWords(&'static [(&'static str, &'static str)]),
    /// Set to anything but nothing means a value.
    IfSet(&'static str),
    /// Set to anything but nothing and `0` means a value.
    IfNotZero(&'static str),
}

impl Setting {
    /// Returns the name of its variable.
    pub fn variable(&self) -> String {
        format!("GTOP_{}", self.name.replace('-', "_").to_uppercase())
    }

    /// Returns what it is when nobody says anything.
    pub fn default_value(&self) -> Option<Value> {
        if self.default.is_empty() { None } else { self.kind.parse(self.default).ok() }
    }

    /// Says whether it is a switch that is on unless turned off.
    pub fn is_on_by_default(&self) -> bool {
        self.default_value() == Some(Value::Switch(true))
    }
}
