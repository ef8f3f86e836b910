//! One value as a frame gives it: absent, `null`, a number or a flag, or something that is none.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::model::{Reading, Reason};

/// A number or a flag in a frame.
///
/// A value of the wrong kind spoils only itself, never the frame around it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Raw<T> {
    /// The key is not there.
    #[default]
    Absent,
    /// The key is there and says `null`.
    Null,
    /// A value that fits.
    Value(T),
    /// Something else.
    Wrong,
}

impl<T> Raw<T> {
    /// For `skip_serializing_if`.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Returns what is known; `lacking` is the reason behind a `null`.
    pub(crate) fn reading(self, lacking: Reason) -> Reading<T> {
        match self {
            Self::Absent => Reading::Unknown(Reason::NotSampled),
            Self::Null => Reading::Unknown(lacking),
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

/// A text in a frame, where `null` says more than an absent key.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RawText {
    /// The key is not there.
    #[default]
    Absent,
    /// The key is there and says `null`.
    Null,
    /// A text.
    Text(String),
}

impl RawText {
    /// For `skip_serializing_if`.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
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

/// Longest list of numbers that is one value.
const MAX_LIST_LENGTH: usize = 8;

/// The plain types frames hold.
pub trait Plain: Sized {
    /// From a whole number that is not negative.
    fn of_u64(_: u64) -> Option<Self> {
        None
    }
    /// From any other number.
    fn of_f64(_: f64) -> Option<Self> {
        None
    }
    /// From `true` or `false`.
    fn of_bool(_: bool) -> Option<Self> {
        None
    }
    /// From a list of numbers.
    fn of_list(_: &[Raw<f64>]) -> Option<Self> {
        None
    }
}

/// So many numbers that come together.
impl<const N: usize> Plain for [Raw<f64>; N] {
    fn of_list(list: &[Raw<f64>]) -> Option<Self> {
        list.try_into().ok()
    }
}

impl Plain for bool {
    fn of_bool(value: bool) -> Option<Self> {
        Some(value)
    }
}

impl Plain for u64 {
    fn of_u64(value: u64) -> Option<Self> {
        Some(value)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be whole and in range"
    )]
    fn of_f64(value: f64) -> Option<Self> {
        let whole = value.fract() == 0.0 && (0.0..9e15).contains(&value);
        whole.then_some(value as Self)
    }
}

impl Plain for f64 {
    #[expect(clippy::cast_precision_loss, reason = "percentages and seconds are far below 2^53")]
    fn of_u64(value: u64) -> Option<Self> {
        Some(value as Self)
    }

    fn of_f64(value: f64) -> Option<Self> {
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

impl<'de, T: Plain> Deserialize<'de> for Raw<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(GivenVisitor(PhantomData))
    }
}

struct GivenVisitor<T>(PhantomData<T>);

impl<'de, T: Plain> Visitor<'de> for GivenVisitor<T> {
    type Value = Raw<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, a flag or null")
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(T::of_u64(value).map_or(Raw::Wrong, Raw::Value))
    }

    #[expect(clippy::cast_precision_loss, reason = "negative whole numbers are small temperatures")]
    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(T::of_f64(value as f64).map_or(Raw::Wrong, Raw::Value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(T::of_f64(value).map_or(Raw::Wrong, Raw::Value))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(T::of_bool(value).map_or(Raw::Wrong, Raw::Value))
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Raw::Wrong)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut list = [Raw::Absent; MAX_LIST_LENGTH];
        let mut length = 0;
        while let Some(given) = seq.next_element::<Raw<f64>>()? {
            // A longer list than anything holds is read to its end and forgotten.
            if let Some(place) = list.get_mut(length) {
                *place = given;
            }
            length += 1;
        }
        let list = list.get(..length);
        Ok(list.and_then(T::of_list).map_or(Raw::Wrong, Raw::Value))
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
    fn a_value_of_the_wrong_kind_spoils_only_itself() {
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
