//! Options of what a recording keeps.

use std::time::Duration;

use clap::Args;

/// Options of what a recording keeps.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Recording")]
pub(crate) struct KeepOptions {
    /// Remove what is older than TIME, in steps of a twentieth of it: 90m, 7d; default: 24h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    keep: Option<Duration>,
    /// Remove the oldest parts, so that the recording stays at about this size: 500M, 20G; default: 1G
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_size: Option<u64>,
    /// Record at most one sample per node every TIME: 10s, 1m; default: each sample
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    every: Option<Duration>,
}

impl KeepOptions {
    /// Returns how long lines are kept at least, unless the size does not allow it.
    pub(crate) fn keep(&self) -> Duration {
        self.keep.unwrap_or(Duration::from_secs(86_400))
    }

    /// Returns the maximum size of a recording in bytes.
    pub(crate) fn max_size(&self) -> u64 {
        self.max_size.unwrap_or(1 << 30)
    }

    /// Returns the minimum time between two recorded samples of a node; zero records each.
    pub(crate) fn every(&self) -> Duration {
        self.every.unwrap_or_default()
    }

    /// Keeps everything.
    pub(crate) fn never_drop(&mut self) {
        (self.keep, self.max_size) = (Some(Duration::from_secs(366 * 86_400)), Some(1 << 40));
    }

    /// Returns true if an option is given.
    pub(super) fn is_set(&self) -> bool {
        self.keep.is_some() || self.max_size.is_some() || self.every.is_some()
    }
}

/// Parses a duration: a number with `s`, `m`, `h` or `d`, or several of them.
pub(super) fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    let seconds = seconds_of(text).ok_or("expected a time such as 10s, 90m, 24h or 7d")?;
    Ok(Duration::from_secs(seconds))
}

fn seconds_of(text: &str) -> Option<u64> {
    let mut seconds = 0_u64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let (number, unit) = rest.split_at_checked(digits)?;
        let unit_seconds = match unit.chars().next()? {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return None,
        };
        let part = number.parse::<u64>().ok()?.checked_mul(unit_seconds)?;
        seconds = seconds.checked_add(part)?;
        rest = unit.get(1..)?;
    }
    // A hundred years: sums of times stay far from overflowing.
    Some(seconds).filter(|seconds| (1..=100 * 366 * 86_400).contains(seconds))
}

/// Parses a size in bytes: a number with `K`, `M`, `G` or `T`, which are powers of 1024.
fn parse_size(text: &str) -> Result<u64, &'static str> {
    bytes_of(text).ok_or("expected a size of at least 1M, such as 500M or 1G")
}

fn bytes_of(text: &str) -> Option<u64> {
    let text = text.trim_end_matches(['B', 'i']);
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let shift = match unit {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return None,
    };
    let bytes = number.parse::<u64>().ok()?.checked_mul(1 << shift);
    bytes.filter(|bytes| *bytes >= 1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_have_units() {
        for (text, seconds) in [
            ("10s", Some(10)),
            ("90m", Some(5400)),
            ("1h30m", Some(5400)),
            ("7d", Some(604_800)),
            ("", None),
            ("10", None),
            ("0s", None),
            ("-1h", None),
            ("1w", None),
            ("1hh", None),
            ("99999999999999999999d", None),
            ("9223372036854775808s", None),
        ] {
            assert_eq!(parse_duration(text).ok(), seconds.map(Duration::from_secs), "{text}");
        }
        for (text, bytes) in [
            ("1G", Some(1 << 30)),
            ("500M", Some(500 << 20)),
            ("2GiB", Some(2 << 30)),
            ("1048576", Some(1 << 20)),
            ("1K", None),
            ("-1G", None),
            ("", None),
            ("G", None),
            ("99999999999T", None),
        ] {
            assert_eq!(parse_size(text).ok(), bytes, "{text}");
        }
    }
}
