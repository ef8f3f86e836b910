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
    /// The same, and what cannot be allocated or is not known is `other`.
    Merged,
    /// The busy, free and faulty ones; all the rest are `other`.
    Few,
    Letters,
    /// Letters without a separator.
    Dense,
}

impl CountForm {
    pub(crate) const ALL: [Self; 8] = [
        Self::WithZeros,
        Self::Words,
        Self::ShortWords,
        Self::BareTotal,
        Self::Merged,
        Self::Few,
        Self::Letters,
        Self::Dense,
    ];

    /// Returns true if devices in this state are counted as others.
    fn merges(self, state: DeviceState) -> bool {
        match self {
            Self::Merged => matches!(state, DeviceState::Unavailable | DeviceState::Unknown),
            Self::Few => {
                !matches!(state, DeviceState::Busy | DeviceState::Free | DeviceState::Faulty)
            }
            Self::WithZeros
            | Self::Words
            | Self::ShortWords
            | Self::BareTotal
            | Self::Letters
            | Self::Dense => false,
        }
    }
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
    let (mut line, mut others) = (Line::new(), 0);
    for (state, [short, letter], alarm) in states {
        let count = *counts.devices_counted_as(state);
        let shows_zero =
            form == CountForm::WithZeros && alarm.is_none() && state != DeviceState::InUse;
        if count == 0 && !shows_zero {
            continue;
        }
        if form.merges(state) {
            others += count;
            continue;
        }
        let (gap, word) = match form {
            CountForm::WithZeros | CountForm::Words => (" ", state.name()),
            CountForm::ShortWords | CountForm::BareTotal | CountForm::Merged | CountForm::Few => {
                (" ", short)
            }
            CountForm::Letters | CountForm::Dense => ("", letter),
        };
        let number = if count == 0 { Tone::Faint } else { alarm.unwrap_or(Tone::Plain) };
        line = joined(line, form)
            .text(count.to_string(), number)
            .text(gap, Tone::Faint)
            .text(word, alarm.unwrap_or(Tone::Faint));
    }
    if others > 0 {
        line = joined(line, form).text(others.to_string(), Tone::Plain).text(" other", Tone::Faint);
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
        CountForm::WithZeros
        | CountForm::Words
        | CountForm::ShortWords
        | CountForm::BareTotal
        | CountForm::Merged
        | CountForm::Few => " · ",
        CountForm::Letters => " ",
        CountForm::Dense => "",
    };
    if line.width() > 0 { line.text(separator, Tone::Faint) } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_as_long_as_the_common_states_fit() {
        let totals = Totals {
            devices: 2320,
            busy: 1718,
            idle_held: 44,
            free: 492,
            faulty: 16,
            stale_devices: 8,
            unavailable: 8,
            unknown_devices: 34,
            ..Totals::default()
        };
        let before = Line::styled("2320", Tone::Plain);
        let text = |width| fitting_device_counts(&before, &totals, width).plain_text();
        assert_eq!(
            text(90),
            "2320 · 1718 busy · 44 held · 492 free · 16 faulty · 8 stale · 8 unavail · 34 unknown"
        );
        assert_eq!(
            text(80),
            "2320 · 1718 busy · 44 held · 492 free · 16 faulty · 8 stale · 42 other"
        );
        assert_eq!(text(60), "2320 · 1718 busy · 492 free · 16 faulty · 94 other");
        assert_eq!(text(40), "2320 1718b 44h 492f 16x 8o 8u 34?");
    }
}
