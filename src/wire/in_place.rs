//! A deserializer for structs with a hundred optional keys, of which a frame holds a few, nearly always in the
//! order of their declaration.
//!
//! The derived one of serde keeps each field in an `Option` of its own, compares every key with all names from the
//! first on, and builds the struct at the end. This one writes each value into the struct and searches from the key
//! after the previous one; with 256 nodes it saves 8 % of the processor time per node-sample.

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

/// Declares a struct with this deserializer. Absent keys have their default; the last of repeated keys counts;
/// unknown keys are skipped.
///
/// Keys that most objects lack are declared in groups, `struct Group in field`. In JSON they are keys of the same
/// object; in memory the group is a `None` unless one of its keys is present.
macro_rules! in_place {
    (
        $(#[$about:meta])* $seen:vis struct $name:ident {
            $($(#[$own:meta])* $open:vis $field:ident: $kind:ty,)*
        }
        $(
            $(#[$group_about:meta])* $group_seen:vis struct $group:ident in $place:ident {
                $($(#[$group_own:meta])* $group_open:vis $group_field:ident: $group_kind:ty,)*
            }
        )*
    ) => {
        $(#[$about])*
        $seen struct $name {
            $($(#[$own])* $open $field: $kind,)*
            $(
                $(#[$group_about])*
                #[serde(flatten)]
                $group_seen $place: Option<Box<$group>>,
            )*
        }

        $(
            $(#[$group_about])*
            #[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
            $group_seen struct $group {
                $($(#[$group_own])* $group_open $group_field: $group_kind,)*
            }
        )*

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
                        let key_seed = |next| $crate::wire::in_place::KeyPosition { names: NAMES, next };
                        while let Some(index) = map.next_key_seed(key_seed(next))? {
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

pub(super) use in_place;

#[cfg(test)]
mod tests {
    use serde::Serialize;

    in_place! {
        /// Three keys.
        #[derive(Debug, Default, PartialEq, Serialize)]
        struct Numbers {
            one: u32,
            two: Option<String>,
            three: u32,
        }

        /// Two optional keys.
        struct Optional in optional {
            four: u32,
            five: u32,
        }
    }

    #[test]
    fn keys_are_read_in_any_order_and_unknown_ones_are_skipped() {
        let three = |one, two: Option<&str>, three| Numbers {
            one,
            two: two.map(str::to_owned),
            three,
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
        let optional = Some(Box::new(Optional { four: 0, five: 5 }));
        let with_group = Numbers { optional, ..three(1, None, 3) };
        let text = r#"{"one":1,"five":5,"three":3}"#;
        assert_eq!(serde_json::from_str::<Numbers>(text).unwrap(), with_group);
        let written = serde_json::to_string(&with_group).unwrap();
        assert_eq!(written, r#"{"one":1,"two":null,"three":3,"four":0,"five":5}"#);
        for wrong in ["[1,null,3]", "3", r#"{"one":"1"}"#, r#"{"one":1"#] {
            assert!(serde_json::from_str::<Numbers>(wrong).is_err(), "{wrong}");
        }
    }
}
