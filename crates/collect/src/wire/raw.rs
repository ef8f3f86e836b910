//! A value as it is in a frame: absent, `null`, a number, a flag, or of the wrong type.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use gtop_model::{Reading, Reason};

/// A number or a flag in a frame.
///
/// A value of the wrong type does not invalidate the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Raw<T> {
    /// The key is absent.
    #[default]
    Absent,
    /// The value is `null`.
    Null,
    /// A value of the right type.
    Value(T),
    /// A value of the wrong type.
    Wrong,
}

impl<T> Raw<T> {
    /// Returns the value, if there is one.
    pub(crate) fn value(self) -> Option<T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Absent | Self::Null | Self::Wrong => None,
        }
    }

    /// Returns the value as a smaller type, if there is one that fits.
    pub(crate) fn value_as<S: TryFrom<T>>(self) -> Option<S> {
        self.value()?.try_into().ok()
    }

    /// Returns the reading; `null_reason` is the reason if the value is `null`.
    pub(crate) fn reading(self, null_reason: Reason) -> Reading<T> {
        match self {
            Self::Absent => Reading::Unknown(Reason::NotSampled),
            Self::Null => Reading::Unknown(null_reason),
            Self::Value(value) => Reading::Known(value),
            Self::Wrong => Reading::Unknown(Reason::Malformed),
        }
    }
}

impl<T> From<T> for Raw<T> {
    fn from(value: T) -> Self {
        Self::Value(value)
    }
}

/// A text in a frame, where `null` and an absent key differ.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RawText {
    /// The key is absent.
    #[default]
    Absent,
    /// The value is `null`.
    Null,
    /// A text.
    Text(String),
}

impl Serialize for RawText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Absent | Self::Null => serializer.serialize_none(),
        }
    }
}

impl<'de> Deserialize<'de> for RawText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer).map(|text| text.map_or(Self::Null, Self::Text))
    }
}

/// A value whose key is left out of its object if it is absent.
pub(crate) trait OptionalKey {
    /// Returns true if there is no value.
    fn is_absent(&self) -> bool;

    /// Makes the value absent if it equals the one before; only numbers and flags can be omitted so.
    fn omit_if_equal(&mut self, _before: &Self) {}

    /// Makes the value `null`, if it is a number or flag.
    fn set_null(&mut self) {}

    /// Replaces the value by a newer one, unless that is absent.
    fn update(&mut self, newer: Self)
    where
        Self: Sized,
    {
        if !newer.is_absent() {
            *self = newer;
        }
    }
}

impl<T: PartialEq> OptionalKey for Raw<T> {
    fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    fn omit_if_equal(&mut self, before: &Self) {
        if self == before {
            *self = Self::Absent;
        }
    }

    fn set_null(&mut self) {
        *self = Self::Null;
    }
}

/// An object whose values are sent only when they change, or as `null` if they are not available.
pub(crate) trait Changes {
    /// Removes the values that equal those before.
    fn omit_unchanged(&mut self, before: &Self);

    /// Sets the value of a key to `null`.
    fn set_null(&mut self, key: &str);

    /// Replaces the values that a newer object of the same subject has.
    fn update(&mut self, newer: Self);
}

/// Declares how a value shows that it is absent.
macro_rules! optional_keys {
    ($([$($parameter:ident),*] $kind:ty: $is_absent:expr;)*) => {$(
        impl<$($parameter),*> OptionalKey for $kind {
            fn is_absent(&self) -> bool {
                $is_absent(self)
            }
        }
    )*};
}

optional_keys! {
    [] RawText: |text| matches!(text, &Self::Absent);
    [T] Option<T>: Self::is_none;
    [T] Vec<T>: Self::is_empty;
    [K, V] BTreeMap<K, V>: Self::is_empty;
    [] String: Self::is_empty;
    [] Arc<str>: |text: &Self| text.is_empty();
    [] bool: |flag: &Self| !*flag;
}

/// Longest list of numbers that is one value.
const MAX_LIST_LENGTH: usize = 8;

/// The types of values in frames.
pub trait RawValue: Sized {
    /// From a whole number that is not negative.
    fn from_u64(_: u64) -> Option<Self> {
        None
    }
    /// From any other number.
    fn from_f64(_: f64) -> Option<Self> {
        None
    }
    /// From `true` or `false`.
    fn from_bool(_: bool) -> Option<Self> {
        None
    }
    /// From a list of numbers.
    fn from_list(_: &[Raw<f64>]) -> Option<Self> {
        None
    }
}

/// A list of exactly `N` numbers.
impl<const N: usize> RawValue for [Raw<f64>; N] {
    fn from_list(list: &[Raw<f64>]) -> Option<Self> {
        list.try_into().ok()
    }
}

impl RawValue for bool {
    fn from_bool(value: bool) -> Option<Self> {
        Some(value)
    }
}

impl RawValue for u64 {
    fn from_u64(value: u64) -> Option<Self> {
        Some(value)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be whole and in range"
    )]
    fn from_f64(value: f64) -> Option<Self> {
        let is_whole = value.fract() == 0.0 && (0.0..9e15).contains(&value);
        is_whole.then_some(value as Self)
    }
}

impl RawValue for f64 {
    #[expect(clippy::cast_precision_loss, reason = "percentages and seconds are far below 2^53")]
    fn from_u64(value: u64) -> Option<Self> {
        Some(value as Self)
    }

    fn from_f64(value: f64) -> Option<Self> {
        value.is_finite().then_some(value)
    }
}

impl<T: Serialize> Serialize for Raw<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(value) => value.serialize(serializer),
            Self::Absent | Self::Null | Self::Wrong => serializer.serialize_none(),
        }
    }
}

impl<'de, T: RawValue> Deserialize<'de> for Raw<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor(PhantomData))
    }
}

struct RawVisitor<T>(PhantomData<T>);

impl<'de, T: RawValue> Visitor<'de> for RawVisitor<T> {
    type Value = Raw<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, a flag or null")
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(T::from_u64(value).map_or(Raw::Wrong, Raw::Value))
    }

    #[expect(clippy::cast_precision_loss, reason = "negative whole numbers are small temperatures")]
    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(T::from_f64(value as f64).map_or(Raw::Wrong, Raw::Value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(T::from_f64(value).map_or(Raw::Wrong, Raw::Value))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(T::from_bool(value).map_or(Raw::Wrong, Raw::Value))
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Raw::Wrong)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut list = [Raw::Absent; MAX_LIST_LENGTH];
        let mut length = 0;
        while let Some(raw) = seq.next_element::<Raw<f64>>()? {
            // Elements beyond the longest list are read and dropped.
            if let Some(slot) = list.get_mut(length) {
                *slot = raw;
            }
            length += 1;
        }
        let list = list.get(..length);
        Ok(list.and_then(T::from_list).map_or(Raw::Wrong, Raw::Value))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Raw::Wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_the_wrong_type_does_not_affect_others() {
        let read = |text: &str| serde_json::from_str::<Vec<Raw<u64>>>(text).unwrap();
        assert_eq!(
            read(r#"[1, null, "x", -1, 1.5, 2.0, {"a":[1]}, [1], true, 18446744073709551615]"#),
            [
                Raw::Value(1),
                Raw::Null,
                Raw::Wrong,
                Raw::Wrong,
                Raw::Wrong,
                Raw::Value(2),
                Raw::Wrong,
                Raw::Wrong,
                Raw::Wrong,
                Raw::Value(u64::MAX)
            ]
        );
        assert_eq!(serde_json::from_str::<Raw<f64>>("-3").unwrap(), Raw::Value(-3.0));
        let flags = serde_json::from_str::<[Raw<bool>; 3]>("[true, 1, null]").unwrap();
        let list = serde_json::from_str::<Raw<[Raw<f64>; 2]>>("[1, null]").unwrap();
        assert_eq!(list, Raw::Value([Raw::Value(1.0), Raw::Null]));
        let long = serde_json::from_str::<Raw<[Raw<f64>; 2]>>("[1, null, [3]]").unwrap();
        assert_eq!(long, Raw::Wrong);
        assert_eq!(flags, [Raw::Value(true), Raw::Wrong, Raw::Null]);
    }
}
