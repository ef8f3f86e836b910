//! The theme: which colour and which glyph stands for what a view says.

use ratatui::style::{Color, Modifier, Style};

use crate::view::{Ground, Tone};

mod palette;

/// How everything looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The colours.
    pub theme: Theme,
    /// How many colours the terminal has.
    pub depth: Depth,
    /// The glyphs.
    pub glyphs: Glyphs,
    /// Bars change their colour along their length.
    pub is_colorful: bool,
}

/// The colour themes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// For a dark screen; busy is good, and green.
    Dark,
    /// For a light screen; busy is good, and green.
    Light,
    /// No colours: bold, dim and reverse.
    Mono,
    /// For a dark screen; blue for load, orange for trouble.
    ColourBlind,
    /// The same for a light screen.
    ColourBlindLight,
    /// For a dark screen; busy is hot: green, yellow, red.
    Hot,
    /// The same for a light screen.
    HotLight,
}

impl Theme {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Dark,
        Self::Light,
        Self::Mono,
        Self::ColourBlind,
        Self::ColourBlindLight,
        Self::Hot,
        Self::HotLight,
    ];

    /// Says for the legend what the colours of a load mean.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Dark | Self::Light => "load: busy is good, the busier the greener",
            Self::Mono => "load: the length of a bar says it, not its colour",
            Self::ColourBlind | Self::ColourBlindLight => {
                "load: busy is good, the busier the bluer; orange is trouble"
            }
            Self::Hot | Self::HotLight => "load: busy is hot, from green over yellow to red",
        }
    }

    /// Returns the same for a light screen.
    const fn on_light(self) -> Self {
        match self {
            Self::Dark | Self::Light => Self::Light,
            Self::Mono => Self::Mono,
            Self::ColourBlind | Self::ColourBlindLight => Self::ColourBlindLight,
            Self::Hot | Self::HotLight => Self::HotLight,
        }
    }

    const fn is_light(self) -> bool {
        matches!(self, Self::Light | Self::ColourBlindLight | Self::HotLight)
    }
}

/// How many colours the terminal has.
///
/// Beyond 256 only the bars that change their colour use what there is: elsewhere the 240 fixed ones
/// do, at half the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// The terminal's own 16.
    Basic,
    /// The fixed 256.
    Rich,
    /// 24 bits.
    Full,
}

/// What somebody asks of the look; what they do not, the environment says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// The theme; where it suits a dark screen, its twin is taken on a light one.
    pub theme: Option<Theme>,
    /// Colours, or none.
    pub has_colour: Option<bool>,
    /// ASCII alone, or not.
    pub is_ascii: Option<bool>,
    /// Bars change their colour along their length.
    pub is_colorful: bool,
}

/// The sets of glyphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glyphs {
    /// Blocks and arrows.
    Unicode,
    /// Nothing beyond ASCII.
    Ascii,
}

impl Look {
    /// Chooses by what the environment says; `lookup` returns a variable's value.
    pub fn from_environment(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let has_colour = lookup("NO_COLOR").filter(|value| !value.is_empty()).map(|_| false);
        Self::chosen(Wish { has_colour, ..Wish::default() }, lookup)
    }

    /// Chooses what somebody wishes, and the rest by what the environment says.
    ///
    /// `COLORFGBG` tells a light screen, `COLORTERM` and `TERM` how many colours there are, and a
    /// locale without UTF-8 asks for ASCII.
    pub fn chosen(wish: Wish, lookup: impl Fn(&str) -> Option<String>) -> Self {
        let given = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let term = given("TERM").unwrap_or_default();
        let background = given("COLORFGBG")
            .and_then(|value| value.rsplit(';').next().and_then(|last| last.parse::<u8>().ok()));
        let is_light = matches!(background, Some(7 | 15));
        let theme = match wish.theme {
            None | Some(Theme::ColourBlind | Theme::Hot) if is_light => {
                wish.theme.unwrap_or(Theme::Dark).on_light()
            }
            theme => theme.unwrap_or(Theme::Dark),
        };
        let has_colour = wish.has_colour.unwrap_or(term != "dumb");
        let is_full = given("COLORTERM")
            .is_some_and(|value| value == "truecolor" || value == "24bit")
            || term.contains("direct");
        let is_rich = ["256color", "kitty", "alacritty", "ghostty", "foot", "wezterm"]
            .iter()
            .any(|name| term.contains(name));
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| given(name));
        let is_utf8 = locale.is_some_and(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        // The kernel's console has half blocks at best.
        let has_blocks = is_utf8 && !matches!(term.as_str(), "linux" | "dumb");
        Self {
            theme: if has_colour { theme } else { Theme::Mono },
            depth: match (is_full, is_rich) {
                (true, _) => Depth::Full,
                (false, true) => Depth::Rich,
                (false, false) => Depth::Basic,
            },
            glyphs: if wish.is_ascii.unwrap_or(!has_blocks) {
                Glyphs::Ascii
            } else {
                Glyphs::Unicode
            },
            is_colorful: wish.is_colorful,
        }
    }

    /// Returns the style of a tone on a ground.
    pub fn style(self, tone: Tone, ground: Ground) -> Style {
        let own = match (self.theme, self.depth) {
            (Theme::Mono, _) => palette::mono(tone),
            (theme, Depth::Basic) => palette::basic(theme, tone),
            (theme, Depth::Rich | Depth::Full) => palette::rich(theme, tone),
        };
        self.ground(ground).patch(own)
    }

    /// Returns the style of a part of a bar, 0 to 1 from its start, when bars change their colour.
    pub(crate) fn along(self, part: f32, ground: Ground) -> Style {
        self.ground(ground).patch(palette::along(self.theme, self.depth, part))
    }

    /// Returns the colour of one of those that are told apart by colour and letter; none without colours.
    pub fn hue(self, number: u8) -> Style {
        let dark = [110, 179, 108, 175, 80, 146].map(Color::Indexed);
        let light = [25, 130, 28, 127, 30, 61].map(Color::Indexed);
        let basic =
            [Color::Cyan, Color::Yellow, Color::Green, Color::Magenta, Color::Blue, Color::Reset];
        if self.theme == Theme::Mono {
            return Style::new();
        }
        let palette = if self.depth == Depth::Basic {
            basic
        } else if self.theme.is_light() {
            light
        } else {
            dark
        };
        let colour = palette.get(usize::from(number) % palette.len()).copied();
        colour.map_or_else(Style::new, |colour| Style::new().fg(colour))
    }

    /// Returns the style of an empty place of a ground.
    pub fn ground(self, ground: Ground) -> Style {
        match (ground, self.theme) {
            (Ground::Plain, _) => Style::new(),
            (Ground::Selected, theme) if self.is_plain() || theme == Theme::Mono => {
                Style::new().add_modifier(Modifier::REVERSED)
            }
            (Ground::Selected, theme) if theme.is_light() => Style::new().bg(Color::Indexed(253)),
            (Ground::Selected, _) => Style::new().bg(Color::Indexed(237)),
        }
    }

    /// Returns the style of the empty part of a bar.
    pub fn track(self, ground: Ground) -> Style {
        if self.is_plain() {
            return Style::new();
        }
        let shade = match (self.theme.is_light(), ground) {
            (false, Ground::Plain) => 235,
            (false, Ground::Selected) => 239,
            (true, Ground::Plain) => 255,
            (true, Ground::Selected) => 251,
        };
        Style::new().bg(Color::Indexed(shade))
    }

    /// Says whether there are no shades.
    fn is_plain(self) -> bool {
        self.theme == Theme::Mono || self.depth == Depth::Basic
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_chooses_the_look() {
        let utf8 = ("LANG", "en_US.UTF-8");
        for (variables, theme, depth, glyphs) in [
            (vec![], Theme::Dark, Depth::Basic, Glyphs::Ascii),
            (vec![utf8, ("TERM", "xterm-256color")], Theme::Dark, Depth::Rich, Glyphs::Unicode),
            (vec![utf8, ("COLORTERM", "truecolor")], Theme::Dark, Depth::Full, Glyphs::Unicode),
            (vec![utf8, ("TERM", "xterm-direct")], Theme::Dark, Depth::Full, Glyphs::Unicode),
            (vec![utf8, ("NO_COLOR", "1")], Theme::Mono, Depth::Basic, Glyphs::Unicode),
            (vec![utf8, ("NO_COLOR", "")], Theme::Dark, Depth::Basic, Glyphs::Unicode),
            (vec![utf8, ("COLORFGBG", "0;15")], Theme::Light, Depth::Basic, Glyphs::Unicode),
            (vec![utf8, ("COLORFGBG", "15;default;0")], Theme::Dark, Depth::Basic, Glyphs::Unicode),
            (vec![utf8, ("LC_ALL", "C")], Theme::Dark, Depth::Basic, Glyphs::Ascii),
            (vec![("LC_CTYPE", "C.utf8")], Theme::Dark, Depth::Basic, Glyphs::Unicode),
            (vec![utf8, ("TERM", "linux")], Theme::Dark, Depth::Basic, Glyphs::Ascii),
            (vec![utf8, ("TERM", "dumb")], Theme::Mono, Depth::Basic, Glyphs::Ascii),
        ] {
            let lookup = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(
                Look::from_environment(lookup),
                Look { theme, depth, glyphs, is_colorful: false },
                "{variables:?}"
            );
        }
    }

    #[test]
    fn a_wish_comes_before_what_the_environment_says() {
        let look = |wish, variables: &[(&str, &str)]| {
            Look::chosen(wish, |name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let of = |theme| Wish { theme: Some(theme), ..Wish::default() };
        let light = ("COLORFGBG", "0;15");
        for (wish, variables, theme) in [
            (of(Theme::Hot), vec![], Theme::Hot),
            (of(Theme::Hot), vec![light], Theme::HotLight),
            (of(Theme::ColourBlind), vec![light], Theme::ColourBlindLight),
            (of(Theme::Dark), vec![light], Theme::Dark),
            (of(Theme::Light), vec![], Theme::Light),
            (Wish { has_colour: Some(false), ..of(Theme::Hot) }, vec![], Theme::Mono),
            (
                Wish { has_colour: Some(true), ..Wish::default() },
                vec![("TERM", "dumb")],
                Theme::Dark,
            ),
            (of(Theme::Hot), vec![("TERM", "dumb")], Theme::Mono),
        ] {
            assert_eq!(look(wish, &variables).theme, theme, "{wish:?} {variables:?}");
        }
        let ascii = |is_ascii| Wish { is_ascii, ..Wish::default() };
        let utf8 = [("LANG", "C.UTF-8")];
        assert_eq!(look(ascii(Some(true)), &utf8).glyphs, Glyphs::Ascii);
        assert_eq!(look(ascii(Some(false)), &[]).glyphs, Glyphs::Unicode);
    }

    const TONES: [Tone; 10] = [
        Tone::Plain,
        Tone::Faint,
        Tone::Strong,
        Tone::Accent,
        Tone::Caret,
        Tone::Low,
        Tone::Mid,
        Tone::High,
        Tone::Warn,
        Tone::Bad,
    ];

    fn looks() -> impl Iterator<Item = Look> {
        let depths = [Depth::Basic, Depth::Rich, Depth::Full];
        Theme::ALL.into_iter().flat_map(move |theme| {
            let look =
                Look { theme, depth: Depth::Basic, glyphs: Glyphs::Unicode, is_colorful: true };
            depths.map(|depth| Look { depth, ..look })
        })
    }

    #[test]
    fn without_colours_no_style_has_one() {
        for look in looks().filter(|look| look.theme == Theme::Mono) {
            for ground in [Ground::Plain, Ground::Selected] {
                for tone in TONES {
                    let style = look.style(tone, ground).patch(look.track(ground));
                    let style = style.patch(look.along(0.5, ground));
                    assert_eq!((style.fg, style.bg), (None, None));
                }
            }
        }
    }

    #[test]
    fn loads_and_troubles_are_told_apart_in_every_theme() {
        for look in looks().filter(|look| look.theme != Theme::Mono) {
            let kinds = [Tone::Low, Tone::Mid, Tone::High, Tone::Warn, Tone::Bad];
            let styles = kinds.map(|tone| look.style(tone, Ground::Plain));
            for (place, style) in styles.iter().enumerate() {
                assert!(!styles[..place].contains(style), "{look:?} {:?}", kinds[place]);
            }
        }
    }

    #[test]
    fn only_24_bits_are_used_where_there_are_24_bits() {
        for look in looks() {
            for part in [0.0, 0.3, 0.5, 0.99, 1.0, f32::NAN] {
                let is_full = matches!(look.along(part, Ground::Plain).fg, Some(Color::Rgb(..)));
                let may_be = look.depth == Depth::Full && look.theme != Theme::Mono;
                assert_eq!(is_full, may_be, "{look:?}");
            }
        }
    }
}
