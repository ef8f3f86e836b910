//! How the value of a setting becomes the field of a group.

use std::time::Duration;

use crate::settings::kind::{ChoiceValue, SettingValue};

/// The source of a value, in ascending precedence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// The default in the declaration.
    #[default]
    Default,
    ConfigFile,
    SetupFile,
    Environment,
    CommandLine,
    /// A change in the setup dialog since the start.
    Changed,
}

/// The origin of a default, for messages.
pub const DEFAULT_ORIGIN: &str = "default";

/// A value, and who set it.
#[derive(Clone, Debug, PartialEq)]
pub struct Given<T> {
    /// The name of the setting.
    pub name: &'static str,
    pub value: T,
    pub layer: Layer,
    /// The origin for messages, such as `config.toml:3`.
    pub origin: String,
}

impl<T> Given<T> {
    /// Returns the name and the origin for messages; `None` for a default.
    pub fn origin_text(&self) -> Option<String> {
        (self.layer != Layer::Default).then(|| format!("{}: {}", self.name, self.origin))
    }
}

/// The type of a field of a group.
pub trait SettingField {
    /// Converts the value of a setting; none if it is unset and has no default.
    fn from_setting(given: Given<Option<SettingValue>>) -> Self;

    /// Returns the value of the setting; none if it is unset.
    fn to_setting(&self) -> Option<SettingValue>;
}

/// A type each value of which has a name in settings.
pub trait Choice: Copy + Default + PartialEq + 'static {
    /// The values with their names, in the order of help. The first is the default, unless the declaration has another.
    const CHOICES: &'static [(ChoiceValue, Self)];

    /// Returns the value with this name.
    fn of_word(word: &str) -> Option<Self> {
        let found = Self::CHOICES.iter().find(|(choice, _)| choice.name == word);
        found.map(|(_, value)| *value)
    }

    /// Returns the name of a value.
    fn name(self) -> &'static str {
        let found = Self::CHOICES.iter().find(|(_, value)| *value == self);
        found.map_or("", |(choice, _)| choice.name)
    }
}

/// Returns the names of a type's values.
pub(super) fn choice_values<T: Choice>() -> Vec<ChoiceValue> {
    T::CHOICES.iter().map(|(choice, _)| *choice).collect()
}

impl<T: SettingField> SettingField for Given<T> {
    fn from_setting(given: Given<Option<SettingValue>>) -> Self {
        let (name, layer, origin) = (given.name, given.layer, given.origin.clone());
        Self { name, value: T::from_setting(given), layer, origin }
    }

    fn to_setting(&self) -> Option<SettingValue> {
        self.value.to_setting()
    }
}

impl<T: SettingField> SettingField for Option<T> {
    fn from_setting(given: Given<Option<SettingValue>>) -> Self {
        // An empty text means none.
        let none = SettingValue::Text(String::new());
        let is_set = given.value.as_ref().is_some_and(|value| *value != none);
        is_set.then(|| T::from_setting(given))
    }

    fn to_setting(&self) -> Option<SettingValue> {
        self.as_ref().and_then(T::to_setting)
    }
}

impl<T: Choice> SettingField for T {
    fn from_setting(given: Given<Option<SettingValue>>) -> Self {
        let Some(SettingValue::Choice(word)) = given.value else { return Self::default() };
        Self::of_word(word).unwrap_or_default()
    }

    fn to_setting(&self) -> Option<SettingValue> {
        Some(SettingValue::Choice(self.name()))
    }
}

/// Reads a type from its kind of value. A declaration has no other kind.
macro_rules! field {
    ($kind:ident => $type:ty) => {
        impl SettingField for $type {
            fn from_setting(given: Given<Option<SettingValue>>) -> Self {
                let Some(SettingValue::$kind(value)) = given.value else { return Self::default() };
                value
            }

            fn to_setting(&self) -> Option<SettingValue> {
                Some(SettingValue::$kind(self.clone()))
            }
        }
    };
}

field!(Switch => bool);
field!(Seconds => Duration);
field!(Count => u32);
field!(PercentPair => (u8, u8));
field!(Choice => &'static str);
field!(Text => String);
field!(List => Vec<String>);
