//! Structs of very many keys, read from JSON straight into their place.
//!
//! What serde derives holds each field in a variable of its own, looks for every key from the first one on,
//! and puts all together at the end. A device has a hundred keys, of which a frame gives a few, and nearly
//! always in their order: here a key is looked for behind the one before.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, Visitor};

/// Finds a key's place among these names, from the `next` on and around the end; `None` when it is none of
/// them.
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
        let mut places = (self.next..self.names.len()).chain(0..self.next);
        Ok(places.find(|place| self.names.get(*place) == Some(&key)))
    }
}

/// Makes a struct that is read in place. What is absent is as by default; of a key that comes twice the last
/// counts; one that is not known is passed over.
///
/// Keys that many objects lack stand in groups, `struct Group in field`: they are keys of the same object, but a
/// group takes no room, and nobody looks through it, where none of its keys came.
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
                        let mut made = $name::default();
                        let mut next = 0;
                        let place = |next| $crate::wire::in_place::KeyPosition { names: NAMES, next };
                        while let Some(found) = map.next_key_seed(place(next))? {
                            next = found.map_or(next, |found| found + 1);
                            match found.and_then(|found| FIELDS.get(found)) {
                                $(Some(Field::$field) => made.$field = map.next_value()?,)*
                                $($(Some(Field::$group_field) => {
                                    let group = made.$place.get_or_insert_default();
                                    group.$group_field = map.next_value()?;
                                })*)*
                                None => drop(map.next_value::<serde::de::IgnoredAny>()?),
                            }
                        }
                        Ok(made)
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

        /// Two that many lack.
        struct Rare in rare {
            four: u32,
            five: u32,
        }
    }

    #[test]
    fn keys_are_read_in_any_order_and_what_is_strange_is_passed_over() {
        let three = |one, two: Option<&str>, three| Numbers {
            one,
            two: two.map(str::to_owned),
            three,
            rare: None,
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
        let rare = Some(Box::new(Rare { four: 0, five: 5 }));
        let with_rare = Numbers { rare, ..three(1, None, 3) };
        let text = r#"{"one":1,"five":5,"three":3}"#;
        assert_eq!(serde_json::from_str::<Numbers>(text).unwrap(), with_rare);
        let written = serde_json::to_string(&with_rare).unwrap();
        assert_eq!(written, r#"{"one":1,"two":null,"three":3,"four":0,"five":5}"#);
        for wrong in ["[1,null,3]", "3", r#"{"one":"1"}"#, r#"{"one":1"#] {
            assert!(serde_json::from_str::<Numbers>(wrong).is_err(), "{wrong}");
        }
    }
}
