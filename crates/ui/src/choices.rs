//! Declares enums whose values are chosen by name, in settings and on the command line.

/// Declares an enum with the name and the meaning of each variant in settings.
macro_rules! choices {
    ($(#[$about:meta])* $seen:vis enum $name:ident {
        $($(#[$own:meta])* $variant:ident = $choice:expr,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        $seen enum $name {
            $($(#[$own])* $variant,)*
        }

        impl gtop_fleet::settings::Choice for $name {
            const CHOICES: &'static [(gtop_fleet::settings::ChoiceValue, Self)] =
                &[$(($choice, Self::$variant)),*];
        }
    };
}
pub(crate) use choices;
