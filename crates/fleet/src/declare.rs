//! The macro that declares enums whose variants hold values as tables.

/// Declares an enum as a table: each variant with what it holds and its row, in which what it holds can be used, and the
/// function that returns the row.
macro_rules! kinds {
    (
        $(#[$about:meta])* $seen:vis enum $name:ident {
            $(
                $(#[$own:meta])* $variant:ident $(($inner:ident: $inner_type:ty))?
                $({ $($(#[$field_about:meta])* $field:ident: $field_type:ty),+ $(,)? })? = $row:expr,
            )*
        }
        $(#[$read_about:meta])* $read_seen:vis fn $read:ident -> $kind:ty;
    ) => {
        $(#[$about])*
        $seen enum $name {
            $(
                $(#[$own])*
                $variant $(($inner_type))? $({ $($(#[$field_about])* $field: $field_type),+ })?,
            )*
        }

        impl $name {
            /// The names of the variants, so that a test finds one of which it has no example.
            #[cfg(test)]
            pub(crate) const VARIANTS: &[&str] = &[$(stringify!($variant)),*];

            $(#[$read_about])*
            #[expect(unused_variables, reason = "not each row uses all that its variant holds")]
            $read_seen fn $read(&self) -> $kind {
                match self {
                    $(Self::$variant $(($inner))? $({ $($field),+ })? => $row,)*
                }
            }
        }
    };
}

pub(crate) use kinds;
