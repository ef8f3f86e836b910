//! Themes: the colours and glyphs for tones, bars and symbols.

use ratatui::style::{Color, Modifier, Style};

use crate::choices::choices;
use crate::widgets::line::{RowStyle, Tone};
use gtop_fleet::settings::value;

pub use palette::{ColourDepth, Palette};

mod palette;

/// A palette, a colour depth and a set of glyphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    pub palette: Palette,
    pub depth: ColourDepth,
    pub glyphs: GlyphSet,
    /// Draws bars with a gradient.
    pub is_colorful: bool,
}

choices! {
    /// The themes to choose from.
    pub enum ThemeName {
        /// As the background needs.
        #[default]
        Auto = value("auto", "greener when busier"),
        Dark = value("dark", "auto for a dark background, unless background is set"),
        Light = value("light", "auto for a light background, unless background is set"),
        Mono = value("mono", "no colours; bold, dim and reverse video"),
        ColourBlind =
            value("colour-blind", "blue for load, orange for warnings").with_alias("color-blind"),
        Hot = value("hot", "green, yellow, orange with rising load"),
    }
}

impl ThemeName {
    pub(crate) const fn palette(self) -> Palette {
        match self {
            Self::Auto | Self::Dark => Palette::Dark,
            Self::Light => Palette::Light,
            Self::Mono => Palette::Mono,
            Self::ColourBlind => Palette::ColourBlind,
            Self::Hot => Palette::Hot,
        }
    }
}

choices! {
    /// The background of the terminal.
    pub enum Background {
        #[default]
        Auto = value("auto", "ask the terminal, then COLORFGBG; otherwise colours for both"),
        Dark = value("dark", "dark background"),
        Light = value("light", "light background"),
    }
}

choices! {
    /// When colours are used.
    pub enum ColourUse {
        #[default]
        Auto = value("auto", "if the terminal supports them"),
        Always = value("always", "even if output is not a terminal"),
        Never = value("never", "no colours"),
    }
}

/// The sets of glyphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlyphSet {
    /// Block elements, braille and arrows.
    Unicode,
    /// ASCII only.
    Ascii,
}

impl Theme {
    /// Returns the theme for a light or a dark background, or for one that is not known.
    #[must_use]
    pub(crate) fn for_background(self, is_light: Option<bool>) -> Self {
        Self { palette: self.palette.for_background(is_light), ..self }
    }

    /// Returns the legend of the load colours for the help page.
    pub(crate) fn legend(self) -> &'static str {
        let palette = if self.has_no_shades() { Palette::Mono } else { self.palette };
        palette.legend()
    }

    /// Returns the style of text.
    pub fn style(self, tone: Tone, row_style: RowStyle) -> Style {
        let row = self.row_style(row_style);
        match (self.depth, row_style) {
            _ if self.palette == Palette::Mono => row.patch(palette::style_mono(tone)),
            (ColourDepth::Ansi16, RowStyle::Plain) => palette::style_16(self.palette, tone),
            (ColourDepth::Ansi16, RowStyle::Selected) if tone == Tone::Caret => row.reversed(),
            (ColourDepth::Ansi16, RowStyle::Selected) => {
                if matches!(tone, Tone::Warn | Tone::Bad) {
                    row.underlined()
                } else {
                    row
                }
            }
            (ColourDepth::Indexed256 | ColourDepth::TrueColour, _) => {
                row.patch(palette::text_style_256(self.palette_on(row_style), tone))
            }
        }
    }

    /// Returns the style of a bar, graph or level.
    pub(crate) fn bar_style(self, tone: Tone, row_style: RowStyle) -> Style {
        match self.depth {
            _ if self.has_one_colour(row_style) => self.style(tone, row_style),
            ColourDepth::Ansi16 => palette::value_style_16(self.palette, tone),
            ColourDepth::Indexed256 | ColourDepth::TrueColour => {
                let fill = palette::bar_style_256(self.palette_on(row_style), tone);
                self.row_style(row_style).patch(fill)
            }
        }
    }

    /// Returns the style of a level in a cell of its own. On a light background, a thin line of a warning or a fault is
    /// lost among full cells, so its cell is tinted.
    pub(crate) fn level_style(self, tone: Tone, row_style: RowStyle) -> Style {
        let style = self.bar_style(tone, row_style);
        let is_flagged = matches!(tone, Tone::Warn | Tone::Bad);
        if is_flagged && self.palette.is_light() && !self.has_no_shades() {
            return style.bg(Color::Indexed(if tone == Tone::Warn { 223 } else { 224 }));
        }
        style
    }

    /// Returns the style of a gradient bar at `part` of its length, 0 to 1.
    pub(crate) fn gradient_style(self, part: f32, row_style: RowStyle) -> Style {
        let row = self.row_style(row_style);
        if self.has_one_colour(row_style) {
            return row;
        }
        row.patch(palette::gradient(self.palette_on(row_style), self.depth, part))
    }

    /// Returns the colour of a numbered item, such as a user, that is marked by colour and letter; the
    /// default style where the letter alone marks it.
    pub(crate) fn hue(self, number: u8, row_style: RowStyle) -> Style {
        let dark = [110, 179, 108, 175, 80, 146].map(Color::Indexed);
        let light = [25, 94, 22, 126, 23, 60].map(Color::Indexed);
        let palette = self.palette_on(row_style);
        if self.has_one_colour(row_style) || palette.is_neutral() {
            return Style::new();
        }
        let colours: &[Color] = match (self.depth, palette.is_light()) {
            (ColourDepth::Ansi16, false) => {
                &[Color::Cyan, Color::Green, Color::LightMagenta, Color::Reset]
            }
            (ColourDepth::Ansi16, true) => &[Color::Blue, Color::Magenta, Color::Reset],
            (ColourDepth::Indexed256 | ColourDepth::TrueColour, false) => &dark,
            (ColourDepth::Indexed256 | ColourDepth::TrueColour, true) => &light,
        };
        let colour = colours.get(usize::from(number) % colours.len());
        colour.map_or_else(Style::new, |colour| Style::new().fg(*colour))
    }

    /// Returns the style of the blank cells of a row. A selected row has both colours of its own, so that it can be read
    /// also if the background is not what the palette is for.
    pub(crate) fn row_style(self, row_style: RowStyle) -> Style {
        match row_style {
            RowStyle::Plain => Style::new(),
            RowStyle::Selected if self.palette == Palette::Mono => {
                Style::new().add_modifier(Modifier::REVERSED)
            }
            RowStyle::Selected if self.depth == ColourDepth::Ansi16 => {
                Style::new().fg(Color::Black).bg(Color::Cyan)
            }
            RowStyle::Selected if self.palette.is_light() => {
                Style::new().fg(Color::Indexed(235)).bg(Color::Indexed(254))
            }
            RowStyle::Selected => Style::new().fg(Color::Indexed(252)).bg(Color::Indexed(236)),
        }
    }

    /// Returns the style of the empty part of a bar; `None` if the terminal cannot show shades.
    pub(crate) fn track_style(self, row_style: RowStyle) -> Option<Style> {
        if self.has_no_shades() {
            return None;
        }
        let palette = self.palette_on(row_style);
        let shade = match row_style {
            RowStyle::Plain if palette.is_neutral() => 245,
            RowStyle::Plain if palette.is_light() => 251,
            RowStyle::Plain => 238,
            RowStyle::Selected if palette.is_light() => 248,
            RowStyle::Selected => 241,
        };
        Some(self.row_style(row_style).fg(Color::Indexed(shade)))
    }

    /// Returns the palette of a row: the background of a selected one is known.
    fn palette_on(self, row_style: RowStyle) -> Palette {
        let is_own = row_style == RowStyle::Selected && self.palette.is_neutral();
        if is_own { self.palette.for_background(Some(false)) } else { self.palette }
    }

    /// Returns true if all cells of a row have the same colours, as in a selected row without shades: parts in other colours
    /// would look like holes.
    fn has_one_colour(self, row_style: RowStyle) -> bool {
        self.palette == Palette::Mono || (self.has_no_shades() && row_style == RowStyle::Selected)
    }

    /// Returns true if the terminal cannot show shades of grey.
    fn has_no_shades(self) -> bool {
        self.palette == Palette::Mono || self.depth == ColourDepth::Ansi16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TONES: [Tone; 11] = [
        Tone::Plain,
        Tone::Faint,
        Tone::Stale,
        Tone::Strong,
        Tone::Accent,
        Tone::Caret,
        Tone::Low,
        Tone::Mid,
        Tone::High,
        Tone::Warn,
        Tone::Bad,
    ];

    fn themes() -> impl Iterator<Item = Theme> {
        let depths = [ColourDepth::Ansi16, ColourDepth::Indexed256, ColourDepth::TrueColour];
        Palette::ALL.into_iter().flat_map(move |palette| {
            let theme = Theme {
                palette,
                depth: ColourDepth::Ansi16,
                glyphs: GlyphSet::Unicode,
                is_colorful: true,
            };
            depths.map(|depth| Theme { depth, ..theme })
        })
    }

    #[test]
    fn mono_styles_have_no_colours() {
        for theme in themes().filter(|theme| theme.palette == Palette::Mono) {
            for row_style in [RowStyle::Plain, RowStyle::Selected] {
                for tone in TONES {
                    let style = theme
                        .style(tone, row_style)
                        .patch(theme.track_style(row_style).unwrap_or_default());
                    let style = style.patch(theme.gradient_style(0.5, row_style));
                    assert_eq!((style.fg, style.bg), (None, None));
                }
            }
        }
    }

    /// Returns a style as foreground, background and modifiers.
    fn described(style: Style) -> String {
        let [fg, bg] = [style.fg, style.bg]
            .map(|colour| colour.map_or_else(|| "-".to_owned(), |colour| colour.to_string()));
        let modifiers = style.add_modifier;
        if modifiers.is_empty() { format!("{fg}/{bg}") } else { format!("{fg}/{bg}/{modifiers:?}") }
    }

    /// Returns the styles of a theme: of each tone as text, bar and level, and of what has no tone.
    fn listed(theme: Theme) -> String {
        let rows = [RowStyle::Plain, RowStyle::Selected];
        let line = |name: &str, styles: Vec<Style>| {
            let styles: Vec<_> = styles.into_iter().map(described).collect();
            format!("  {name}: {}\n", styles.join("  "))
        };
        let mut list = format!("{:?}, {:?}\n", theme.palette, theme.depth);
        for tone in TONES {
            let text = rows.map(|row| theme.style(tone, row));
            let bars = rows.map(|row| theme.bar_style(tone, row));
            let levels = rows.map(|row| theme.level_style(tone, row));
            list += &line(&format!("{tone:?}"), [text, bars, levels].concat());
        }
        let gradient = [0.0, 0.25, 0.5, 0.75, 1.0];
        list += &line("gradient", gradient.map(|part| theme.gradient_style(part, rows[0])).into());
        list += &line("track", rows.into_iter().filter_map(|row| theme.track_style(row)).collect());
        list += &line("blank", rows.map(|row| theme.row_style(row)).into());
        list + &line("hues", (0..6).map(|number| theme.hue(number, rows[0])).collect())
    }

    #[test]
    fn the_styles_are_those_listed() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/styles.txt");
        let head = "The styles of each theme: text, bars and levels, each in a plain and a selected row.\n";
        let actual = themes().map(listed).fold(head.to_owned(), |all, list| all + "\n" + &list);
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(path, &actual).unwrap();
        }
        let listed = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(listed, actual, "{path} is out of date; BLESS=1 writes it");
    }

    #[test]
    fn loads_and_faults_differ_in_every_theme() {
        let loads = [Tone::Low, Tone::Mid, Tone::High];
        for theme in themes() {
            let style = |tone| theme.style(tone, RowStyle::Plain);
            let bar = |tone| theme.bar_style(tone, RowStyle::Plain);
            assert_ne!(style(Tone::Warn), style(Tone::Bad), "{theme:?}");
            for (place, load) in loads.into_iter().enumerate() {
                for problem in [Tone::Warn, Tone::Bad] {
                    assert_ne!(style(load), style(problem), "{theme:?} {load:?} {problem:?}");
                    assert_ne!(bar(load), bar(problem), "{theme:?} {load:?} {problem:?}");
                }
                let lower = loads[..place].iter().map(|tone| bar(*tone));
                let differs = !lower.into_iter().any(|lower| lower == bar(load));
                assert!(differs || theme.has_no_shades(), "{theme:?} {load:?}");
            }
        }
    }

    const BLACK: [u8; 3] = [0, 0, 0];
    const WHITE: [u8; 3] = [0xff, 0xff, 0xff];
    const SOLARIZED_DARK: [u8; 3] = [0, 0x2b, 0x36];
    const SOLARIZED_LIGHT: [u8; 3] = [0xfd, 0xf6, 0xe3];

    /// Returns the backgrounds that a palette is for, out of a dark and a light one.
    fn grounds(palette: Palette, dark: [u8; 3], light: [u8; 3]) -> Vec<[u8; 3]> {
        if palette.is_neutral() {
            vec![dark, light]
        } else {
            vec![if palette.is_light() { light } else { dark }]
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others depend on the terminal")]
    fn rgb(colour: Color) -> Option<[u8; 3]> {
        match colour {
            Color::Rgb(red, green, blue) => Some([red, green, blue]),
            Color::Indexed(grey @ 232..) => Some([8 + 10 * (grey - 232); 3]),
            Color::Indexed(cube @ 16..) => {
                let steps = [0, 95, 135, 175, 215, 255];
                Some([36, 6, 1].map(|of| steps[usize::from((cube - 16) / of % 6)]))
            }
            _ => None,
        }
    }

    /// The relative luminance of WCAG 2.
    fn luminance(colour: [u8; 3]) -> f64 {
        let [red, green, blue] = colour.map(linear);
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    fn contrast(one: [u8; 3], other: [u8; 3]) -> f64 {
        let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
        one.max(other) / one.min(other)
    }

    /// Returns the lowest contrast of a style to any background it may be drawn on; `None` if it has no
    /// colour of its own. Fails for colours that depend on the terminal.
    fn lowest_contrast(theme: Theme, style: Style) -> Option<f64> {
        let is_colour = |colour: &Color| !matches!(colour, Color::Reset);
        let fg = rgb(style.fg.filter(is_colour)?).unwrap_or_else(|| panic!("{theme:?} {style:?}"));
        let own = style.bg.map(|bg| rgb(bg).unwrap_or_else(|| panic!("{theme:?} {style:?}")));
        let backgrounds = own.map_or_else(
            || {
                let solarized = grounds(theme.palette, SOLARIZED_DARK, SOLARIZED_LIGHT);
                [grounds(theme.palette, BLACK, WHITE), solarized].concat()
            },
            |own| vec![own],
        );
        backgrounds.into_iter().map(|background| contrast(fg, background)).min_by(f64::total_cmp)
    }

    #[test]
    fn texts_and_bars_have_enough_contrast() {
        assert!((contrast([0; 3], [255; 3]) - 21.0).abs() < 1e-9);
        let coloured =
            |theme: &Theme| theme.palette != Palette::Mono && theme.depth != ColourDepth::Ansi16;
        for theme in themes().filter(coloured) {
            for row_style in [RowStyle::Plain, RowStyle::Selected] {
                let hues =
                    (0..6).map(|hue| theme.row_style(row_style).patch(theme.hue(hue, row_style)));
                for style in TONES.map(|tone| theme.style(tone, row_style)).into_iter().chain(hues)
                {
                    let is_dim = style.add_modifier.contains(Modifier::DIM);
                    assert!(!is_dim || theme.palette.is_neutral(), "{theme:?} {style:?}");
                    let lowest_contrast = lowest_contrast(theme, style);
                    assert!(
                        lowest_contrast.is_none_or(|lowest_contrast| lowest_contrast >= 4.5),
                        "{theme:?} {style:?} {lowest_contrast:?}"
                    );
                }
            }
            for row_style in [RowStyle::Plain, RowStyle::Selected] {
                let parts = (0..=20_u8).map(|part| f32::from(part) / 20.0);
                let bars = parts.map(|part| theme.gradient_style(part, row_style));
                let loads = TONES.map(|tone| theme.bar_style(tone, row_style));
                let levels = TONES.map(|tone| theme.level_style(tone, row_style));
                for style in loads.into_iter().chain(levels).chain(bars) {
                    let lowest_contrast = lowest_contrast(theme, style);
                    assert!(
                        lowest_contrast.is_none_or(|lowest_contrast| lowest_contrast >= 3.0),
                        "{theme:?} {style:?} {lowest_contrast:?}"
                    );
                }
            }
        }
    }

    /// The 16 colours of a terminal, and what it does with bold ones.
    struct Terminal {
        name: &'static str,
        colours: [u32; 16],
        dark: [u8; 3],
        light: [u8; 3],
        bold_is_bright: Option<bool>,
        /// The lowest contrast of its own colours to its backgrounds.
        least_text: f64,
    }

    /// The defaults of xterm (`XTerm-col.ad`), those of the Linux console (`drivers/tty/vt/vt.c`), and those of Solarized
    /// (ethanschoonover.com/solarized), none of whose colours has a contrast of 4.5 to both of its backgrounds.
    const TERMINALS: [Terminal; 3] = [
        Terminal {
            name: "xterm",
            colours: [
                0x00_0000, 0xcd_0000, 0x00_cd00, 0xcd_cd00, 0x00_00ee, 0xcd_00cd, 0x00_cdcd,
                0xe5_e5e5, 0x7f_7f7f, 0xff_0000, 0x00_ff00, 0xff_ff00, 0x5c_5cff, 0xff_00ff,
                0x00_ffff, 0xff_ffff,
            ],
            dark: BLACK,
            light: WHITE,
            bold_is_bright: None,
            least_text: 4.45,
        },
        Terminal {
            name: "Linux console",
            colours: [
                0x00_0000, 0xaa_0000, 0x00_aa00, 0xaa_5500, 0x00_00aa, 0xaa_00aa, 0x00_aaaa,
                0xaa_aaaa, 0x55_5555, 0xff_5555, 0x55_ff55, 0xff_ff55, 0x55_55ff, 0xff_55ff,
                0x55_ffff, 0xff_ffff,
            ],
            dark: BLACK,
            light: WHITE,
            bold_is_bright: Some(true),
            least_text: 4.5,
        },
        Terminal {
            name: "Solarized",
            colours: [
                0x07_3642, 0xdc_322f, 0x85_9900, 0xb5_8900, 0x26_8bd2, 0xd3_3682, 0x2a_a198,
                0xee_e8d5, 0x00_2b36, 0xcb_4b16, 0x58_6e75, 0x65_7b83, 0x83_9496, 0x6c_71c4,
                0x93_a1a1, 0xfd_f6e3,
            ],
            dark: SOLARIZED_DARK,
            light: SOLARIZED_LIGHT,
            bold_is_bright: Some(false),
            least_text: 3.2,
        },
    ];

    impl Terminal {
        /// Returns what a colour may look like, which for a bold one depends on settings.
        fn looks(&self, colour: Color, is_bold: bool) -> Vec<[u8; 3]> {
            let names = [
                Color::Black,
                Color::Red,
                Color::Green,
                Color::Yellow,
                Color::Blue,
                Color::Magenta,
                Color::Cyan,
                Color::Gray,
                Color::DarkGray,
                Color::LightRed,
                Color::LightGreen,
                Color::LightYellow,
                Color::LightBlue,
                Color::LightMagenta,
                Color::LightCyan,
                Color::White,
            ];
            let number = names.iter().position(|name| *name == colour).expect("one of 16");
            let bright = if is_bold && number < 8 { number + 8 } else { number };
            let numbers = match self.bold_is_bright {
                Some(true) => vec![bright],
                Some(false) => vec![number],
                None => vec![number, bright],
            };
            let bytes = |number: usize| {
                let [_, red, green, blue] = self.colours[number].to_be_bytes();
                [red, green, blue]
            };
            numbers.into_iter().map(bytes).collect()
        }

        fn assert_contrast(&self, theme: Theme, style: Style, least: f64) {
            let Some(fg) = style.fg.filter(|fg| *fg != Color::Reset) else { return };
            let is_bold = style.add_modifier.contains(Modifier::BOLD);
            let grounds = match style.bg {
                Some(bg) => self.looks(bg, false),
                None => grounds(theme.palette, self.dark, self.light),
            };
            for look in self.looks(fg, is_bold) {
                for ground in &grounds {
                    let found = contrast(look, *ground);
                    let context = format!("{} {:?} {style:?} {ground:?}", self.name, theme.palette);
                    assert!(found >= least, "{context}: {found}");
                }
            }
        }
    }

    #[test]
    fn sixteen_colours_have_the_contrast_that_a_terminal_offers() {
        for theme in themes().filter(|theme| theme.depth == ColourDepth::Ansi16) {
            for (terminal, row_style) in TERMINALS.iter().flat_map(|terminal| {
                [RowStyle::Plain, RowStyle::Selected].map(|row_style| (terminal, row_style))
            }) {
                let hues =
                    (0..6).map(|hue| theme.row_style(row_style).patch(theme.hue(hue, row_style)));
                for style in TONES.map(|tone| theme.style(tone, row_style)).into_iter().chain(hues)
                {
                    terminal.assert_contrast(theme, style, terminal.least_text);
                }
                let levels = TONES.map(|tone| theme.level_style(tone, row_style));
                for style in
                    TONES.map(|tone| theme.bar_style(tone, row_style)).into_iter().chain(levels)
                {
                    terminal.assert_contrast(theme, style, 3.0);
                }
                for style in [0.0, 0.5, 1.0].map(|part| theme.gradient_style(part, row_style)) {
                    terminal.assert_contrast(theme, style, 3.0);
                }
            }
        }
    }

    #[test]
    fn a_flagged_level_is_tinted_on_a_light_background() {
        let shaded = |theme: &Theme| theme.palette != Palette::Mono && !theme.has_no_shades();
        for theme in themes().filter(shaded) {
            let tint = |tone| theme.level_style(tone, RowStyle::Plain).bg;
            let is_light = theme.palette.is_light();
            for tone in [Tone::Warn, Tone::Bad] {
                assert_eq!(tint(tone).is_some(), is_light, "{theme:?} {tone:?}");
            }
            assert_eq!(tint(Tone::High), None, "{theme:?}");
        }
    }

    /// Returns the saturation of a colour as the distance of its channels.
    fn spread(style: Style) -> u8 {
        let colour = rgb(style.fg.expect("a colour")).expect("a fixed colour");
        let [lowest, highest] = [colour.iter().min(), colour.iter().max()].map(Option::unwrap);
        highest - lowest
    }

    #[test]
    fn grey_is_old_and_nothing_else() {
        let coloured =
            |theme: &Theme| theme.palette != Palette::Mono && theme.depth != ColourDepth::Ansi16;
        let is_grey = |style: Style| style.fg.is_some() && spread(style) < 16;
        for theme in themes().filter(coloured) {
            for tone in TONES {
                let is_stale = tone == Tone::Stale;
                let bar = theme.bar_style(tone, RowStyle::Plain);
                assert_eq!(is_grey(bar), is_stale, "{theme:?} {tone:?}");
                let style = theme.style(tone, RowStyle::Plain);
                let is_dim = style.add_modifier.contains(Modifier::DIM);
                assert_eq!(is_grey(style) || is_dim, is_stale, "{theme:?} {tone:?}");
            }
            for part in (0..=20_u8).map(|part| f32::from(part) / 20.0) {
                assert!(!is_grey(theme.gradient_style(part, RowStyle::Plain)), "{theme:?} {part}");
            }
        }
    }

    #[test]
    fn a_selected_row_has_no_holes() {
        for theme in themes() {
            let ground = |style: Style| (style.bg, style.add_modifier.contains(Modifier::REVERSED));
            let blank = ground(theme.row_style(RowStyle::Selected));
            assert_ne!(blank, (None, false), "{theme:?}");
            for tone in TONES.into_iter().filter(|tone| *tone != Tone::Caret) {
                let (text, bar) = (
                    theme.style(tone, RowStyle::Selected),
                    theme.bar_style(tone, RowStyle::Selected),
                );
                assert_eq!([ground(text), ground(bar)], [blank; 2], "{theme:?} {tone:?}");
            }
            assert_eq!(ground(theme.gradient_style(0.5, RowStyle::Selected)), blank, "{theme:?}");
        }
    }

    #[test]
    fn gradients_use_24_bits_if_available() {
        for theme in themes() {
            for part in [0.0, 0.3, 0.5, 0.99, 1.0, f32::NAN] {
                let is_full =
                    matches!(theme.gradient_style(part, RowStyle::Plain).fg, Some(Color::Rgb(..)));
                let may_be =
                    theme.depth == ColourDepth::TrueColour && theme.palette != Palette::Mono;
                assert_eq!(is_full, may_be, "{theme:?}");
            }
        }
    }

    /// How people without red or green receptors see colours, as matrices over linear RGB.
    ///
    /// G. M. Machado, M. M. Oliveira, L. A. F. Fernandes: A Physiologically-based Model for Simulation of Color Vision
    /// Deficiency, IEEE Transactions on Visualization and Computer Graphics 15 (6), 2009; severity 1.0.
    const PROTANOPIA: [[f64; 3]; 3] = [
        [0.152_286, 1.052_583, -0.204_868],
        [0.114_503, 0.786_281, 0.099_216],
        [-0.003_882, -0.048_116, 1.051_998],
    ];
    const DEUTERANOPIA: [[f64; 3]; 3] = [
        [0.367_322, 0.860_646, -0.227_968],
        [0.280_085, 0.672_501, 0.047_413],
        [-0.011_820, 0.042_940, 0.968_881],
    ];
    const USUAL_SIGHT: [[f64; 3]; 3] = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];

    fn linear(part: u8) -> f64 {
        let part = f64::from(part) / 255.0;
        if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    }

    fn times(matrix: [[f64; 3]; 3], vector: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| row.iter().zip(vector).map(|(one, other)| one * other).sum())
    }

    /// Returns a colour as it is seen, in CIELAB of 1976 for the white point D65 of sRGB (IEC 61966-2-1).
    fn lab(colour: [u8; 3], sight: [[f64; 3]; 3]) -> [f64; 3] {
        const TO_XYZ: [[f64; 3]; 3] = [
            [0.412_456_4, 0.357_576_1, 0.180_437_5],
            [0.212_672_9, 0.715_152_2, 0.072_175],
            [0.019_333_9, 0.119_192, 0.950_304_1],
        ];
        let seen = times(sight, colour.map(linear)).map(|part| part.clamp(0.0, 1.0));
        let [x, y, z] = times(TO_XYZ, seen);
        let [x, y, z] = [x / 0.950_47, y, z / 1.088_83].map(|part| {
            if part > 216.0 / 24_389.0 {
                part.cbrt()
            } else {
                (24_389.0 / 27.0 * part + 16.0) / 116.0
            }
        });
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    /// The distance of two colours in CIELAB; 2.3 is a just noticeable one (Mahy and others, 1994).
    fn difference(one: [u8; 3], other: [u8; 3], sight: [[f64; 3]; 3]) -> f64 {
        let (one, other) = (lab(one, sight), lab(other, sight));
        let squares = one.iter().zip(other).map(|(one, other)| (one - other).powi(2));
        squares.sum::<f64>().sqrt()
    }

    #[test]
    fn meanings_are_told_apart_without_red_or_green() {
        assert!((difference([0; 3], [255; 3], USUAL_SIGHT) - 100.0).abs() < 0.01);
        let values = [Tone::Stale, Tone::Low, Tone::Mid, Tone::High, Tone::Warn, Tone::Bad];
        let is_problem = |tone| matches!(tone, Tone::Warn | Tone::Bad);
        let for_all =
            [Palette::ColourBlind, Palette::ColourBlindLight, Palette::ColourBlindNeutral];
        for theme in themes().filter(|theme| for_all.contains(&theme.palette)) {
            if theme.depth == ColourDepth::Ansi16 {
                continue;
            }
            let mut styles: Vec<fn(Theme, Tone) -> Style> =
                vec![|theme, tone| theme.bar_style(tone, RowStyle::Plain)];
            if !theme.palette.is_neutral() {
                styles.push(|theme, tone| theme.style(tone, RowStyle::Plain));
            }
            for (style, sight) in styles.into_iter().flat_map(|style| {
                [USUAL_SIGHT, PROTANOPIA, DEUTERANOPIA].map(|sight| (style, sight))
            }) {
                let colour = |tone| rgb(style(theme, tone).fg.unwrap()).unwrap();
                for (index, one) in values.into_iter().enumerate() {
                    for other in values[..index].iter().copied() {
                        // A problem must never be taken for a load or an old value.
                        let least = match is_problem(one) == is_problem(other) {
                            false => 30.0,
                            // Fewer colours have the contrast to all backgrounds.
                            true if theme.palette.is_neutral() => 9.5,
                            true => 10.0,
                        };
                        let found = difference(colour(one), colour(other), sight);
                        assert!(found >= least, "{theme:?} {one:?} {other:?}: {found}");
                    }
                }
            }
        }
    }
}
