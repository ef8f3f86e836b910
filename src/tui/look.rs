//! The theme: which colour and which glyph stands for what a view says.

use ratatui::style::{Color, Modifier, Style};

use crate::view::{Ground, Tone};

/// How everything looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The colours.
    pub theme: Theme,
    /// How many colours the terminal has.
    pub depth: Depth,
    /// The glyphs.
    pub glyphs: Glyphs,
}

/// The colour themes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// For a dark screen.
    Dark,
    /// For a light screen.
    Light,
    /// No colours: bold, dim and reverse.
    Mono,
}

/// How many colours the terminal has.
///
/// There is no 24-bit step: the 240 fixed colours of the 256 do, at half the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The terminal's own 16.
    Basic,
    /// The fixed 256.
    Rich,
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
    ///
    /// `NO_COLOR` asks for none, `COLORFGBG` tells a light screen, `COLORTERM` and `TERM` how many
    /// colours there are, and a locale without UTF-8 asks for ASCII.
    pub fn from_environment(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let given = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let term = given("TERM").unwrap_or_default();
        let background = given("COLORFGBG")
            .and_then(|value| value.rsplit(';').next().and_then(|last| last.parse::<u8>().ok()));
        let theme = if given("NO_COLOR").is_some() || term == "dumb" {
            Theme::Mono
        } else if matches!(background, Some(7 | 15)) {
            Theme::Light
        } else {
            Theme::Dark
        };
        let is_rich = given("COLORTERM")
            .is_some_and(|value| value == "truecolor" || value == "24bit")
            || ["256color", "direct", "kitty", "alacritty", "ghostty", "foot", "wezterm"]
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
            theme,
            depth: if is_rich { Depth::Rich } else { Depth::Basic },
            glyphs: if has_blocks { Glyphs::Unicode } else { Glyphs::Ascii },
        }
    }

    /// Returns the style of a tone on a ground.
    pub fn style(self, tone: Tone, ground: Ground) -> Style {
        let own = match (self.theme, self.depth) {
            (Theme::Mono, _) => mono(tone),
            (Theme::Dark, Depth::Rich) => dark(tone),
            (Theme::Light, Depth::Rich) => light(tone),
            (Theme::Dark, Depth::Basic) => basic_dark(tone),
            (Theme::Light, Depth::Basic) => basic_light(tone),
        };
        self.ground(ground).patch(own)
    }

    /// Returns the style of an empty place of a ground.
    pub fn ground(self, ground: Ground) -> Style {
        match (ground, self.theme, self.depth) {
            (Ground::Plain, ..) => Style::new(),
            (Ground::Selected, Theme::Dark, Depth::Rich) => Style::new().bg(Color::Indexed(237)),
            (Ground::Selected, Theme::Light, Depth::Rich) => Style::new().bg(Color::Indexed(253)),
            (Ground::Selected, ..) => Style::new().add_modifier(Modifier::REVERSED),
        }
    }

    /// Returns the style of the empty part of a bar.
    pub fn track(self, ground: Ground) -> Style {
        match (self.theme, self.depth, ground) {
            (Theme::Dark, Depth::Rich, Ground::Plain) => Style::new().bg(Color::Indexed(235)),
            (Theme::Dark, Depth::Rich, Ground::Selected) => Style::new().bg(Color::Indexed(239)),
            (Theme::Light, Depth::Rich, Ground::Plain) => Style::new().bg(Color::Indexed(255)),
            (Theme::Light, Depth::Rich, Ground::Selected) => Style::new().bg(Color::Indexed(251)),
            (Theme::Mono, ..) | (_, Depth::Basic, _) => Style::new(),
        }
    }
}

fn colour(index: u8) -> Style {
    Style::new().fg(Color::Indexed(index))
}

fn dark(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Faint => colour(244),
        Tone::Strong => colour(255).add_modifier(Modifier::BOLD),
        Tone::Accent => colour(75).add_modifier(Modifier::BOLD),
        Tone::Caret => Style::new().add_modifier(Modifier::REVERSED),
        Tone::Low => colour(240),
        Tone::Mid => colour(66),
        Tone::High => colour(72),
        Tone::Warn => colour(221),
        Tone::Bad => colour(203),
    }
}

fn light(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Faint => colour(243),
        Tone::Strong => colour(232).add_modifier(Modifier::BOLD),
        Tone::Accent => colour(25).add_modifier(Modifier::BOLD),
        Tone::Caret => Style::new().add_modifier(Modifier::REVERSED),
        Tone::Low => colour(250),
        Tone::Mid => colour(109),
        Tone::High => colour(72),
        Tone::Warn => colour(130),
        Tone::Bad => colour(160),
    }
}

fn basic_dark(tone: Tone) -> Style {
    let named = |colour| Style::new().fg(colour);
    match tone {
        Tone::Plain => Style::new(),
        Tone::Faint | Tone::Low => named(Color::DarkGray),
        Tone::Strong => Style::new().add_modifier(Modifier::BOLD),
        Tone::Accent => named(Color::Cyan).add_modifier(Modifier::BOLD),
        Tone::Caret => Style::new().add_modifier(Modifier::REVERSED),
        Tone::Mid => named(Color::Green),
        Tone::High => named(Color::LightGreen),
        Tone::Warn => named(Color::Yellow),
        Tone::Bad => named(Color::LightRed),
    }
}

fn basic_light(tone: Tone) -> Style {
    let named = |colour| Style::new().fg(colour);
    match tone {
        Tone::Plain => Style::new(),
        Tone::Faint | Tone::Low => named(Color::DarkGray),
        Tone::Strong => Style::new().add_modifier(Modifier::BOLD),
        Tone::Accent => named(Color::Blue).add_modifier(Modifier::BOLD),
        Tone::Caret => Style::new().add_modifier(Modifier::REVERSED),
        Tone::Mid => named(Color::Green),
        Tone::High => named(Color::Green).add_modifier(Modifier::BOLD),
        Tone::Warn => named(Color::Yellow).add_modifier(Modifier::BOLD),
        Tone::Bad => named(Color::Red).add_modifier(Modifier::BOLD),
    }
}

/// Without colours the length of a bar says it all; what is wrong stands out by weight.
fn mono(tone: Tone) -> Style {
    match tone {
        Tone::Plain | Tone::Low | Tone::Mid | Tone::High => Style::new(),
        Tone::Faint => Style::new().add_modifier(Modifier::DIM),
        Tone::Caret => Style::new().add_modifier(Modifier::REVERSED),
        Tone::Strong | Tone::Accent | Tone::Warn => Style::new().add_modifier(Modifier::BOLD),
        Tone::Bad => Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
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
            (vec![utf8, ("COLORTERM", "truecolor")], Theme::Dark, Depth::Rich, Glyphs::Unicode),
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
                Look { theme, depth, glyphs },
                "{variables:?}"
            );
        }
    }

    #[test]
    fn without_colours_no_style_has_one() {
        let look = Look { theme: Theme::Mono, depth: Depth::Rich, glyphs: Glyphs::Unicode };
        for tone in [Tone::Plain, Tone::Faint, Tone::Accent, Tone::High, Tone::Warn, Tone::Bad] {
            for ground in [Ground::Plain, Ground::Selected] {
                let style = look.style(tone, ground).patch(look.track(ground));
                assert_eq!((style.fg, style.bg), (None, None));
            }
        }
    }
}
