//! The commands a probe accepts on its stdin, one JSON line each.
//!
//! Keys always stand in the same order and without spaces: the sh probe reads them by pattern.

use std::time::Duration;

use super::{probe_name, seconds};
use gtop_model::ProcessRequest;

/// A command to a running probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeCommand {
    /// Heartbeat; without it the probe ends after [`HEARTBEAT_TIMEOUT`](super::HEARTBEAT_TIMEOUT).
    Heartbeat,
    /// Sample this often.
    Interval(Duration),
    /// Sample at this interval while the node is focused; `None` ends that.
    Focus(Option<Duration>),
    /// Make the next sample complete.
    Full,
    /// Respond to this request, in one frame with the command's id.
    Request(ProcessRequest),
}

/// Returns the line to send, with its newline; a probe ignores it if `node` is not its own name.
pub fn encode(id: u64, node: &str, command: &ProbeCommand) -> String {
    let node = probe_name(node);
    let verb = match command {
        ProbeCommand::Heartbeat => "\"heartbeat\"".to_owned(),
        ProbeCommand::Interval(time) => format!("\"interval\",\"seconds\":{}", seconds(*time)),
        ProbeCommand::Focus(Some(time)) => format!("\"focus\",\"seconds\":{}", seconds(*time)),
        ProbeCommand::Focus(None) => "\"focus\",\"seconds\":0".to_owned(),
        ProbeCommand::Full => "\"full\"".to_owned(),
        ProbeCommand::Request(request) => {
            format!("\"{}\"{}", request.command(), encode_arguments(*request))
        }
    };
    format!("{{\"id\":{id},\"node\":\"{node}\",\"verb\":{verb}}}\n")
}

fn encode_arguments(request: ProcessRequest) -> String {
    let (key, signal) = match request {
        ProcessRequest::Signal(key, signal) => {
            (Some(key), format!(",\"signal\":{}", signal.number()))
        }
        ProcessRequest::Environment(key) | ProcessRequest::Detail(key) => {
            (Some(key), String::new())
        }
        ProcessRequest::Tree(key) => (key, String::new()),
    };
    key.map_or_else(String::new, |key| {
        format!(",\"pid\":{},\"start\":{}{signal}", key.pid, key.start_ticks)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::{ProcessKey, Signal};

    #[test]
    fn commands_are_lines_with_their_keys_in_order() {
        let quarter = Duration::from_millis(250);
        let key = ProcessKey { pid: 42, start_ticks: 99 };
        for (command, line) in [
            (ProbeCommand::Heartbeat, r#"{"id":7,"node":"gpu[1]","verb":"heartbeat"}"#),
            (ProbeCommand::Full, r#"{"id":7,"node":"gpu[1]","verb":"full"}"#),
            (
                ProbeCommand::Interval(Duration::from_secs(2)),
                r#"{"id":7,"node":"gpu[1]","verb":"interval","seconds":2.0}"#,
            ),
            (
                ProbeCommand::Focus(Some(quarter)),
                r#"{"id":7,"node":"gpu[1]","verb":"focus","seconds":0.25}"#,
            ),
            (ProbeCommand::Focus(None), r#"{"id":7,"node":"gpu[1]","verb":"focus","seconds":0}"#),
            (
                ProbeCommand::Request(ProcessRequest::Signal(key, Signal::Terminate)),
                r#"{"id":7,"node":"gpu[1]","verb":"signal","pid":42,"start":99,"signal":15}"#,
            ),
            (
                ProbeCommand::Request(ProcessRequest::Environment(key)),
                r#"{"id":7,"node":"gpu[1]","verb":"environ","pid":42,"start":99}"#,
            ),
            (
                ProbeCommand::Request(ProcessRequest::Detail(key)),
                r#"{"id":7,"node":"gpu[1]","verb":"detail","pid":42,"start":99}"#,
            ),
            (
                ProbeCommand::Request(ProcessRequest::Tree(None)),
                r#"{"id":7,"node":"gpu[1]","verb":"tree"}"#,
            ),
            (
                ProbeCommand::Request(ProcessRequest::Tree(Some(key))),
                r#"{"id":7,"node":"gpu[1]","verb":"tree","pid":42,"start":99}"#,
            ),
        ] {
            assert_eq!(encode(7, "gpu[1]", &command), format!("{line}\n"));
        }
        let full = encode(7, "a/ö\"", &ProbeCommand::Full);
        assert_eq!(full, "{\"id\":7,\"node\":\"a/%c3%b6%22\",\"verb\":\"full\"}\n");
    }
}
