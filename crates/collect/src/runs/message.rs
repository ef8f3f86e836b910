//! The messages of the script of `gtop runs`, and its commands.
//!
//! A message is a line: byte 0x1E, `runs1 ` and a JSON object. Times are seconds since 1970 by the clock of the host.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use memchr::memmem;
use serde::Deserialize;
use serde_json::Value;

use gtop_local::text::{LineReader, sanitize};

/// Begins each message.
const SENTINEL: &[u8] = b"\x1eruns1 ";
/// Maximum length of a line.
const MAX_LINE_BYTES: usize = 8 << 20;

/// A message of the script.
#[derive(Debug, Deserialize)]
#[serde(tag = "t", rename_all = "lowercase")]
pub(super) enum Message {
    /// The first message.
    Hello(ScriptHello),
    /// Runs that changed.
    Runs(ChangedRuns),
    /// A look at the folder is complete.
    Tick { now: f64, error: Option<String> },
    /// Processes that were asked for.
    Processes(Processes),
    /// Logs that changed.
    Logs { logs: Vec<LogTail> },
    /// The answer to a request.
    Answer(Answer),
    /// A followed output has grown.
    Output(Growth),
    /// A message of a later version.
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(super) struct ScriptHello {
    pub(super) v: u32,
    pub(super) host: String,
    pub(super) pidns: Option<String>,
    pub(super) now: f64,
    pub(super) watch: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ChangedRuns {
    pub(super) now: f64,
    pub(super) total: usize,
    #[serde(default)]
    pub(super) runs: Vec<ChangedRun>,
    #[serde(default)]
    pub(super) gone: Vec<String>,
}

/// A run of which a file has changed.
#[derive(Debug, Deserialize)]
pub(super) struct ChangedRun {
    pub(super) run: String,
    #[serde(default)]
    pub(super) flat: bool,
    pub(super) uid: Option<u32>,
    pub(super) user: Option<String>,
    pub(super) progress: Option<FileText>,
    pub(super) control: Option<FileText>,
}

/// A file, or why it cannot be read.
#[derive(Debug, Deserialize)]
pub(super) struct FileText {
    pub(super) text: Option<String>,
    pub(super) error: Option<String>,
    pub(super) mtime: Option<f64>,
}

/// The end of a log.
#[derive(Debug, Deserialize)]
pub(super) struct LogTail {
    pub(super) log: usize,
    pub(super) error: Option<String>,
    pub(super) mtime: Option<f64>,
    pub(super) uid: Option<u32>,
    pub(super) path: Option<String>,
    pub(super) tail: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Processes {
    pub(super) now: f64,
    pub(super) list: Vec<ListedProcess>,
    pub(super) user: Option<UserUse>,
    pub(super) cores: Option<u32>,
    pub(super) ram: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct UserUse {
    pub(super) cpu: Option<f64>,
    pub(super) rss: u64,
}

/// A process that was asked for; of one that is gone or hidden there is only the pid.
#[derive(Debug, Deserialize)]
pub(super) struct ListedProcess {
    pub(super) pid: u32,
    #[serde(default)]
    pub(super) gone: bool,
    pub(super) state: Option<String>,
    pub(super) start: Option<u64>,
    pub(super) created: Option<f64>,
    pub(super) uid: Option<u32>,
    #[serde(default)]
    pub(super) kernel: bool,
    pub(super) pidns: Option<String>,
    pub(super) cpu: Option<f64>,
    pub(super) rss: Option<u64>,
    pub(super) threads: Option<u32>,
    /// It and all below it.
    #[serde(default)]
    pub(super) tree: Vec<TreeFields>,
    pub(super) stdout: Option<String>,
    pub(super) stderr: Option<String>,
    /// Threads of each process, by its pid as text: id, name, CPU.
    #[serde(default)]
    pub(super) tasks: BTreeMap<String, Vec<(u32, String, Option<f64>)>>,
}

/// A process of a tree: pid, parent, start, name, CPU, memory and threads.
pub(super) type TreeFields = (u32, u32, u64, String, Option<f64>, u64, u32);

/// The answer to a request; what else it holds depends on the request.
#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    pub(super) id: u64,
    pub(super) ok: bool,
    pub(super) kind: Option<String>,
    pub(super) why: Option<String>,
    #[serde(flatten)]
    pub(super) values: serde_json::Map<String, Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Growth {
    pub(super) handle: u64,
    pub(super) size: u64,
    pub(super) from: u64,
    pub(super) data: String,
    #[serde(default)]
    pub(super) truncated: bool,
    #[serde(default)]
    pub(super) rotated: bool,
}

/// Cuts messages out of a stream of bytes.
#[derive(Debug)]
pub(super) struct MessageReader(LineReader);

impl Default for MessageReader {
    fn default() -> Self {
        Self(LineReader::new(MAX_LINE_BYTES))
    }
}

impl MessageReader {
    pub(super) fn push(&mut self, bytes: impl Into<Bytes>) {
        self.0.push(bytes);
    }

    /// Returns the next message, or why a line is none; `None` when more bytes are needed. Other lines are skipped.
    pub(super) fn next_message(&mut self) -> Option<Result<Message, String>> {
        loop {
            let Ok(line) = self.0.next_line()? else {
                return Some(Err("a line of more than 8 MiB".to_owned()));
            };
            if let Some(at) = memmem::rfind(&line, SENTINEL) {
                let json = line.get(at + SENTINEL.len()..).unwrap_or_default();
                return Some(
                    serde_json::from_slice(json)
                        .map_err(|error| sanitize(&format!("invalid message: {error}"), 120)),
                );
            }
        }
    }
}

/// Returns a command as a line.
pub(super) fn command(id: u64, verb: &str, mut values: serde_json::Map<String, Value>) -> String {
    values.insert("id".to_owned(), id.into());
    values.insert("verb".to_owned(), verb.into());
    format!("{}\n", Value::Object(values))
}

/// Returns a bounded text without control characters.
pub(super) fn clean(text: &str) -> Arc<str> {
    sanitize(text, 300).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_in_pieces_and_among_other_lines() {
        let stream = b"motd\n\x1eruns1 {\"t\":\"tick\",\"now\":1.5,\"error\":null}\nx\x1eruns1 {\"t\":\"new\",\"a\":[1]}\n\x1eruns1 {\n";
        for step in [1, 7, 1000] {
            let mut reader = MessageReader::default();
            let mut found = Vec::new();
            for bytes in stream.chunks(step) {
                reader.push(Bytes::copy_from_slice(bytes));
                while let Some(message) = reader.next_message() {
                    found.push(message.is_ok());
                }
            }
            assert_eq!(found, [true, true, false], "{step}");
        }
    }

    #[test]
    fn processes_come_with_their_threads() {
        let line = b"\x1eruns1 {\"t\":\"processes\",\"now\":1.0,\"list\":[{\"pid\":7,\"tree\":[[7,1,9,\"a\",null,4096,1]],\"tasks\":{\"7\":[[7,\"a\",1.5]]}},{\"pid\":8,\"gone\":true}]}\n";
        let mut reader = MessageReader::default();
        reader.push(&line[..]);
        let Some(Ok(Message::Processes(sample))) = reader.next_message() else { panic!() };
        assert_eq!(sample.list.first().unwrap().tasks["7"], [(7, "a".to_owned(), Some(1.5))]);
        assert!(sample.list.last().unwrap().gone);
    }

    #[test]
    fn a_process_without_a_pid_is_refused_with_the_reason() {
        let mut reader = MessageReader::default();
        reader.push(&b"\x1eruns1 {\"t\":\"processes\",\"now\":1.0,\"list\":[{\"start\":9}]}\n"[..]);
        let Some(Err(reason)) = reader.next_message() else { panic!() };
        assert!(reason.contains("missing field `pid`"), "{reason}");
    }

    #[test]
    fn an_endless_line_is_dropped() {
        let mut reader = MessageReader::default();
        reader.push(vec![b'x'; MAX_LINE_BYTES + 1]);
        assert!(matches!(reader.next_message(), Some(Err(_))));
        assert!(reader.next_message().is_none());
    }
}
