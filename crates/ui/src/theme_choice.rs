//! Which theme is drawn: what the settings choose, and the environment where they leave it open.

use crate::settings::ScreenSettings;
use crate::theme::{Background, ColourDepth, ColourUse, GlyphSet, Palette, Theme, ThemeName};

impl ScreenSettings {
    /// Returns true if a light background is chosen, false for a dark one, `None` if the terminal decides.
    /// The themes `dark` and `light` choose their background.
    pub fn is_light(&self) -> Option<bool> {
        match (self.background, self.theme) {
            (Background::Light, _) | (Background::Auto, ThemeName::Light) => Some(true),
            (Background::Dark, _) | (Background::Auto, ThemeName::Dark) => Some(false),
            (Background::Auto, _) => None,
        }
    }

    /// Returns the theme of these settings and of the environment, which decides what they leave open.
    ///
    /// `COLORFGBG` decides the background, `COLORTERM` and `TERM` the colour depth, and a locale without
    /// UTF-8 selects ASCII.
    pub fn chosen_theme(&self, lookup: impl Fn(&str) -> Option<String>) -> Theme {
        let variable = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let term = variable("TERM").unwrap_or_default();
        let is_light = self.is_light().or_else(|| told_background(&term, variable("COLORFGBG")));
        let has_colour = match self.color {
            ColourUse::Auto => !is_colourless(&term),
            ColourUse::Always => true,
            ColourUse::Never => false,
        };
        let colours = variable("COLORTERM").unwrap_or_default();
        let is_full = matches!(&*colours, "truecolor" | "24bit") || term.contains("direct");
        let rich = ["256color", "kitty", "alacritty", "ghostty", "foot", "wezterm"];
        let is_rich = rich.iter().any(|name| term.contains(name));
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| variable(name));
        let locale = locale.unwrap_or_default().to_ascii_lowercase();
        let is_utf8 = locale.contains("utf-8") || locale.contains("utf8");
        // The Linux console's font has at most half blocks.
        let has_blocks = is_utf8 && !matches!(term.as_str(), "linux" | "dumb");
        let is_ascii = self.ascii.unwrap_or(!has_blocks);
        let theme = Theme {
            palette: if has_colour { self.theme.palette() } else { Palette::Mono },
            depth: match (is_full, is_rich) {
                (true, _) => ColourDepth::TrueColour,
                (false, true) => ColourDepth::Indexed256,
                (false, false) => ColourDepth::Ansi16,
            },
            glyphs: if is_ascii { GlyphSet::Ascii } else { GlyphSet::Unicode },
            is_colorful: self.colorful,
        };
        theme.for_background(is_light)
    }
}

/// Returns true for terminals without colours: as terminfo has them, those of DEC among them.
fn is_colourless(term: &str) -> bool {
    let is_dec =
        term.strip_prefix("vt").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    is_dec || term == "dumb" || ["-m", "-mono"].iter().any(|end| term.ends_with(end))
}

/// Returns true for a light background, false for a dark one, `None` if the environment does not tell.
fn told_background(term: &str, colorfgbg: Option<String>) -> Option<bool> {
    match colorfgbg.and_then(|value| value.rsplit(';').next()?.parse::<u8>().ok()) {
        Some(7 | 15) => Some(true),
        Some(0..=6 | 8) => Some(false),
        // The Linux console is black.
        _ => (term == "linux").then_some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_chooses_the_theme() {
        let utf8 = ("LANG", "en_US.UTF-8");
        for (variables, palette, depth, glyphs) in [
            (vec![], Palette::Neutral, ColourDepth::Ansi16, GlyphSet::Ascii),
            (
                vec![utf8, ("TERM", "xterm-256color")],
                Palette::Neutral,
                ColourDepth::Indexed256,
                GlyphSet::Unicode,
            ),
            (
                vec![utf8, ("COLORTERM", "truecolor")],
                Palette::Neutral,
                ColourDepth::TrueColour,
                GlyphSet::Unicode,
            ),
            (
                vec![utf8, ("TERM", "xterm-direct")],
                Palette::Neutral,
                ColourDepth::TrueColour,
                GlyphSet::Unicode,
            ),
            (
                vec![utf8, ("COLORFGBG", "0;15")],
                Palette::Light,
                ColourDepth::Ansi16,
                GlyphSet::Unicode,
            ),
            (
                vec![utf8, ("COLORFGBG", "15;default;0")],
                Palette::Dark,
                ColourDepth::Ansi16,
                GlyphSet::Unicode,
            ),
            (vec![utf8, ("LC_ALL", "C")], Palette::Neutral, ColourDepth::Ansi16, GlyphSet::Ascii),
            (
                vec![("LC_CTYPE", "C.utf8")],
                Palette::Neutral,
                ColourDepth::Ansi16,
                GlyphSet::Unicode,
            ),
            (vec![utf8, ("TERM", "linux")], Palette::Dark, ColourDepth::Ansi16, GlyphSet::Ascii),
            (vec![utf8, ("TERM", "dumb")], Palette::Mono, ColourDepth::Ansi16, GlyphSet::Ascii),
            (vec![utf8, ("TERM", "vt220")], Palette::Mono, ColourDepth::Ansi16, GlyphSet::Unicode),
        ] {
            let lookup = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(
                ScreenSettings::default().chosen_theme(lookup),
                Theme { palette, depth, glyphs, is_colorful: false },
                "{variables:?}"
            );
        }
    }

    #[test]
    fn options_override_the_environment() {
        let theme = |settings: &ScreenSettings, variables: &[(&str, &str)]| {
            settings.chosen_theme(|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let of = |theme| ScreenSettings { theme, ..ScreenSettings::default() };
        let light = ("COLORFGBG", "0;15");
        for (settings, variables, palette) in [
            (of(ThemeName::Hot), vec![], Palette::HotNeutral),
            (of(ThemeName::Hot), vec![light], Palette::HotLight),
            (of(ThemeName::ColourBlind), vec![light], Palette::ColourBlindLight),
            (of(ThemeName::Dark), vec![light], Palette::Dark),
            (of(ThemeName::Light), vec![], Palette::Light),
            (
                ScreenSettings { background: Background::Light, ..of(ThemeName::Hot) },
                vec![],
                Palette::HotLight,
            ),
            (
                ScreenSettings { background: Background::Light, ..of(ThemeName::Dark) },
                vec![],
                Palette::Light,
            ),
            (
                ScreenSettings { background: Background::Dark, ..of(ThemeName::Hot) },
                vec![light],
                Palette::Hot,
            ),
            (
                ScreenSettings { background: Background::Light, ..of(ThemeName::Mono) },
                vec![],
                Palette::Mono,
            ),
            (
                ScreenSettings { background: Background::Dark, ..ScreenSettings::default() },
                vec![light],
                Palette::Dark,
            ),
            (
                ScreenSettings { color: ColourUse::Never, ..of(ThemeName::Hot) },
                vec![],
                Palette::Mono,
            ),
            (
                ScreenSettings { color: ColourUse::Always, ..ScreenSettings::default() },
                vec![("TERM", "dumb")],
                Palette::Neutral,
            ),
            (of(ThemeName::Hot), vec![("TERM", "dumb")], Palette::Mono),
        ] {
            assert_eq!(theme(&settings, &variables).palette, palette, "{settings:?} {variables:?}");
        }
        let with_ascii = |ascii| ScreenSettings { ascii, ..ScreenSettings::default() };
        let utf8 = [("LANG", "C.UTF-8")];
        assert_eq!(theme(&with_ascii(Some(true)), &utf8).glyphs, GlyphSet::Ascii);
        assert_eq!(theme(&with_ascii(Some(false)), &[]).glyphs, GlyphSet::Unicode);
    }
}
