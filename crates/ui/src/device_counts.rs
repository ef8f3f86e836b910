//! Device counts by state: each number stands before its word, and between two of them one separator.

use crate::widgets::line::{Line, Tone};
use gtop_fleet::{DeviceState, Totals};

/// How the counts are written, from the longest form to the shortest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountForm {
    /// Whole words, and zeros of the common states.
    WithZeros,
    Words,
    ShortWords,
    /// Short words, and the number of all without one.
    BareTotal,
    Letters,
    /// Letters without a separator.
    Dense,
}

impl CountForm {
    pub(crate) const ALL: [Self; 6] = [
        Self::WithZeros,
        Self::Words,
        Self::ShortWords,
        Self::BareTotal,
        Self::Letters,
        Self::Dense,
    ];
}

/// Returns the counts in this form: all that are not zero, so that they add up to the number of devices.
fn device_counts(totals: &Totals, form: CountForm) -> Line {
    // Common states, and those that are worth a colour.
    let states = [
        (DeviceState::Busy, ["busy", "b"], None),
        (DeviceState::IdleHeld, ["held", "h"], None),
        (DeviceState::InUse, ["in-use", "i"], None),
        (DeviceState::Free, ["free", "f"], None),
        (DeviceState::Faulty, ["faulty", "x"], Some(Tone::Bad)),
        (DeviceState::Stale, ["stale", "o"], Some(Tone::Warn)),
        (DeviceState::Unavailable, ["unavail", "u"], Some(Tone::Warn)),
        (DeviceState::Unknown, ["unknown", "?"], Some(Tone::Faint)),
    ];
    let mut counts = *totals;
    let mut line = Line::new();
    for (state, [short, letter], alarm) in states {
        let count = *counts.devices_counted_as(state);
        let shows_zero =
            form == CountForm::WithZeros && alarm.is_none() && state != DeviceState::InUse;
        if count == 0 && !shows_zero {
            continue;
        }
        let (gap, word) = match form {
            CountForm::WithZeros | CountForm::Words => (" ", state.name()),
            CountForm::ShortWords | CountForm::BareTotal => (" ", short),
            CountForm::Letters | CountForm::Dense => ("", letter),
        };
        let number = if count == 0 { Tone::Faint } else { alarm.unwrap_or(Tone::Plain) };
        line = joined(line, form)
            .text(count.to_string(), number)
            .text(gap, Tone::Faint)
            .text(word, alarm.unwrap_or(Tone::Faint));
    }
    line
}

/// Returns the longest form of the counts, without zeros, that fits this width after a line of others.
pub(crate) fn fitting_device_counts(before: &Line, totals: &Totals, width: u16) -> Line {
    let [_, forms @ ..] = CountForm::ALL;
    let lines = forms.map(|form| with_device_counts(before.clone(), totals, form));
    let fitting = lines.iter().find(|line| line.width() <= width);
    fitting.or(lines.last()).cloned().unwrap_or_default()
}

/// Appends the counts to a line of others.
pub(crate) fn with_device_counts(line: Line, totals: &Totals, form: CountForm) -> Line {
    let counts = device_counts(totals, form);
    if counts.width() > 0 { joined(line, form).append(counts) } else { line }
}

/// Returns a line to which another count can be appended.
pub(crate) fn joined(line: Line, form: CountForm) -> Line {
    let separator = match form {
        CountForm::WithZeros | CountForm::Words | CountForm::ShortWords | CountForm::BareTotal => {
            " · "
        }
        CountForm::Letters => " ",
        CountForm::Dense => "",
    };
    if line.width() > 0 { line.text(separator, Tone::Faint) } else { line }
}
