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

/// Declares a struct that is completed field by field: a reading that was not sampled again is that of the struct before.
///
/// Fields with another rule are marked: `kept` is that before in any case, `replaced` the newer one, `unless_none` that if
/// there is one, and `merged` completes a group of readings.
macro_rules! completed {
    ($(#[$about:meta])* $seen:vis struct $name:ident {
        $($(#[$own:meta])* $open:vis $field:ident: $kind:ty $(=> $rule:ident)?,)*
    }) => {
        $(#[$about])*
        $seen struct $name {
            $($(#[$own])* $open $field: $kind,)*
        }

        impl $name {
            /// Takes what was not sampled again from `earlier`.
            pub fn complete_from(&mut self, earlier: &Self) {
                $(crate::declare::complete_field!(self, earlier, $field $($rule)?);)*
            }
        }
    };
}

/// Completes one field by its rule.
macro_rules! complete_field {
    ($newer:ident, $earlier:ident, $field:ident) => {
        $newer.$field.complete_from(&$earlier.$field)
    };
    ($newer:ident, $earlier:ident, $field:ident kept) => {
        $newer.$field.clone_from(&$earlier.$field)
    };
    ($newer:ident, $earlier:ident, $field:ident replaced) => {};
    ($newer:ident, $earlier:ident, $field:ident merged) => {
        if let Some(earlier) = &$earlier.$field {
            earlier.complete(&mut $newer.$field);
        }
    };
    ($newer:ident, $earlier:ident, $field:ident unless_none) => {
        if $newer.$field.is_none() {
            $newer.$field.clone_from(&$earlier.$field);
        }
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
pub(super) use {complete_field, completed, units};
