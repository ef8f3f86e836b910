//! Number formats of the screen: few digits, fixed width, and never a zero for an unknown value.

use std::time::Duration;

use crate::choices::choices;
use gtop_fleet::insight::users::shown_device_time;
use gtop_fleet::settings::value;
use gtop_local::text::UNKNOWN;
use gtop_model::{Bytes, Celsius, Percent, Reading, Watts};

const GIB: f64 = 1_073_741_824.0;

/// Formats a known value, or `–` if it is unknown.
pub(crate) fn or_unknown<T>(reading: Option<T>, format: impl FnOnce(T) -> String) -> String {
    reading.map_or_else(|| UNKNOWN.to_owned(), format)
}

/// Formats a percentage without the sign.
pub(crate) fn percent(share: Option<f32>) -> String {
    or_unknown(share, |share| format!("{share:.0}"))
}

/// Returns a percentage as a plain number.
pub(crate) fn percent_value(reading: Reading<Percent>) -> Option<f32> {
    reading.get().map(Percent::get)
}

/// Returns a size in GiB, for charts.
#[expect(clippy::cast_possible_truncation, reason = "a few digits are shown")]
pub(crate) fn gib(bytes: Bytes) -> f32 {
    bytes.gib() as f32
}

/// Returns the share of used memory in percent.
pub(crate) fn share_of(used: Option<Bytes>, total: Option<Bytes>) -> Option<f32> {
    Percent::of(used?.0, total?.0).map(Percent::get)
}

/// Returns the used share in percent.
pub(crate) fn used_percent(total: Option<Bytes>, free: Option<Bytes>) -> Option<f32> {
    let (total, free) = (total?, free?);
    Percent::of(total.0.saturating_sub(free.0), total.0).map(Percent::get)
}

choices! {
    /// The unit of memory.
    pub enum MemoryUnit {
        Mb = value("mb", "MB, 10^6 bytes"),
        Mib = value("mib", "MiB, 2^20 bytes"),
        Gb = value("gb", "GB, 10^9 bytes"),
        #[default]
        Gib = value("gib", "GiB, 2^30 bytes"),
    }
}

/// The units of memory and temperature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Units {
    pub(crate) memory: MemoryUnit,
    pub(crate) is_fahrenheit: bool,
}

impl Units {
    /// Formats a temperature in at most 5 columns: `61°`, `142F`.
    pub(crate) fn temperature(self, celsius: Celsius) -> String {
        self.temperature_text(celsius.get())
    }

    /// Same as [`Self::temperature`], of degrees Celsius.
    pub(crate) fn temperature_text(self, celsius: f32) -> String {
        format!("{:.0}{}", self.convert_celsius(celsius), self.temperature_unit())
    }

    /// Formats a difference of temperatures, of degrees Celsius; it has no zero point to convert.
    pub(crate) fn temperature_difference_text(self, celsius: f32) -> String {
        let difference = if self.is_fahrenheit { celsius * 1.8 } else { celsius };
        format!("{difference:.0}{}", self.temperature_unit())
    }

    /// Converts degrees Celsius to the display unit.
    pub(crate) fn convert_celsius(self, celsius: f32) -> f32 {
        if self.is_fahrenheit { celsius.mul_add(1.8, 32.0) } else { celsius }
    }

    /// Returns the unit of temperatures.
    pub(crate) const fn temperature_unit(self) -> &'static str {
        if self.is_fahrenheit { "F" } else { "°" }
    }

    /// Converts GiB to the display unit.
    pub(crate) fn convert_gib(self, size: f64) -> f64 {
        size * GIB / self.bytes_per_unit()
    }

    /// Returns the number of decimals for a column whose largest amount is `largest` GiB.
    pub(crate) fn decimals(self, largest: f64) -> usize {
        usize::from(!self.is_small() && largest < 100.0)
    }

    /// Formats an amount in GiB like [`Self::amount`].
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
    pub(crate) fn amount_of_gib(self, size: f32) -> String {
        self.amount(Bytes((f64::from(size) * GIB) as u64))
    }

    /// Returns the name of the unit, for titles.
    pub(crate) const fn unit_name(self) -> &'static str {
        match self.memory {
            MemoryUnit::Mb => "MB",
            MemoryUnit::Mib => "MiB",
            MemoryUnit::Gb => "GB",
            MemoryUnit::Gib => "GiB",
        }
    }

    const fn bytes_per_unit(self) -> f64 {
        match self.memory {
            MemoryUnit::Mb => 1e6,
            MemoryUnit::Mib => 1_048_576.0,
            MemoryUnit::Gb => 1e9,
            MemoryUnit::Gib => GIB,
        }
    }

    /// The factor to the next larger unit.
    const fn next_unit_factor(self) -> f64 {
        match self.memory {
            MemoryUnit::Mb | MemoryUnit::Gb => 1000.0,
            MemoryUnit::Mib | MemoryUnit::Gib => 1024.0,
        }
    }

    const fn is_small(self) -> bool {
        matches!(self.memory, MemoryUnit::Mb | MemoryUnit::Mib)
    }

    #[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
    fn value(self, bytes: Bytes) -> f64 {
        bytes.0 as f64 / self.bytes_per_unit()
    }

    /// Formats `used/total` without the unit; `–` if both are unknown.
    pub(crate) fn usage(self, used: Option<Bytes>, total: Option<Bytes>) -> String {
        if used.is_none() && total.is_none() {
            return UNKNOWN.to_owned();
        }
        self.pair([used, total], 1.0, usize::from(!self.is_small()))
    }

    /// Same as [`Self::usage`], marked if the memory is the host's.
    pub(crate) fn marked_usage(
        self,
        ((used, total), is_host): ((Option<Bytes>, Option<Bytes>), bool),
    ) -> String {
        mark_host(self.usage(used, total), is_host)
    }

    /// Formats `used/total` in multiples of `scale` units.
    pub(crate) fn pair(self, amounts: [Option<Bytes>; 2], scale: f64, decimals: usize) -> String {
        let [used, total] = amounts.map(|bytes| {
            or_unknown(bytes, |bytes| format!("{:.decimals$}", self.value(bytes) / scale))
        });
        format!("{used}/{total}")
    }

    /// Formats `used/total` in the next larger unit; `None` if the display unit is a small one.
    pub(crate) fn large_usage(self, used: Option<Bytes>, total: Bytes) -> Option<String> {
        let is_large = !self.is_small();
        is_large.then(|| self.pair([used, Some(total)], self.next_unit_factor(), 1) + "T")
    }

    /// Formats `used/total` with the unit; large amounts in the next larger unit, small ones in the next smaller one.
    pub(crate) fn usage_with_unit(self, used: Option<Bytes>, total: Option<Bytes>) -> String {
        let Some(size) = total.map(|total| self.value(total)) else { return UNKNOWN.to_owned() };
        let factor = self.next_unit_factor();
        let (scale, unit, decimals) = if self.is_small() {
            (1.0, self.unit_name(), 0)
        } else if size >= 10.0 * factor {
            (factor, if self.memory == MemoryUnit::Gb { "TB" } else { "TiB" }, 1)
        } else if size < 1.0 {
            (1.0 / factor, if self.memory == MemoryUnit::Gb { "MB" } else { "MiB" }, 0)
        } else {
            (1.0, self.unit_name(), usize::from(size < 100.0))
        };
        format!("{} {unit}", self.pair([used, total], scale, decimals))
    }

    /// Returns the maximum width of an amount in columns.
    pub(crate) const fn amount_width(self) -> u16 {
        if self.is_small() { 7 } else { 6 }
    }

    /// Formats an amount with a unit letter in at most [`Self::amount_width`] columns.
    pub(crate) fn amount(self, bytes: Bytes) -> String {
        let (number, letter) = self.scaled(bytes);
        format!("{number}{letter}")
    }

    /// Formats an amount with its unit in full: `77.0 GiB`.
    pub(crate) fn amount_with_unit(self, bytes: Bytes) -> String {
        let (number, letter) = self.scaled(bytes);
        let unit = match self.memory {
            MemoryUnit::Mb | MemoryUnit::Gb => "B",
            MemoryUnit::Mib | MemoryUnit::Gib => "iB",
        };
        format!("{number} {letter}{unit}")
    }

    /// Returns an amount in the unit that suits it, and the letter of the unit.
    fn scaled(self, bytes: Bytes) -> (String, char) {
        let (size, step) = (self.value(bytes), self.next_unit_factor());
        if self.is_small() {
            return if size < 999_999.5 {
                (format!("{size:.0}"), 'M')
            } else {
                (format!("{:.0}", size / step), 'G')
            };
        }
        match size {
            size if size >= 1_000.0 => (format!("{:.1}", size / step), 'T'),
            size if size >= 1.0 => (format!("{size:.1}"), 'G'),
            size if size * step >= 1.0 => (format!("{:.0}", size * step), 'M'),
            size => (format!("{:.0}", size * step * step), 'K'),
        }
    }
}

/// Formats a rate in bytes per second in at most 4 columns, in powers of 1000, as is usual for network rates.
#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
pub(crate) fn rate(bytes: u64) -> String {
    let mut value = bytes as f64 / 1_000.0;
    for unit in ["K", "M", "G", "T"] {
        if value < 9.95 {
            let text = format!("{value:.1}{unit}");
            return if text == "0.0K" { "0".to_owned() } else { text };
        }
        if value < 999.5 {
            return format!("{value:.0}{unit}");
        }
        value /= 1_000.0;
    }
    ">1P".to_owned()
}

/// Formats an interval: `1s`, `0.25s`.
pub(crate) fn interval(span: Duration) -> String {
    format!("{}s", span.as_secs_f64())
}

/// Formats the run time of a process in at most 8 columns.
pub(crate) fn format_run_time(span: Duration) -> String {
    let all = span.as_secs();
    let (hours, minutes, seconds) = (all / 3_600, all / 60 % 60, all % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        1..100 => format!("{hours}:{minutes:02}:{seconds:02}"),
        _ => format!("{}d{:02}h", hours / 24, hours % 24),
    }
}

/// Formats power draw and limit in the unit that suits the limit.
pub(crate) fn power_text(drawn: Option<Watts>, limit: Option<Watts>) -> String {
    let [drawn, limit] = [drawn, limit].map(|watts| watts.map(Watts::get));
    let Some(largest) = limit.or(drawn) else { return UNKNOWN.to_owned() };
    let (scale, unit, decimals) = match largest {
        largest if largest >= 100_000.0 => (1_000.0, "kW", 0),
        largest if largest >= 2_000.0 => (1_000.0, "kW", 1),
        _ => (1.0, "W", 0),
    };
    let drawn = or_unknown(drawn, |drawn| format!("{:.decimals$}", drawn / scale));
    let limit = limit.map_or_else(String::new, |limit| format!("/{:.decimals$}", limit / scale));
    format!("{drawn}{limit} {unit}")
}

/// Marks an amount of memory that is the host's, and in no sum.
pub(crate) fn mark_host(text: String, is_host: bool) -> String {
    if is_host { text + "*" } else { text }
}

/// Formats device time in at most 6 columns: `45s`, `2m24s`, `3.4h`, `1200h`.
pub(crate) fn device_time(time: Duration) -> String {
    let seconds = shown_device_time(time).as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..360_000 => format!("{}.{}h", seconds / 3_600, seconds % 3_600 / 360),
        _ => format!("{}h", seconds / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_time_fits_its_column() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (144, "2m24s"),
            (3_599, "59m59s"),
            (3_600, "1.0h"),
            (12_250, "3.4h"),
            (359_999, "100h"),
            (4_320_000, "1200h"),
        ] {
            assert_eq!(device_time(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn an_unknown_value_is_a_dash_not_zero() {
        assert_eq!(percent(None), "–");
        assert_eq!(Units::default().usage_with_unit(None, None), "–");
    }

    #[test]
    fn amounts_and_rates_fit_their_columns() {
        for (bytes, text) in [
            (0, "0"),
            (1_000, "1.0K"),
            (999_499, "999K"),
            (999_999, "1.0M"),
            (11_100_000_000, "11G"),
            (48_000_000_000, "48G"),
            (u64::MAX, ">1P"),
        ] {
            assert_eq!(rate(bytes), text);
        }
        for (bytes, text) in
            [(0, "0K"), (512 << 20, "512M"), (77 << 30, "77.0G"), (2_000 << 30, "2.0T")]
        {
            assert_eq!(Units::default().amount(Bytes(bytes)), text);
        }
        let large = Units::default().usage_with_unit(Some(Bytes(5 << 40)), Some(Bytes(20 << 40)));
        assert_eq!(large, "5.0/20.0 TiB");
    }

    #[test]
    fn memory_and_temperature_use_the_configured_units() {
        let units = |memory, is_fahrenheit| Units { memory, is_fahrenheit };
        let (used, total) = (Some(Bytes(72 << 30)), Some(Bytes(80 << 30)));
        for (memory, usage, usage_with_unit, amount) in [
            (MemoryUnit::Gib, "72.0/80.0", "72.0/80.0 GiB", "72.0G"),
            (MemoryUnit::Mib, "73728/81920", "73728/81920 MiB", "73728M"),
            (MemoryUnit::Gb, "77.3/85.9", "77.3/85.9 GB", "77.3G"),
            (MemoryUnit::Mb, "77309/85899", "77309/85899 MB", "77309M"),
        ] {
            let units = units(memory, false);
            assert_eq!(units.usage(used, total), usage);
            assert_eq!(units.usage_with_unit(used, total), usage_with_unit);
            assert_eq!(units.amount(Bytes(72 << 30)), amount);
        }
        assert_eq!(units(MemoryUnit::Mib, false).amount(Bytes(1 << 40)), "1024G");
        assert_eq!(units(MemoryUnit::Gib, false).amount(Bytes(0)), "0K");
        assert_eq!(Units::default().usage_with_unit(None, Some(Bytes(20 << 40))), "–/20.0 TiB");
        assert_eq!(Units::default().usage_with_unit(None, Some(Bytes(20 << 20))), "–/20 MiB");
        assert_eq!(Units::default().usage(None, None), "–");
        let celsius = Celsius::new(61.0).unwrap();
        assert_eq!(units(MemoryUnit::Gib, false).temperature(celsius), "61°");
        assert_eq!(units(MemoryUnit::Gib, true).temperature(celsius), "142F");
        assert_eq!(units(MemoryUnit::Gib, true).temperature_difference_text(20.0), "36F");
        let amount = |memory| units(memory, false).amount_with_unit(Bytes(72 << 30));
        assert_eq!(amount(MemoryUnit::Gib), "72.0 GiB");
        assert_eq!(amount(MemoryUnit::Mib), "73728 MiB");
        assert_eq!(amount(MemoryUnit::Gb), "77.3 GB");
    }

    #[test]
    fn run_times_use_days_from_100_hours() {
        for (seconds, text) in [(62, "1:02"), (97_928, "27:12:08"), (500_000, "5d18h")] {
            assert_eq!(format_run_time(Duration::from_secs(seconds)), text);
        }
    }
}
