//! The palettes: the colours of each for each tone.

use ratatui::style::{Color, Modifier, Style};

use crate::widgets::line::Tone;

/// The colour palettes. In all but the hot ones, high load is good and green or blue.
///
/// The neutral ones are for a background that is not known. No colour has the contrast of text to both black and Solarized
/// light, so their text is in the terminal's own colour, and only bars and signs have others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Palette {
    /// For a dark background; load is green.
    Dark,
    /// For a light background; load is green.
    Light,
    /// For any background; load is green.
    Neutral,
    /// No colours: bold, dim and reverse.
    Mono,
    /// For a dark background; blue for load, orange for faults.
    ColourBlind,
    /// The same for a light background.
    ColourBlindLight,
    /// The same for any background.
    ColourBlindNeutral,
    /// For a dark background; load goes from green over yellow to orange.
    Hot,
    /// The same for a light background.
    HotLight,
    /// The same for any background.
    HotNeutral,
}

impl Palette {
    #[cfg(any(test, feature = "testing"))]
    pub const ALL: [Self; 10] = [
        Self::Dark,
        Self::Light,
        Self::Neutral,
        Self::Mono,
        Self::ColourBlind,
        Self::ColourBlindLight,
        Self::ColourBlindNeutral,
        Self::Hot,
        Self::HotLight,
        Self::HotNeutral,
    ];

    /// Returns the legend of the load colours for the help page.
    pub(super) const fn legend(self) -> &'static str {
        match self {
            Self::Dark | Self::Light | Self::Neutral => {
                "load: greener is busier; high load is good; red is broken"
            }
            Self::Mono => "load: shown by the length of bars, not by colour",
            Self::ColourBlind | Self::ColourBlindNeutral => {
                "load: bluer is busier; high load is good; orange marks problems"
            }
            Self::ColourBlindLight => {
                "load: bluer is busier; high load is good; brown marks problems"
            }
            Self::Hot | Self::HotLight | Self::HotNeutral => {
                "load: green, yellow, orange as load rises; pink marks problems"
            }
        }
    }

    /// Returns the counterpart for a light or a dark background, or for one that is not known.
    pub(super) const fn for_background(self, is_light: Option<bool>) -> Self {
        let [dark, light, neutral] = match self {
            Self::Mono => [Self::Mono; 3],
            Self::Dark | Self::Light | Self::Neutral => [Self::Dark, Self::Light, Self::Neutral],
            Self::ColourBlind | Self::ColourBlindLight | Self::ColourBlindNeutral => {
                [Self::ColourBlind, Self::ColourBlindLight, Self::ColourBlindNeutral]
            }
            Self::Hot | Self::HotLight | Self::HotNeutral => {
                [Self::Hot, Self::HotLight, Self::HotNeutral]
            }
        };
        match is_light {
            Some(false) => dark,
            Some(true) => light,
            None => neutral,
        }
    }

    pub(super) const fn is_light(self) -> bool {
        matches!(self, Self::Light | Self::ColourBlindLight | Self::HotLight)
    }

    pub(super) const fn is_neutral(self) -> bool {
        matches!(self, Self::Neutral | Self::ColourBlindNeutral | Self::HotNeutral)
    }
}

/// How many colours the terminal has.
///
/// Only gradients use 24-bit colours; everything else uses the 240 fixed colours of the 256, which need half
/// the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ColourDepth {
    /// The 16 colours that the terminal configures.
    Ansi16,
    /// The 256 indexed colours, of which 240 are fixed.
    Indexed256,
    /// 24-bit colours.
    TrueColour,
}

/// The colours that differ between palettes: those of tones, which are fixed ones of the 256, and of gradients.
///
/// Text has a contrast of at least 4.5:1 to every background it may be drawn on, bars at least 3:1.
struct Colours {
    /// `None` in a neutral palette.
    text: Option<TextColours>,
    fill: ValueColours,
    /// The colours of a gradient bar with 256 colours.
    steps: [u8; 6],
    /// Its colours at the beginning, in the middle and at the end, with 24 bits.
    stops: [[f32; 3]; 3],
}

struct TextColours {
    faint: u8,
    accent: u8,
    value: ValueColours,
}

/// The colours of old values, load levels and faults. Grey is for old values only.
struct ValueColours {
    stale: u8,
    low: u8,
    mid: u8,
    high: u8,
    warn: u8,
    bad: u8,
}

const DARK: Colours = Colours {
    text: Some(TextColours {
        faint: 146,
        accent: 75,
        value: ValueColours { stale: 247, low: 110, mid: 73, high: 78, warn: 221, bad: 210 },
    }),
    fill: ValueColours { stale: 244, low: 67, mid: 73, high: 72, warn: 221, bad: 203 },
    steps: [67, 73, 72, 78, 84, 120],
    stops: [[95.0, 135.0, 175.0], [80.0, 170.0, 150.0], [110.0, 220.0, 130.0]],
};
const LIGHT: Colours = Colours {
    text: Some(TextColours {
        faint: 60,
        accent: 25,
        value: ValueColours { stale: 241, low: 24, mid: 23, high: 22, warn: 94, bad: 124 },
    }),
    fill: ValueColours { stale: 243, low: 31, mid: 30, high: 28, warn: 130, bad: 160 },
    steps: [31, 30, 30, 29, 28, 22],
    stops: [[0.0, 130.0, 175.0], [0.0, 130.0, 110.0], [0.0, 95.0, 30.0]],
};
const COLOUR_BLIND: Colours = Colours {
    text: Some(TextColours {
        faint: 146,
        accent: 183,
        value: ValueColours { stale: 247, low: 195, mid: 117, high: 39, warn: 222, bad: 208 },
    }),
    fill: ValueColours { stale: 244, low: 103, mid: 68, high: 39, warn: 222, bad: 208 },
    steps: [103, 103, 68, 68, 75, 39],
    stops: [[135.0, 135.0, 175.0], [95.0, 135.0, 215.0], [0.0, 175.0, 255.0]],
};
const COLOUR_BLIND_LIGHT: Colours = Colours {
    text: Some(TextColours {
        faint: 60,
        accent: 54,
        value: ValueColours { stale: 241, low: 24, mid: 25, high: 20, warn: 94, bad: 88 },
    }),
    fill: ValueColours { stale: 243, low: 31, mid: 26, high: 19, warn: 130, bad: 88 },
    steps: [31, 31, 26, 26, 25, 19],
    stops: [[0.0, 130.0, 175.0], [0.0, 95.0, 215.0], [0.0, 0.0, 175.0]],
};
const HOT: Colours = Colours {
    text: Some(TextColours {
        faint: 146,
        accent: 75,
        value: ValueColours { stale: 247, low: 71, mid: 185, high: 215, warn: 213, bad: 205 },
    }),
    fill: ValueColours { stale: 244, low: 71, mid: 179, high: 173, warn: 213, bad: 205 },
    steps: [71, 107, 143, 179, 179, 173],
    stops: [[80.0, 170.0, 90.0], [215.0, 175.0, 85.0], [215.0, 135.0, 85.0]],
};
const HOT_LIGHT: Colours = Colours {
    text: Some(TextColours {
        faint: 60,
        accent: 25,
        value: ValueColours { stale: 241, low: 22, mid: 58, high: 94, warn: 90, bad: 125 },
    }),
    fill: ValueColours { stale: 243, low: 64, mid: 94, high: 130, warn: 90, bad: 125 },
    steps: [64, 64, 94, 94, 130, 130],
    stops: [[85.0, 130.0, 0.0], [135.0, 105.0, 0.0], [175.0, 95.0, 0.0]],
};
const NEUTRAL: Colours = Colours {
    text: None,
    fill: ValueColours { stale: 244, low: 31, mid: 30, high: 28, warn: 136, bad: 167 },
    steps: [31, 31, 30, 30, 29, 28],
    stops: [[0.0, 135.0, 175.0], [0.0, 135.0, 135.0], [0.0, 135.0, 0.0]],
};
const COLOUR_BLIND_NEUTRAL: Colours = Colours {
    text: None,
    fill: ValueColours { stale: 244, low: 67, mid: 68, high: 69, warn: 136, bad: 130 },
    steps: [67, 67, 68, 68, 69, 69],
    stops: [[95.0, 135.0, 175.0], [95.0, 135.0, 215.0], [95.0, 135.0, 255.0]],
};
const HOT_NEUTRAL: Colours = Colours {
    text: None,
    fill: ValueColours { stale: 244, low: 64, mid: 136, high: 166, warn: 134, bad: 162 },
    steps: [64, 64, 100, 136, 136, 166],
    stops: [[95.0, 135.0, 0.0], [175.0, 135.0, 0.0], [215.0, 95.0, 0.0]],
};

const fn colours(palette: Palette) -> &'static Colours {
    match palette {
        Palette::Dark | Palette::Mono => &DARK,
        Palette::Light => &LIGHT,
        Palette::Neutral => &NEUTRAL,
        Palette::ColourBlind => &COLOUR_BLIND,
        Palette::ColourBlindLight => &COLOUR_BLIND_LIGHT,
        Palette::ColourBlindNeutral => &COLOUR_BLIND_NEUTRAL,
        Palette::Hot => &HOT,
        Palette::HotLight => &HOT_LIGHT,
        Palette::HotNeutral => &HOT_NEUTRAL,
    }
}

fn indexed(index: u8) -> Style {
    Style::new().fg(Color::Indexed(index))
}

fn named(colour: Color) -> Style {
    Style::new().fg(colour)
}

fn bold(colour: Color) -> Style {
    named(colour).add_modifier(Modifier::BOLD)
}

/// Returns the style of text with 256 colours. Emphasis without a meaning of its own is bold in the
/// terminal's default colour, which is legible on every background.
pub(super) fn text_style_256(palette: Palette, tone: Tone) -> Style {
    let Some(TextColours { faint, accent, value }) = &colours(palette).text else {
        return style_mono(tone);
    };
    match tone {
        Tone::Plain => Style::new(),
        Tone::Faint => indexed(*faint),
        Tone::Stale => indexed(value.stale),
        Tone::Strong => Style::new().add_modifier(Modifier::BOLD),
        Tone::Accent => indexed(*accent).add_modifier(Modifier::BOLD),
        Tone::Caret => Style::new().add_modifier(Modifier::REVERSED),
        Tone::Low => indexed(value.low),
        Tone::Mid => indexed(value.mid),
        Tone::High => indexed(value.high),
        Tone::Warn => indexed(value.warn),
        Tone::Bad => emphasized(palette, indexed(value.bad)),
    }
}

/// Returns the style of a bar, graph or level with 256 colours; filled areas need fainter colours than text.
pub(super) fn bar_style_256(palette: Palette, tone: Tone) -> Style {
    let of = &colours(palette).fill;
    match tone {
        Tone::Stale => indexed(of.stale),
        Tone::Low => indexed(of.low),
        Tone::Mid => indexed(of.mid),
        Tone::High => indexed(of.high),
        Tone::Warn => indexed(of.warn),
        Tone::Bad => indexed(of.bad),
        Tone::Plain | Tone::Faint | Tone::Strong | Tone::Accent | Tone::Caret => {
            text_style_256(palette, tone)
        }
    }
}

/// Adds weight to faults in palettes where their colour is close to another one.
fn emphasized(palette: Palette, style: Style) -> Style {
    match palette {
        Palette::Dark | Palette::Light | Palette::Neutral | Palette::Mono => style,
        Palette::ColourBlind
        | Palette::ColourBlindLight
        | Palette::ColourBlindNeutral
        | Palette::Hot
        | Palette::HotLight
        | Palette::HotNeutral => style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
    }
}

/// Returns the style of text with the terminal's 16 colours; see [`value_style_16`].
pub(super) fn style_16(palette: Palette, tone: Tone) -> Style {
    match tone {
        Tone::Accent if palette.is_light() => bold(Color::Blue),
        Tone::Accent if !palette.is_neutral() => bold(Color::Cyan),
        // The age beside old values marks them where a terminal does not dim.
        Tone::Plain | Tone::Faint | Tone::Stale | Tone::Strong | Tone::Accent | Tone::Caret => {
            style_mono(tone)
        }
        _ if palette.is_neutral() => style_mono(tone),
        Tone::Low | Tone::Mid | Tone::High | Tone::Warn | Tone::Bad => {
            value_style_16(palette, tone)
        }
    }
}

/// Returns the style of a value with the terminal's 16 colours, of which few are legible everywhere: on black the blue of
/// xterm and of the Linux console is not, on white their green, yellow and cyan are not, and most bright colours of
/// Solarized are its greys. A bar's length tells the load; colour tells problems.
pub(super) fn value_style_16(palette: Palette, tone: Tone) -> Style {
    let [cyan, blue, red] = [Color::Cyan, Color::Blue, Color::Red].map(named);
    let [yellow, magenta, light_red] =
        [bold(Color::Yellow), named(Color::Magenta), named(Color::LightRed)];
    let plain = Style::new();
    let [low, mid, high, warn, bad] = match palette {
        Palette::Mono | Palette::Dark => [cyan, cyan, named(Color::Green), yellow, light_red],
        Palette::Light => [blue, blue, blue, magenta, red],
        Palette::Neutral => [plain, plain, plain, magenta, light_red],
        Palette::ColourBlind => [cyan, cyan, cyan, yellow, yellow.underlined()],
        Palette::ColourBlindLight => [blue, blue, blue, plain.bold(), red.underlined()],
        Palette::ColourBlindNeutral => [plain, plain, plain, plain.bold(), light_red.underlined()],
        Palette::Hot => {
            let green = named(Color::Green);
            [green, yellow, yellow, bold(Color::Magenta), light_red.underlined()]
        }
        Palette::HotLight => [blue, blue, blue, magenta, red.underlined()],
        Palette::HotNeutral => [plain, plain, plain, magenta, light_red.underlined()],
    };
    match tone {
        Tone::Low => low,
        Tone::Mid => mid,
        Tone::High => high,
        Tone::Warn => warn,
        Tone::Bad => bad,
        Tone::Plain | Tone::Faint | Tone::Stale | Tone::Strong | Tone::Accent | Tone::Caret => {
            style_mono(tone)
        }
    }
}

/// Returns the style of a tone without colours: the length of a bar shows the load, and faults are bold. Only old values
/// are dim.
pub(super) fn style_mono(tone: Tone) -> Style {
    match tone {
        Tone::Plain | Tone::Faint | Tone::Low | Tone::Mid | Tone::High => Style::new(),
        Tone::Stale => Style::new().add_modifier(Modifier::DIM),
        Tone::Caret => Style::new().add_modifier(Modifier::REVERSED),
        Tone::Strong | Tone::Accent | Tone::Warn => Style::new().add_modifier(Modifier::BOLD),
        Tone::Bad => Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
    }
}

/// Returns the style of a gradient bar at `part` of its length, 0 to 1.
pub(super) fn gradient(palette: Palette, depth: ColourDepth, part: f32) -> Style {
    let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
    if palette == Palette::Mono {
        return Style::new();
    }
    match depth {
        ColourDepth::Ansi16 if part < 1.0 / 3.0 => value_style_16(palette, Tone::Low),
        ColourDepth::Ansi16 if part < 2.0 / 3.0 => value_style_16(palette, Tone::Mid),
        ColourDepth::Ansi16 => value_style_16(palette, Tone::High),
        ColourDepth::Indexed256 => {
            let steps = (1_u8..).zip(colours(palette).steps);
            let found = steps.into_iter().find(|(end, _)| part * 6.0 < f32::from(*end));
            let [.., last] = colours(palette).steps;
            indexed(found.map_or(last, |(_, colour)| colour))
        }
        ColourDepth::TrueColour => {
            let [low, mid, high] = colours(palette).stops;
            let (from, to, share) =
                if part < 0.5 { (low, mid, part * 2.0) } else { (mid, high, part * 2.0 - 1.0) };
            let mut bytes = [0; 3];
            for (byte, (from, to)) in bytes.iter_mut().zip(from.into_iter().zip(to)) {
                *byte = rounded((to - from).mul_add(share, from));
            }
            let [red, green, blue] = bytes;
            Style::new().fg(Color::Rgb(red, green, blue))
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
fn rounded(value: f32) -> u8 {
    value.round() as u8
}
