//! Parses what a client sends to a probe: the launch line, the settings, and command lines.

use std::time::Duration;

use serde::Deserialize;

use crate::probe::ProbeCommand;
use gtop_model::{ProcessKey, ProcessRequest, Signal};

/// Maximum bytes of a source.
const MAX_SOURCE: usize = 1 << 20;

/// A parsed launch line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LaunchLine {
    /// Length of the source that follows the announcement, in bytes.
    pub(crate) length: usize,
    /// The nonce to announce.
    pub(crate) nonce: String,
}

impl LaunchLine {
    /// Parses length and nonce; `None` if this is not a launch line.
    ///
    /// However the line is quoted, the two are adjacent: a decimal number, and a word of at least 16
    /// letters and digits.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line
            .split(|letter: char| !letter.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        words.iter().zip(words.iter().skip(1)).find_map(|(number, nonce)| {
            let length = number.parse().ok().filter(|length| *length <= MAX_SOURCE)?;
            (nonce.len() >= 16).then(|| Self { length, nonce: (*nonce).to_owned() })
        })
    }
}

/// The settings that follow a source.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SettingsLine {
    /// The client's name for the node; commands for other nodes are ignored.
    pub(crate) node: String,
    /// Seconds between ticks.
    pub(crate) interval: f64,
    /// The probe ends after this time without a heartbeat.
    pub(crate) dead_man: Duration,
}

impl SettingsLine {
    /// Parses `gpu01 1.0 30 0 -`; missing words have defaults.
    pub(crate) fn parse(line: &str) -> Self {
        let mut words = line.split_whitespace();
        let node = words.next().unwrap_or_default().to_owned();
        let interval = words.next().and_then(|text| text.parse().ok()).filter(|i| *i > 0.0);
        let dead_man = words.next().and_then(|text| text.parse().ok());
        Self {
            node,
            interval: clamp_interval(interval.unwrap_or(1.0)),
            dead_man: Duration::from_secs(dead_man.unwrap_or(30)),
        }
    }
}

/// Limits an interval to what a probe accepts, in seconds.
fn clamp_interval(seconds: f64) -> f64 {
    seconds.clamp(0.05, 3600.0)
}

/// A command line, as [`encode`](crate::probe::encode) writes it.
#[derive(Deserialize)]
struct CommandLine {
    id: u64,
    node: String,
    verb: String,
    seconds: Option<f64>,
    pid: Option<u32>,
    start: Option<u64>,
    signal: Option<u8>,
}

/// Parses a command line to its id and command; `None` for other nodes and unknown verbs.
pub(crate) fn parse_command(line: &str, node: &str) -> Option<(u64, ProbeCommand)> {
    let line: CommandLine = serde_json::from_str(line).ok()?;
    if line.node != node {
        return None;
    }
    let seconds = line.seconds.filter(|seconds| *seconds > 0.0).map(clamp_interval);
    let time = seconds.map(Duration::from_secs_f64);
    let key = line.pid.zip(line.start);
    let key = key.map(|(pid, start_ticks)| ProcessKey { pid, start_ticks });
    let command = match line.verb.as_str() {
        "heartbeat" => ProbeCommand::Heartbeat,
        "full" => ProbeCommand::Full,
        "interval" => ProbeCommand::Interval(time?),
        "focus" if line.seconds? >= 0.0 => ProbeCommand::Focus(time),
        "signal" => {
            let mut signals = Signal::ALL.into_iter();
            let signal = signals.find(|signal| line.signal == Some(signal.number()))?;
            ProbeCommand::Request(ProcessRequest::Signal(key?, signal))
        }
        "environ" => ProbeCommand::Request(ProcessRequest::Environment(key?)),
        "detail" => ProbeCommand::Request(ProcessRequest::Detail(key?)),
        "tree" => ProbeCommand::Request(ProcessRequest::Tree(key)),
        _ => return None,
    };
    Some((line.id, command))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &str = "8f3a0c11d2e44b7790ab";

    #[test]
    fn length_and_nonce_are_found_however_the_line_is_quoted() {
        let expected = Some(LaunchLine { length: 20_481, nonce: NONCE.to_owned() });
        for line in [
            "exec /bin/sh -c 'for p in /usr/bin/python3 python;do exec $p -EsSu -c \"import sys;n=int(sys.argv[1]);os.write(1,(chr(10)+sys.argv[2]))\" 20481 NONCE;fi;done;n=$(printf \"\\012_\");echo \"${n}NONCE NOPY\";while IFS= read -r l;do [ \"$l\" = NONCE ]&&break;done'",
            "python3 -c x 20481 NONCE",
            "sh -c 'set -- 20481 \"NONCE\"; x'",
        ] {
            assert_eq!(LaunchLine::parse(&line.replace("NONCE", NONCE)), expected, "{line}");
        }
        assert_eq!(LaunchLine::parse("uname -a"), None);
        assert_eq!(LaunchLine::parse(&format!("x 99999999999 {NONCE}")), None);
    }

    #[test]
    fn the_settings_of_both_probes_are_read() {
        let settings = |node: &str, interval, dead_man| SettingsLine {
            node: node.to_owned(),
            interval,
            dead_man: Duration::from_secs(dead_man),
        };
        let parsed = SettingsLine::parse("ada@gpu01:22 0.25 7 0 -");
        assert_eq!(parsed, settings("ada@gpu01:22", 0.25, 7));
        assert_eq!(SettingsLine::parse("gpu01 x"), settings("gpu01", 1.0, 30));
    }

    #[test]
    fn commands_for_other_nodes_are_ignored() {
        let parse = |line: &str| parse_command(line, "gpu01");
        let (half, floor) = (Duration::from_millis(500), Duration::from_millis(50));
        let key = ProcessKey { pid: 42, start_ticks: 99 };
        for command in [
            ProbeCommand::Heartbeat,
            ProbeCommand::Interval(half),
            ProbeCommand::Focus(Some(half)),
            ProbeCommand::Focus(None),
            ProbeCommand::Full,
            ProbeCommand::Request(ProcessRequest::Signal(key, Signal::Interrupt)),
            ProbeCommand::Request(ProcessRequest::Environment(key)),
            ProbeCommand::Request(ProcessRequest::Tree(None)),
            ProbeCommand::Request(ProcessRequest::Tree(Some(key))),
            ProbeCommand::Request(ProcessRequest::Detail(key)),
        ] {
            let line = crate::probe::encode(7, "gpu01", &command);
            assert_eq!(parse(line.trim_end()), Some((7, command)));
        }
        let line = |rest: &str| format!("{{\"id\":7,\"node\":\"gpu01\",\"verb\":{rest}}}");
        let interval = parse(&line("\"interval\",\"seconds\":0.0001"));
        assert_eq!(interval, Some((7, ProbeCommand::Interval(floor))));
        assert_eq!(parse(&line("\"signal\",\"pid\":42,\"start\":99,\"signal\":32")), None);
        for other in
            ["\"dance\"", "\"focus\"", "\"interval\",\"seconds\":0", "\"focus\",\"seconds\":x"]
        {
            assert_eq!(parse(&line(other)), None, "{other}");
        }
        assert_eq!(parse("{\"id\":7,\"node\":\"gpu011\",\"verb\":\"full\"}"), None);
        assert_eq!(parse("full"), None);
    }
}
