//! The lines of a recording: one JSON object each, with the time, the node and what happened.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use memchr::memchr;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::record::gone::{GoneDeviceLine, MAX_GONE};
use crate::record::jobs::JobListLine;
use crate::record::marks::MarkLine;
use crate::record::value::{from_seconds, is_recorded_time, node_name, text, to_seconds};
use crate::wire::{Frame, RawUpdate, excerpt, objects};
use gtop_local::time::Timestamp;
use gtop_model::{Fault, FaultKind, JobList, Link, Mark, NodeName, SessionUpdate, TransportKind};

/// The version of the format. A reader accepts this version and earlier ones.
pub(super) const FORMAT: u32 = 2;

/// The first line of a recorder's run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// The version of the format.
    #[serde(rename = "gtop")]
    pub format: u32,
    /// The version of gtop.
    pub version: String,
    /// The machine on which the recorder runs.
    pub host: String,
    /// The recorder's process there.
    pub pid: u32,
    /// What is watched, in words.
    pub title: String,
    /// The arguments of the recorder, as typed.
    pub arguments: Vec<String>,
    /// What whoever shares the file should know.
    pub note: String,
    /// In this time, in seconds, at least one line is written: a longer silence is one of the recorder. `None` in files of
    /// earlier versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alive: Option<f64>,
}

/// A line of a recording.
#[derive(Debug)]
pub struct RecordedLine {
    /// When it happened.
    pub at: Timestamp,
    /// It repeats what is known already, for a reader that starts here.
    pub(crate) is_checkpoint: bool,
    /// What happened.
    pub content: Content,
}

/// The content of a line.
#[derive(Debug)]
pub enum Content {
    /// A recorder starts.
    Header(Header),
    /// What arrived from a node.
    Node(NodeName, RawUpdate),
    /// The watched nodes and, if a scheduler is queried, its jobs.
    Roster(Vec<NodeName>, Option<Arc<JobList>>),
    /// Something worth jumping to.
    Mark(Mark),
    /// Lines since then are missing; if it is the time of the line itself, it is not known until when.
    Lost(Timestamp),
    /// The recorder stops.
    End,
    /// Nothing: the recorder runs; or a line of a later version.
    Unknown,
}

#[derive(Deserialize)]
struct LineJson<'a> {
    at: f64,
    #[serde(default)]
    checkpoint: bool,
    #[serde(borrow)]
    node: Option<Cow<'a, str>>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
    scrape: Option<String>,
    link: Option<LinkLine>,
    via: Option<String>,
    interval: Option<f64>,
    every: Option<f64>,
    gone: Option<Vec<GoneDeviceLine>>,
    nodes: Option<Vec<String>>,
    jobs: Option<JobListLine>,
    mark: Option<MarkJson>,
    text: Option<String>,
    lost: Option<f64>,
    #[serde(default)]
    end: bool,
    start: Option<Header>,
}

/// A mark; earlier versions write its kind alone, and its text beside.
#[derive(Deserialize)]
#[serde(untagged)]
enum MarkJson {
    Kind(String),
    Mark(MarkLine),
}

objects! {
    struct LinkLine {
        state: String,
        attempt?: Option<u32>,
        fault?: Option<String>,
        detail?: Arc<str>,
        what?: Arc<str>,
        /// What earlier versions wrote in place of `what`, with what to do.
        remedy?: Arc<str>,
        retry_at?: Option<f64>,
    }
}

/// Appends `{"at":…` to a group of lines.
fn begin(out: &mut Vec<u8>, at: Timestamp, is_checkpoint: bool) {
    let micros = at.as_micros();
    let sign = if micros < 0 { "-" } else { "" };
    let (seconds, rest) = (micros.unsigned_abs() / 1_000_000, micros.unsigned_abs() % 1_000_000);
    out.extend_from_slice(format!("{{\"at\":{sign}{seconds}.{rest:06}").as_bytes());
    if is_checkpoint {
        out.extend_from_slice(b",\"checkpoint\":true");
    }
}

/// Appends a line with one more key, whose value is JSON.
fn write_value(
    out: &mut Vec<u8>,
    at: Timestamp,
    is_checkpoint: bool,
    node: Option<&NodeName>,
    key: &str,
    json: &[u8],
) {
    begin(out, at, is_checkpoint);
    if let Some(node) = node {
        // A node name needs no escapes.
        out.extend_from_slice(b",\"node\":\"");
        out.extend_from_slice(node.as_str().as_bytes());
        out.push(b'"');
    }
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
    out.extend_from_slice(json);
    out.extend_from_slice(b"}\n");
}

fn json(value: &impl Serialize) -> Vec<u8> {
    // Structs of strings and finite numbers can always be serialized.
    serde_json::to_vec(value).unwrap_or_default()
}

/// Writes lines about a node at a time.
pub(super) struct NodeLines<'a> {
    pub(super) out: &'a mut Vec<u8>,
    pub(super) node: &'a NodeName,
    pub(super) at: Timestamp,
    pub(super) is_checkpoint: bool,
}

impl NodeLines<'_> {
    /// Sets the time of the next lines.
    pub(super) fn at(&mut self, at: Timestamp) -> &mut Self {
        self.at = at;
        self
    }

    /// Writes the body of a frame as the node sent it.
    pub(super) fn write_body(&mut self, body: &[u8]) {
        write_value(self.out, self.at, self.is_checkpoint, Some(self.node), "body", body);
    }

    /// Writes the lines that are read of a page of metrics.
    pub(super) fn write_scrape(&mut self, text: &str) {
        let json = json(&text);
        write_value(self.out, self.at, self.is_checkpoint, Some(self.node), "scrape", &json);
    }

    /// Writes a change of the session.
    pub(super) fn write_session(&mut self, update: &SessionUpdate) {
        let (key, value) = match update {
            SessionUpdate::Link(link) => ("link", json(&LinkLine::from(link))),
            SessionUpdate::Reached(via) => ("via", json(&via.as_str())),
            SessionUpdate::Interval(interval) => ("interval", json(&interval.as_secs_f64())),
            SessionUpdate::RecordedEvery(interval) => ("every", json(&interval.as_secs_f64())),
            SessionUpdate::Gone(devices) => {
                let lines: Vec<_> = devices.iter().filter_map(GoneDeviceLine::of).collect();
                ("gone", json(&lines))
            }
        };
        write_value(self.out, self.at, self.is_checkpoint, Some(self.node), key, &value);
    }
}

/// Writes the watched nodes and the jobs.
pub(super) fn write_roster(
    out: &mut Vec<u8>,
    at: Timestamp,
    is_checkpoint: bool,
    nodes: &[NodeName],
    jobs: Option<&JobList>,
) {
    let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
    let mut value = json(&names);
    if let Some(jobs) = jobs {
        value.extend_from_slice(b",\"jobs\":");
        value.extend(json(&JobListLine::from(jobs)));
    }
    write_value(out, at, is_checkpoint, None, "nodes", &value);
}

/// Writes the start of a run.
pub(super) fn write_header(out: &mut Vec<u8>, at: Timestamp, header: &Header) {
    write_value(out, at, false, None, "start", &json(header));
}

/// Writes a mark.
pub(super) fn write_mark(out: &mut Vec<u8>, mark: &Mark) {
    write_value(out, mark.at, false, None, "mark", &json(&MarkLine::from(mark)));
}

/// Returns the times of lines that are not of a checkpoint.
pub(super) fn times_of(lines: &[u8]) -> impl DoubleEndedIterator<Item = Timestamp> {
    lines.split(|byte| *byte == b'\n').filter_map(time_of)
}

/// Writes that lines are missing between `since` and `at`; an unknown time after them if they are the same.
pub(super) fn write_lost(out: &mut Vec<u8>, at: Timestamp, since: Timestamp) {
    write_value(out, at, false, None, "lost", &json(&to_seconds(since)));
}

/// Writes that the recorder runs, although nothing has happened.
pub(super) fn write_alive(out: &mut Vec<u8>, at: Timestamp) {
    write_value(out, at, false, None, "alive", b"true");
}

/// Writes the end of a run.
pub(super) fn write_end(out: &mut Vec<u8>, at: Timestamp) {
    write_value(out, at, false, None, "end", b"true");
}

/// Parses a line; `None` if it is not one.
pub(super) fn parse(text: &[u8]) -> Option<RecordedLine> {
    if let Some(line) = parse_body(text) {
        return Some(line);
    }
    let raw: LineJson<'_> = serde_json::from_slice(text).ok()?;
    let at = is_recorded_time(raw.at).then(|| from_seconds(raw.at))?;
    let is_checkpoint = raw.checkpoint;
    let content = match &raw.node {
        Some(name) => Content::Node(node_name(name)?, raw_update(&raw)?),
        None => fleet_content(at, raw),
    };
    Some(RecordedLine { at, is_checkpoint, content })
}

/// Parses a line of which the next frame may be decoded already.
pub(super) fn parse_with(text: &[u8], frames: &mut VecDeque<Frame>) -> Option<RecordedLine> {
    if let Some((at, false, name, body)) = split_body(text)
        && frames.front().is_some_and(|frame| frame.text == body)
        && let Some(frame) = frames.pop_front()
    {
        let content = Content::Node(name, RawUpdate::Frame(Box::new(frame)));
        return Some(RecordedLine { at, is_checkpoint: false, content });
    }
    parse(text)
}

/// Parses a line as [`NodeLines::write_body`] writes it, which nearly all are, without looking through the body twice;
/// `None` if it has another form.
fn parse_body(text: &[u8]) -> Option<RecordedLine> {
    let (at, is_checkpoint, name, body) = split_body(text)?;
    // Only if the body is exactly one value, the line has this form.
    let frame = Frame::parse(Bytes::copy_from_slice(body)).ok()?;
    let content = Content::Node(name, RawUpdate::Frame(Box::new(frame)));
    Some(RecordedLine { at, is_checkpoint, content })
}

/// Splits such a line into its time, whether it is of a checkpoint, the node and the body.
fn split_body(text: &[u8]) -> Option<(Timestamp, bool, NodeName, &[u8])> {
    let (at, rest) = split_time(text)?;
    let (is_checkpoint, rest) = match rest.strip_prefix(b",\"checkpoint\":true") {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let rest = rest.strip_prefix(b",\"node\":\"")?;
    let (name, rest) = rest.split_at_checked(memchr(b'"', rest)?)?;
    let name = node_name(std::str::from_utf8(name).ok()?)?;
    let body = rest.strip_prefix(b"\",\"body\":")?.trim_ascii_end().strip_suffix(b"}")?;
    Some((at, is_checkpoint, name, body.trim_ascii()))
}

/// Splits a line after its time.
fn split_time(text: &[u8]) -> Option<(Timestamp, &[u8])> {
    let rest = text.strip_prefix(b"{\"at\":")?;
    let end = rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'.' | b'-'))?;
    let (number, rest) = rest.split_at_checked(end)?;
    let seconds = std::str::from_utf8(number).ok()?.parse().ok()?;
    is_recorded_time(seconds).then(|| (from_seconds(seconds), rest))
}

/// Returns the time of a line without parsing all of it; `None` for a line of a checkpoint, whose times are earlier.
pub(super) fn time_of(text: &[u8]) -> Option<Timestamp> {
    let (at, rest) = split_time(text)?;
    (!rest.starts_with(b",\"checkpoint\"")).then_some(at)
}

/// Returns false for a line of a node: it is no mark, header or end of a run.
pub(super) fn may_be_rare(text: &[u8]) -> bool {
    let key = text.splitn(3, |byte| *byte == b',').nth(1).unwrap_or_default();
    [&b"\"mark\""[..], b"\"start\"", b"\"end\""].iter().any(|rare| key.starts_with(rare))
}

fn raw_update(raw: &LineJson<'_>) -> Option<RawUpdate> {
    if let Some(body) = raw.body {
        let frame = Frame::parse(Bytes::copy_from_slice(body.get().as_bytes())).ok()?;
        return Some(RawUpdate::Frame(Box::new(frame)));
    }
    if let Some(text) = &raw.scrape {
        return Some(RawUpdate::Scrape(excerpt(text, None)?));
    }
    session_update(raw).map(RawUpdate::Session)
}

fn session_update(raw: &LineJson<'_>) -> Option<SessionUpdate> {
    if let Some(link) = &raw.link {
        return Some(SessionUpdate::Link(link.to_link()?));
    }
    if let Some(word) = &raw.via {
        let known = TransportKind::ALL.into_iter().find(|kind| kind.as_str() == word)?;
        return Some(SessionUpdate::Reached(known));
    }
    if let Some(every) = raw.every {
        return Some(SessionUpdate::RecordedEvery(Duration::try_from_secs_f64(every).ok()?));
    }
    if let Some(gone) = &raw.gone {
        let devices = gone.iter().map(GoneDeviceLine::to_device);
        return Some(SessionUpdate::Gone(devices.take(MAX_GONE).collect()));
    }
    let interval = Duration::try_from_secs_f64(raw.interval?).ok()?;
    Some(SessionUpdate::Interval(interval))
}

fn fleet_content(at: Timestamp, raw: LineJson<'_>) -> Content {
    if let Some(nodes) = raw.nodes {
        let names = nodes.iter().filter_map(|name| node_name(name)).collect();
        return Content::Roster(names, raw.jobs.map(|jobs| Arc::new(jobs.to_list())));
    }
    let line = raw.mark.map(|mark| match mark {
        MarkJson::Kind(kind) => MarkLine::plain(&kind, raw.text.as_deref().unwrap_or_default()),
        MarkJson::Mark(line) => line,
    });
    if let Some(mark) = line.and_then(|line| line.to_mark(at)) {
        return Content::Mark(mark);
    }
    match (raw.lost, raw.end, raw.start) {
        (Some(since), _, _) => Content::Lost(from_seconds(since).min(at)),
        (_, true, _) => Content::End,
        (_, _, Some(header)) => Content::Header(header),
        (None, false, None) => Content::Unknown,
    }
}

impl From<&Link> for LinkLine {
    fn from(link: &Link) -> Self {
        let (state, rest) = match link {
            Link::Idle => ("idle", Self::default()),
            Link::Opening { attempt } => {
                ("opening", Self { attempt: Some(*attempt), ..Self::default() })
            }
            Link::Up => ("up", Self::default()),
            Link::Down { fault, retry_at } => {
                let down = Self {
                    fault: Some(fault.kind.label().to_owned()),
                    detail: Arc::clone(&fault.detail),
                    what: Arc::clone(&fault.what),
                    retry_at: retry_at.map(to_seconds),
                    ..Self::default()
                };
                ("down", down)
            }
        };
        Self { state: state.to_owned(), ..rest }
    }
}

impl LinkLine {
    fn to_link(&self) -> Option<Link> {
        Some(match self.state.as_str() {
            "idle" => Link::Idle,
            "opening" => Link::Opening { attempt: self.attempt.unwrap_or(1) },
            "up" => Link::Up,
            "down" => {
                let word = self.fault.as_deref().unwrap_or_default();
                let kind = FaultKind::ALL.into_iter().find(|kind| kind.label() == word);
                let fault = match kind {
                    Some(kind) => Fault::new(kind, text(&self.detail)),
                    // A kind that this version does not know.
                    None => Fault::new(FaultKind::SessionLost, text(word)),
                };
                let what = if self.what.is_empty() { &self.remedy } else { &self.what };
                let fault = fault.with_what(text(what));
                Link::Down { fault, retry_at: self.retry_at.map(from_seconds) }
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = r#"{"t":"sample","n":7,"at":12.5,"host":{"at":12.5}}"#;

    fn node_of(line: &str) -> Option<(String, bool)> {
        let line = parse(line.as_bytes())?;
        assert_eq!(line.at, Timestamp::from_micros(100_250_000));
        let Content::Node(name, RawUpdate::Frame(frame)) = line.content else { return None };
        assert_eq!(frame.text, BODY);
        Some((name.as_str().to_owned(), line.is_checkpoint))
    }

    #[test]
    fn a_line_with_a_body_may_be_written_by_others() {
        let known = |is_checkpoint| Some(("gpu01".to_owned(), is_checkpoint));
        let mut written = Vec::new();
        let node = &NodeName::new("gpu01").unwrap();
        let at = Timestamp::from_micros(100_250_000);
        let mut lines = NodeLines { out: &mut written, node, at, is_checkpoint: true };
        lines.write_body(BODY.as_bytes());
        assert_eq!(node_of(std::str::from_utf8(&written).unwrap()), known(true));
        for line in [
            format!(r#"{{"at":100.25,"node":"gpu01","body":{BODY}}}"#),
            format!(r#"{{"at":100.25,"node":"gpu01","body":{BODY} }}  "#),
            format!(r#"{{ "at":100.25,"node":"gpu01","body":{BODY}}}"#),
            format!(r#"{{"at":1.0025e2,"node":"gpu01","body":{BODY}}}"#),
            format!(r#"{{"at":100.25,"node":"gpu\u00301","body":{BODY}}}"#),
            format!(r#"{{"at":100.25,"node":"gpu01","body":{BODY},"later":{{"key":1}}}}"#),
            format!(r#"{{"body":{BODY},"node":"gpu01","at":100.25}}"#),
        ] {
            assert_eq!(node_of(&line), known(false), "{line}");
        }
        for line in [
            format!(r#"{{"at":100.25,"node":"gpu01","body":{BODY}"#),
            format!(r#"{{"at":100.25,"node":"gpu01","body":{BODY}}}}}"#),
            format!(r#"{{"at":100.25,"node":"gpu01","body":{BODY}}} {{}}"#),
            format!(r#"{{"at":-100.25,"node":"gpu01","body":{BODY}}}"#),
            format!(r#"{{"at":100.25,"node":"gpu\n1","body":{BODY}}}"#),
        ] {
            assert_eq!(node_of(&line), None, "{line}");
        }
    }
}
