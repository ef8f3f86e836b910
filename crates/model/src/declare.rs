//! Macros that declare tables, and the types of the model.

/// Declares an enum as a table: each variant with its value, such as its name in JSON, and the function that returns
/// it; with `const ALL`, also the list of all variants.
#[macro_export]
macro_rules! table {
    (
        $(#[$about:meta])* $seen:vis enum $name:ident {
            $($(#[$own:meta])* $variant:ident = $value:expr,)*
        }
        $(#[$read_about:meta])* $read_seen:vis fn $read:ident -> $kind:ty;
    ) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $(#[$about])*
        $seen enum $name {
            $($(#[$own])* $variant,)*
        }

        impl $name {
            $(#[$read_about])*
            $read_seen const fn $read(self) -> $kind {
                match self {
                    $(Self::$variant => $value,)*
                }
            }
        }
    };
    (
        $(#[$about:meta])* $seen:vis enum $name:ident {
            $($(#[$own:meta])* $variant:ident = $value:expr,)*
        }
        $(#[$all_about:meta])* $all_seen:vis const ALL;
        $(#[$read_about:meta])* $read_seen:vis fn $read:ident -> $kind:ty;
    ) => {
        $crate::table! {
            $(#[$about])* $seen enum $name {
                $($(#[$own])* $variant = $value,)*
            }
            $(#[$read_about])* $read_seen fn $read -> $kind;
        }

        impl $name {
            $(#[$all_about])*
            $all_seen const ALL: [Self; [$(stringify!($variant)),*].len()] = [$(Self::$variant),*];
        }
    };
}

/// Declares a struct that is updated field by field: a reading that was not sampled again stays as it is.
///
/// Fields with another rule are marked: `kept` stays, `replaced` takes the newer value in any case, `unless_none` if
/// there is one, and `merged` updates a group of readings.
macro_rules! updated {
    ($(#[$about:meta])* $seen:vis struct $name:ident {
        $($(#[$own:meta])* $open:vis $field:ident: $kind:ty $(=> $rule:ident)?,)*
    }) => {
        $(#[$about])*
        $seen struct $name {
            $($(#[$own])* $open $field: $kind,)*
        }

        impl $name {
            /// Updates the values that `newer` sampled and keeps the rest.
            pub fn update_from(&mut self, newer: Self) {
                $(crate::declare::update_field!(self, newer, $field $($rule)?);)*
            }
        }
    };
}

/// Updates one field by its rule.
macro_rules! update_field {
    ($known:ident, $newer:ident, $field:ident) => {
        $known.$field.update_from($newer.$field)
    };
    ($known:ident, $newer:ident, $field:ident kept) => {};
    ($known:ident, $newer:ident, $field:ident replaced) => {
        $known.$field = $newer.$field
    };
    ($known:ident, $newer:ident, $field:ident merged) => {
        if let Some(newer) = $newer.$field {
            newer.merge_into(&mut $known.$field);
        }
    };
    ($known:ident, $newer:ident, $field:ident unless_none) => {
        $known.$field = $newer.$field.or_else(|| $known.$field.take())
    };
}

/// Declares units: numbers that are checked once, when they are made.
macro_rules! units {
    ($(
        $(#[$about:meta])* $name:ident($number:ty) in $range:expr;
        $(#[$get_about:meta])* get;
    )*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
        pub struct $name($number);

        impl $name {
            #[doc = concat!("Returns `None` when `value` is not in `", stringify!($range), "`.")]
            pub fn new(value: $number) -> Option<Self> {
                ($range).contains(&value).then_some(Self(value))
            }

            $(#[$get_about])*
            pub const fn get(self) -> $number {
                self.0
            }
        }
    )*};
}

pub(crate) use table;
pub(super) use {units, update_field, updated};
