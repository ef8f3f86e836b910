//! Macros that declare the JSON objects of frames and recordings: [`objects`], and [`in_place`] for those with a hundred
//! optional keys, of which a frame holds a few, nearly always in the order of their declaration.
//!
//! In both, `?` after a key means that it is left out if its value is absent or empty.
//!
//! The deserializer that serde derives keeps each field in an `Option` of its own, compares every key with all names
//! from the first on, and builds the struct at the end. That of [`in_place`] writes each value into the struct and
//! searches from the key after the previous one. Samples take 17 µs with it and 22 µs with the derived one, which also
//! needs all keys of a device in one struct, of 1,784 bytes instead of 512: serde's `flatten` knows no absent group.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, Visitor};

/// Finds the index of a key among these names, searching from `next` on and wrapping around; `None` if the key is
/// unknown.
pub(super) struct KeyPosition<'a> {
    pub(super) names: &'a [&'a str],
    pub(super) next: usize,
}

impl<'de> DeserializeSeed<'de> for KeyPosition<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for KeyPosition<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        let mut indices = (self.next..self.names.len()).chain(0..self.next);
        Ok(indices.find(|index| self.names.get(*index) == Some(&key)))
    }
}

/// Declares objects. Absent keys have their default; unknown keys are skipped.
macro_rules! objects {
    ($($(#[$about:meta])* $seen:vis struct $name:ident { $($fields:tt)* })*) => {$(
        $crate::wire::object! {
            $(#[$about])*
            #[derive(Debug, serde::Deserialize)]
            #[serde(default)]
            $seen struct $name { $($fields)* }
        }
    )*};
}

/// Declares the struct of an object, and how it is serialized.
macro_rules! object {
    ($(#[$about:meta])* $seen:vis struct $name:ident {
        $($(#[$own:meta])* $open:vis $field:ident $(? $(@$optional:tt)?)?: $kind:ty,)*
    }) => {
        #[derive(Clone, Default, PartialEq, serde::Serialize)]
        $(#[$about])*
        $seen struct $name {
            $(
                $(#[$own])*
                $(
                    #[serde(skip_serializing_if = "crate::wire::OptionalKey::is_absent")]
                    $($optional)?
                )?
                $open $field: $kind,
            )*
        }
    };
}

/// Declares an object that is deserialized in place, and how it becomes a value of the model. The last of repeated keys
/// counts.
///
/// `key: Raw<u64> => field ("column")` means: the value becomes this field of the model, and in `nvidia-smi`'s CSV it
/// is this column. Fields without such a key are decoded by hand.
///
/// Keys that most objects lack are declared in groups, `struct Group in field`. In JSON they are keys of the same
/// object; in memory the group is a `None` unless one of its keys is present.
macro_rules! in_place {
    (
        $(#[$about:meta])* $seen:vis struct $name:ident => $target:path {
            $(
                $(#[$own:meta])* $open:vis $field:ident $(? $(@$optional:tt)?)?: $kind:ty
                $(=> $value:ident $(($column:literal))?)?,
            )*
        }
        $(
            $(#[$group_about:meta])*
            $group_seen:vis struct $group:ident in $place:ident => $group_target:path {
                $(
                    $(#[$group_own:meta])* $group_open:vis $group_field:ident
                    $(? $(@$group_optional:tt)?)?: $group_kind:ty
                    $(=> $group_value:ident $(($group_column:literal))?)?,
                )*
            }
        )*
    ) => {
        $crate::wire::schema::object! {
            $(#[$about])*
            #[derive(Debug)]
            $seen struct $name {
                $($(#[$own])* $open $field $(? $(@$optional)?)?: $kind,)*
                $(
                    $(#[$group_about])*
                    #[serde(flatten)]
                    $group_seen $place: Option<Box<$group>>,
                )*
            }
        }

        $crate::wire::schema::decoded! {
            $name => $target { $($field $(=> $value $(($column))?)?,)* }
        }

        $(
            $crate::wire::schema::object! {
                $(#[$group_about])*
                #[derive(Debug)]
                $group_seen struct $group {
                    $(
                        $(#[$group_own])*
                        $group_open $group_field $(? $(@$group_optional)?)?: $group_kind,
                    )*
                }
            }

            $crate::wire::schema::decoded! {
                $group => $group_target {
                    $($group_field $(=> $group_value $(($group_column))?)?,)*
                }
            }
        )*

        impl $crate::wire::raw::Changes for $name {
            fn omit_unchanged(&mut self, before: &Self) {
                $($(
                    $crate::wire::raw::OptionalKey::omit_if_equal(&mut self.$field, &before.$field);
                    $($optional)?
                )?)*
                $(
                    if let (Some(known), Some(before)) = (&mut self.$place, &before.$place) {
                        $($(
                            $crate::wire::raw::OptionalKey::omit_if_equal(
                                &mut known.$group_field,
                                &before.$group_field,
                            );
                            $($group_optional)?
                        )?)*
                    }
                )*
            }

            fn set_null(&mut self, key: &str) {
                $($(
                    if key == stringify!($field) {
                        $crate::wire::raw::OptionalKey::set_null(&mut self.$field);
                        $($optional)?
                    }
                )?)*
                $($($(
                    if key == stringify!($group_field) {
                        let known = self.$place.get_or_insert_default();
                        $crate::wire::raw::OptionalKey::set_null(&mut known.$group_field);
                        $($group_optional)?
                    }
                )?)*)*
            }

            fn update(&mut self, newer: Self) {
                $($(
                    $crate::wire::raw::OptionalKey::update(&mut self.$field, newer.$field);
                    $($optional)?
                )?)*
                $(
                    if let Some(newer) = newer.$place {
                        let known = self.$place.get_or_insert_default();
                        let newer = *newer;
                        $($(
                            $crate::wire::raw::OptionalKey::update(
                                &mut known.$group_field,
                                newer.$group_field,
                            );
                            $($group_optional)?
                        )?)*
                    }
                )*
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Reader;

                impl<'de> serde::de::Visitor<'de> for Reader {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<Self::Value, A::Error> {
                        #[expect(non_camel_case_types, reason = "they are the fields")]
                        enum Field { $($field,)* $($($group_field,)*)* }
                        const NAMES: &[&str] =
                            &[$(stringify!($field),)* $($(stringify!($group_field),)*)*];
                        const FIELDS: &[Field] =
                            &[$(Field::$field,)* $($(Field::$group_field,)*)*];
                        let mut value = $name::default();
                        let mut next = 0;
                        while let Some(index) = map
                            .next_key_seed($crate::wire::schema::KeyPosition { names: NAMES, next })?
                        {
                            next = index.map_or(next, |index| index + 1);
                            match index.and_then(|index| FIELDS.get(index)) {
                                $(Some(Field::$field) => value.$field = map.next_value()?,)*
                                $($(Some(Field::$group_field) => {
                                    let group = value.$place.get_or_insert_default();
                                    group.$group_field = map.next_value()?;
                                })*)*
                                None => drop(map.next_value::<serde::de::IgnoredAny>()?),
                            }
                        }
                        Ok(value)
                    }
                }

                deserializer.deserialize_map(Reader)
            }
        }
    };
}

/// Declares how an object becomes a value of the model.
macro_rules! decoded {
    ($name:ident => $target:path {
        $($field:ident $(=> $value:ident $(($column:literal))?)?,)*
    }) => {
        impl $crate::wire::checked::Decode for $name {
            type Model = $target;

            fn decode(
                &self,
                reader: &$crate::wire::checked::ObjectReader<'_>,
                mut rest: Self::Model,
            ) -> Self::Model {
                $($(rest.$value = reader.read(&self.$field, stringify!($field));)?)*
                rest
            }

            fn set_cell(model: &mut Self::Model, column: &str, cell: &str) {
                match (model, column, cell) {
                    $($($((model, $column, cell) => {
                        model.$value = $crate::wire::checked::read_cell(cell);
                    })?)?)*
                    _ => {}
                }
            }
        }
    };
}

pub(super) use {decoded, in_place};
pub(crate) use {object, objects};

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::wire::checked::{Decode as _, ObjectReader};
    use crate::wire::raw::Raw;
    use gtop_model::{Bytes, Reading, Reason};

    #[derive(Debug, Default, PartialEq)]
    struct Decoded {
        four: u32,
        memory: Reading<Bytes>,
    }

    in_place! {
        /// Three keys.
        struct Numbers => Decoded {
            one: u32,
            two: Option<String>,
            three: u32,
            zero?: Raw<u64> => memory,
        }

        /// Three optional keys.
        struct Optional in optional => Decoded {
            four: u32,
            five?: Option<u32>,
            nine?: Raw<u64> => memory ("memory.used"),
        }
    }

    #[test]
    fn keys_are_read_in_any_order_and_unknown_ones_are_skipped() {
        let three = |one, two: Option<&str>, three| Numbers {
            one,
            two: two.map(str::to_owned),
            three,
            zero: Raw::Absent,
            optional: None,
        };
        for (text, expected) in [
            ("{}", three(0, None, 0)),
            (r#"{"one":1,"two":"b","three":3}"#, three(1, Some("b"), 3)),
            (r#"{"three":3,"two":null,"one":1}"#, three(1, None, 3)),
            (r#"{"six":{"one":[9]},"three":3,"si\u0078":1,"\u006fne":7}"#, three(7, None, 3)),
            (r#"{"one":1,"one":2}"#, three(2, None, 0)),
        ] {
            assert_eq!(serde_json::from_str::<Numbers>(text).unwrap(), expected, "{text}");
        }
        let optional = Some(Box::new(Optional { four: 0, five: Some(5), nine: Raw::Absent }));
        let with_group = Numbers { optional, ..three(1, None, 3) };
        let text = r#"{"one":1,"five":5,"three":3}"#;
        assert_eq!(serde_json::from_str::<Numbers>(text).unwrap(), with_group);
        let written = serde_json::to_string(&with_group).unwrap();
        assert_eq!(written, r#"{"one":1,"two":null,"three":3,"four":0,"five":5}"#);
        for wrong in ["[1,null,3]", "3", r#"{"one":"1"}"#, r#"{"one":1"#] {
            assert!(serde_json::from_str::<Numbers>(wrong).is_err(), "{wrong}");
        }
    }
    #[test]
    fn a_key_becomes_the_field_and_the_column_that_its_declaration_names() {
        let lacks = BTreeMap::from([("nine".to_owned(), "asleep".to_owned())]);
        let reader = ObjectReader { lacks: &lacks, max_text_length: 9 };
        for (text, memory) in [
            (r#"{"nine":7}"#, Reading::Known(Bytes(7))),
            (r#"{"nine":null}"#, Reading::Unknown(Reason::Asleep)),
            (r#"{"nine":-1}"#, Reading::Unknown(Reason::Malformed)),
            (r#"{"four":1}"#, Reading::Unknown(Reason::NotSampled)),
        ] {
            let numbers: Numbers = serde_json::from_str(text).unwrap();
            let rest = Decoded { four: 4, ..Decoded::default() };
            let decoded = numbers.optional.unwrap().decode(&reader, rest);
            assert_eq!(decoded, Decoded { four: 4, memory }, "{text}");
        }
        let mut decoded = Decoded::default();
        for (column, cell) in [("memory.used", "3"), ("memory.total", "4")] {
            Optional::set_cell(&mut decoded, column, cell);
        }
        assert_eq!(decoded.memory, Reading::Known(Bytes(3 << 20)));
    }
}
