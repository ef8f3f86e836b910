//! Parses what a client sends to a probe: the launch line, the header of the source, and command lines.

use std::time::Duration;

use crate::model::{ProcessKey, ProcessRequest, Signal};

/// Maximum bytes of a source.
const MAX_SOURCE: usize = 1 << 20;
/// Maximum bytes of a command line.
const MAX_LINE: usize = 4096;

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

/// The settings at the start of a source.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SourceHeader {
    /// The client's name for the node; commands for other nodes are ignored.
    pub(crate) node: String,
    /// Seconds between ticks.
    pub(crate) interval: f64,
    /// The probe ends after this time without a heartbeat.
    pub(crate) dead_man: Duration,
}

impl SourceHeader {
    /// Parses `NODE="gpu01"`, `INTERVAL=1.0`, `DEADMAN=30`, on one or several lines, quoted or not.
    pub(crate) fn parse(source: &str) -> Self {
        let value = |name: &str| {
            let words = source.lines().take(16).flat_map(str::split_whitespace);
            let mut values = words.filter_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            values.next().map(|value| value.trim_matches(['"', '\'', ';']).to_owned())
        };
        let interval = value("INTERVAL").and_then(|text| text.parse().ok()).filter(|i| *i > 0.0);
        let dead_man = value("DEADMAN").and_then(|text| text.parse().ok());
        Self {
            node: value("NODE").unwrap_or_default(),
            interval: clamp_interval(interval.unwrap_or(1.0)),
            dead_man: Duration::from_secs(dead_man.unwrap_or(30)),
        }
    }
}

/// Limits an interval to what a probe accepts, in seconds.
fn clamp_interval(seconds: f64) -> f64 {
    seconds.clamp(0.05, 3600.0)
}

/// A command to a running probe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SimCommand {
    /// The client is alive.
    Heartbeat,
    /// Set the interval, in seconds.
    Interval(f64),
    /// Set the focus interval, in seconds; `None` ends the focus.
    Focus(Option<f64>),
    /// Make the next sample a full one.
    Full,
    /// A process request with its id.
    Request(u64, ProcessRequest),
}

impl SimCommand {
    /// Parses a command line; `None` for other nodes and unknown verbs.
    pub(crate) fn parse(line: &str, node: &str) -> Option<Self> {
        let (id, rest) = line.strip_prefix("{\"id\":")?.split_once(',')?;
        let id: u64 = id.parse().ok()?;
        let rest = rest.strip_prefix("\"node\":\"")?.strip_prefix(node)?;
        let rest = rest.strip_prefix("\",\"verb\":\"")?.strip_suffix('}')?;
        let (verb, rest) = rest.split_once('"')?;
        let seconds = || rest.strip_prefix(",\"seconds\":")?.parse().ok().filter(|s| *s >= 0.0);
        match verb {
            "heartbeat" => Some(Self::Heartbeat),
            "full" => Some(Self::Full),
            "interval" => seconds().filter(|s| *s > 0.0).map(|s| Self::Interval(clamp_interval(s))),
            "focus" => seconds().map(|s: f64| Self::Focus((s > 0.0).then(|| clamp_interval(s)))),
            _ => parse_request(verb, rest).map(|request| Self::Request(id, request)),
        }
    }
}

/// Parses the arguments of a process request.
fn parse_request(verb: &str, rest: &str) -> Option<ProcessRequest> {
    let number = |name: &str| -> Option<u64> {
        let (_, after) = rest.split_once(&format!(",\"{name}\":"))?;
        after.split(',').next()?.parse().ok()
    };
    let key = || {
        let pid = u32::try_from(number("pid")?).ok()?;
        Some(ProcessKey { pid, start_ticks: number("start")? })
    };
    match verb {
        "signal" => {
            let number_ = number("signal")?;
            let signal = Signal::ALL.into_iter().find(|one| u64::from(one.number()) == number_)?;
            Some(ProcessRequest::Signal(key()?, signal))
        }
        "environ" => key().map(ProcessRequest::Environment),
        "detail" => key().map(ProcessRequest::Detail),
        "tree" => Some(ProcessRequest::Tree(key())),
        _ => None,
    }
}

/// Splits bytes into lines; a line longer than [`MAX_LINE`] is dropped.
#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    buffer: Vec<u8>,
}

impl LineSplitter {
    /// Adds received bytes and returns the complete lines.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        self.buffer.extend_from_slice(bytes);
        let Some(end) = self.buffer.iter().rposition(|byte| *byte == b'\n') else {
            self.buffer.truncate(MAX_LINE + 1);
            return Vec::new();
        };
        let rest = self.buffer.split_off(end + 1);
        let complete = std::mem::replace(&mut self.buffer, rest);
        let fits = |line: &&[u8]| (1..=MAX_LINE).contains(&line.len());
        let lines = complete.split(|byte| *byte == b'\n').filter(fits);
        lines.map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    }
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
    fn the_header_of_both_probes_is_read() {
        let header = |node: &str, interval, dead_man| SourceHeader {
            node: node.to_owned(),
            interval,
            dead_man: Duration::from_secs(dead_man),
        };
        let expected = header("ada@gpu01:22", 0.25, 7);
        for source in [
            "NODE=\"ada@gpu01:22\"\nINTERVAL=0.25\nDEADMAN=7\nimport os\n",
            "NODE=ada@gpu01:22 INTERVAL=0.25 DEADMAN=7\n. x\n",
            "NODE='ada@gpu01:22'; INTERVAL=0.25; DEADMAN=7\n",
        ] {
            assert_eq!(SourceHeader::parse(source), expected, "{source}");
        }
        assert_eq!(SourceHeader::parse("import os\n"), header("", 1.0, 30));
    }

    #[test]
    fn commands_for_other_nodes_are_ignored() {
        let parse = |line: &str| SimCommand::parse(line, "gpu01");
        let line = |rest: &str| format!("{{\"id\":7,\"node\":\"gpu01\",\"verb\":{rest}}}");
        assert_eq!(parse(&line("\"heartbeat\"")), Some(SimCommand::Heartbeat));
        assert_eq!(parse(&line("\"interval\",\"seconds\":2.0")), Some(SimCommand::Interval(2.0)));
        assert_eq!(
            parse(&line("\"interval\",\"seconds\":0.0001")),
            Some(SimCommand::Interval(0.05))
        );
        assert_eq!(parse(&line("\"focus\",\"seconds\":0.25")), Some(SimCommand::Focus(Some(0.25))));
        assert_eq!(parse(&line("\"focus\",\"seconds\":0")), Some(SimCommand::Focus(None)));
        assert_eq!(parse(&line("\"full\"")), Some(SimCommand::Full));
        let key = ProcessKey { pid: 42, start_ticks: 99 };
        for request in [
            ProcessRequest::Signal(key, Signal::Interrupt),
            ProcessRequest::Environment(key),
            ProcessRequest::Tree(None),
            ProcessRequest::Tree(Some(key)),
            ProcessRequest::Detail(key),
        ] {
            let line =
                crate::probe::encode(7, "gpu01", &crate::probe::ProbeCommand::Request(request));
            assert_eq!(parse(line.trim_end()), Some(SimCommand::Request(7, request)));
        }
        assert_eq!(parse(&line("\"signal\",\"pid\":42,\"start\":99,\"signal\":32")), None);
        for other in
            ["\"dance\"", "\"focus\"", "\"interval\",\"seconds\":0", "\"focus\",\"seconds\":x"]
        {
            assert_eq!(parse(&line(other)), None, "{other}");
        }
        assert_eq!(parse("{\"id\":7,\"node\":\"gpu011\",\"verb\":\"full\"}"), None);
        assert_eq!(parse("full"), None);
    }

    #[test]
    fn lines_are_complete_wherever_the_stream_is_split() {
        let mut lines = LineSplitter::default();
        assert!(lines.push(b"on").is_empty());
        assert_eq!(lines.push(b"e\ntwo\nthr"), ["one", "two"]);
        assert!(lines.push(&vec![b'x'; 100_000]).is_empty());
        assert_eq!(lines.push(b"\nnext\n"), ["next"]);
    }
}
