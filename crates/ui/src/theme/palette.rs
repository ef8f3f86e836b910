//! The palettes: the colours of each for each tone.

use ratatui::style::{Color, Modifier, Style};

use crate::widgets::line::Tone;

/// The colour palettes. In all but the two hot ones, high load is good and green or blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Palette {
    /// For a dark background; load is green.
    Dark,
    /// For a light background; load is green.
    Light,
    /// No colours: bold, dim and reverse.
    Mono,
    /// For a dark background; blue for load, orange for faults.
    ColourBlind,
    /// The same for a light background.
    ColourBlindLight,
    /// For a dark background; load goes from green over yellow to red.
    Hot,
    /// The same for a light background.
    HotLight,
}

impl Palette {
    #[cfg(any(test, feature = "testing"))]
    pub const ALL: [Self; 7] = [
        Self::Dark,
        Self::Light,
        Self::Mono,
        Self::ColourBlind,
        Self::ColourBlindLight,
        Self::Hot,
        Self::HotLight,
    ];

    /// Returns the legend of the load colours for the help page.
    pub(crate) const fn legend(self) -> &'static str {
        match self {
            Self::Dark | Self::Light => "load: greener is busier; high load is good; red is broken",
            Self::Mono => "load: shown by the length of bars, not by colour",
            Self::ColourBlind => "load: bluer is busier; high load is good; orange marks problems",
            Self::ColourBlindLight => {
                "load: bluer is busier; high load is good; brown marks problems"
            }
            Self::Hot | Self::HotLight => {
                "load: green, yellow, red as load rises; pink marks problems"
            }
        }
    }

    /// Returns the counterpart for a light or a dark background.
    pub(super) const fn for_background(self, is_light: bool) -> Self {
        match (self, is_light) {
            (Self::Dark | Self::Light, false) => Self::Dark,
            (Self::Dark | Self::Light, true) => Self::Light,
            (Self::Mono, _) => Self::Mono,
            (Self::ColourBlind | Self::ColourBlindLight, false) => Self::ColourBlind,
            (Self::ColourBlind | Self::ColourBlindLight, true) => Self::ColourBlindLight,
            (Self::Hot | Self::HotLight, false) => Self::Hot,
            (Self::Hot | Self::HotLight, true) => Self::HotLight,
        }
    }

    pub(super) const fn is_light(self) -> bool {
        matches!(self, Self::Light | Self::ColourBlindLight | Self::HotLight)
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
    faint: u8,
    accent: u8,
    text: ValueColours,
    fill: ValueColours,
    /// The colours of a gradient bar with 256 colours.
    steps: [u8; 6],
    /// Its colours at the beginning, in the middle and at the end, with 24 bits.
    stops: [[f32; 3]; 3],
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
    faint: 146,
    accent: 75,
    text: ValueColours { stale: 247, low: 110, mid: 73, high: 78, warn: 221, bad: 210 },
    fill: ValueColours { stale: 244, low: 67, mid: 73, high: 72, warn: 221, bad: 203 },
    steps: [67, 73, 72, 78, 84, 120],
    stops: [[95.0, 135.0, 175.0], [80.0, 170.0, 150.0], [110.0, 220.0, 130.0]],
};
const LIGHT: Colours = Colours {
    faint: 60,
    accent: 25,
    text: ValueColours { stale: 241, low: 24, mid: 23, high: 22, warn: 94, bad: 124 },
    fill: ValueColours { stale: 243, low: 31, mid: 30, high: 28, warn: 130, bad: 160 },
    steps: [31, 30, 30, 29, 28, 22],
    stops: [[0.0, 130.0, 175.0], [0.0, 130.0, 110.0], [0.0, 95.0, 30.0]],
};
const COLOUR_BLIND: Colours = Colours {
    faint: 146,
    accent: 183,
    text: ValueColours { stale: 247, low: 195, mid: 117, high: 39, warn: 222, bad: 208 },
    fill: ValueColours { stale: 244, low: 103, mid: 68, high: 39, warn: 222, bad: 208 },
    steps: [103, 103, 68, 68, 75, 39],
    stops: [[135.0, 135.0, 175.0], [95.0, 135.0, 215.0], [0.0, 175.0, 255.0]],
};
const COLOUR_BLIND_LIGHT: Colours = Colours {
    faint: 60,
    accent: 54,
    text: ValueColours { stale: 241, low: 24, mid: 25, high: 20, warn: 94, bad: 88 },
    fill: ValueColours { stale: 243, low: 31, mid: 26, high: 19, warn: 130, bad: 88 },
    steps: [31, 31, 26, 26, 25, 19],
    stops: [[0.0, 130.0, 175.0], [0.0, 95.0, 215.0], [0.0, 0.0, 175.0]],
};
const HOT: Colours = Colours {
    faint: 146,
    accent: 75,
    text: ValueColours { stale: 247, low: 71, mid: 179, high: 209, warn: 213, bad: 205 },
    fill: ValueColours { stale: 244, low: 71, mid: 179, high: 167, warn: 213, bad: 205 },
    steps: [71, 107, 143, 179, 173, 167],
    stops: [[80.0, 170.0, 90.0], [215.0, 175.0, 85.0], [215.0, 80.0, 80.0]],
};
const HOT_LIGHT: Colours = Colours {
    faint: 60,
    accent: 25,
    text: ValueColours { stale: 241, low: 22, mid: 94, high: 124, warn: 90, bad: 125 },
    fill: ValueColours { stale: 243, low: 64, mid: 130, high: 160, warn: 90, bad: 125 },
    steps: [64, 64, 100, 130, 130, 160],
    stops: [[85.0, 130.0, 0.0], [150.0, 105.0, 0.0], [215.0, 0.0, 0.0]],
};

const fn colours(palette: Palette) -> &'static Colours {
    match palette {
        Palette::Dark | Palette::Mono => &DARK,
        Palette::Light => &LIGHT,
        Palette::ColourBlind => &COLOUR_BLIND,
        Palette::ColourBlindLight => &COLOUR_BLIND_LIGHT,
        Palette::Hot => &HOT,
        Palette::HotLight => &HOT_LIGHT,
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
    let of = colours(palette);
    match tone {
        Tone::Plain => Style::new(),
        Tone::Faint => indexed(of.faint),
        Tone::Stale => indexed(of.text.stale),
        Tone::Strong => Style::new().add_modifier(Modifier::BOLD),
        Tone::Accent => indexed(of.accent).add_modifier(Modifier::BOLD),
        Tone::Caret => Style::new().add_modifier(Modifier::REVERSED),
        Tone::Low => indexed(of.text.low),
        Tone::Mid => indexed(of.text.mid),
        Tone::High => indexed(of.text.high),
        Tone::Warn => indexed(of.text.warn),
        Tone::Bad => emphasized(palette, indexed(of.text.bad)),
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
        Palette::Dark | Palette::Light | Palette::Mono => style,
        Palette::ColourBlind | Palette::ColourBlindLight | Palette::Hot | Palette::HotLight => {
            style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
        }
    }
}

/// Returns the style of a tone with the terminal's 16 colours.
pub(super) fn style_16(palette: Palette, tone: Tone) -> Style {
    // In some terminals bright black is the background colour. There is no other shade for secondary text and old values:
    // an age beside old values marks them.
    let grey = Style::new().add_modifier(Modifier::DIM);
    let (yellow, red) = (Color::Yellow, Color::Red);
    let (blue, bright) = (Color::Blue, Color::LightBlue);
    let [low, mid, high, warn, bad] = match palette {
        Palette::Dark | Palette::Mono => [
            named(Color::Cyan),
            named(Color::Green),
            named(Color::LightGreen),
            named(yellow),
            named(Color::LightRed),
        ],
        Palette::Light => {
            let green = Color::Green;
            [named(blue), named(green), bold(green), bold(yellow), bold(red)]
        }
        Palette::ColourBlind => {
            [named(Color::Cyan), named(blue), bold(bright), named(yellow), named(yellow)]
        }
        Palette::ColourBlindLight => {
            [named(Color::Cyan), named(bright), bold(blue), named(yellow), named(yellow)]
        }
        Palette::Hot | Palette::HotLight => {
            [named(Color::Green), named(yellow), named(red), bold(Color::Magenta), named(red)]
        }
    };
    match tone {
        Tone::Plain => Style::new(),
        Tone::Faint | Tone::Stale => grey,
        Tone::Strong => Style::new().add_modifier(Modifier::BOLD),
        Tone::Accent => bold(if palette.is_light() { blue } else { Color::Cyan }),
        Tone::Caret => Style::new().add_modifier(Modifier::REVERSED),
        Tone::Low => low,
        Tone::Mid => mid,
        Tone::High => high,
        Tone::Warn => warn,
        Tone::Bad => emphasized(palette, bad),
    }
}

/// Returns the style of a tone without colours: the length of a bar shows the load, and faults are bold.
pub(super) fn style_mono(tone: Tone) -> Style {
    match tone {
        Tone::Plain | Tone::Low | Tone::Mid | Tone::High => Style::new(),
        Tone::Faint | Tone::Stale => Style::new().add_modifier(Modifier::DIM),
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
        ColourDepth::Ansi16 if part < 1.0 / 3.0 => style_16(palette, Tone::Low),
        ColourDepth::Ansi16 if part < 2.0 / 3.0 => style_16(palette, Tone::Mid),
        ColourDepth::Ansi16 => style_16(palette, Tone::High),
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
