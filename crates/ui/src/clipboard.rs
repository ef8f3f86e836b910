//! Copies texts to the clipboard of the terminal (OSC 52), which does not say whether it takes them.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::process_target::ProcessTarget;
use gtop_fleet::advice::Reader;
use gtop_fleet::insight::FleetView;
use gtop_fleet::insight::node_status::{device_line, notes, shown_id};
use gtop_fleet::insight::users::UserUsage;
use gtop_fleet::{Holder, Node, User};
use gtop_local::text::{excerpt_line, sanitized_chars};
use gtop_model::{Job, nodeset};

/// Terminals drop what is longer.
const MAX_LENGTH: usize = 64 * 1024;

/// A text to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clip {
    /// The key that selects it in the menu.
    pub(crate) key: char,
    /// What it is.
    pub(crate) what: &'static str,
    text: Arc<str>,
}

impl Clip {
    /// Makes a text to copy, of safe lines; `None` if it is empty or longer than terminals take.
    pub(crate) fn new(key: char, what: &'static str, text: &str) -> Option<Self> {
        let lines: Vec<String> = text.lines().map(|line| sanitized_chars(line).collect()).collect();
        let text: Arc<str> = lines.join("\n").into();
        (1..=MAX_LENGTH).contains(&text.len()).then_some(Self { key, what, text })
    }

    /// Returns the sequence that asks the terminal to copy it.
    pub(crate) fn sequence(&self) -> String {
        format!("\x1b]52;c;{}\x07", STANDARD.encode(self.text.as_bytes()))
    }

    /// Returns what is printed where the terminal may not have taken it.
    pub(crate) fn printed(&self) -> String {
        format!("copied {}:\n{}\n", self.what, self.text)
    }

    /// Returns its beginning, in one line.
    pub(crate) fn excerpt(&self) -> String {
        excerpt_line(&self.text)
    }

    /// Returns the message after it was copied.
    pub(crate) fn message(&self) -> String {
        format!("copied {}: {}", self.what, self.excerpt())
    }
}

/// Returns what can be copied of a node: its name, its devices, and what to do about its first note that needs something.
pub(crate) fn of_node(fleet_view: &FleetView, node: &Node) -> Vec<Clip> {
    let devices: Vec<String> =
        node.devices.iter().map(|device| device_line(node, device)).collect();
    let advice = notes(fleet_view, node);
    let mut advice = advice.iter().map(|note| note.advice(&node.name, Reader::Screen).text());
    let remedy = advice.find(|text| !text.is_empty()).unwrap_or_default();
    let clips = [
        Clip::new('n', "the node", node.name.label()),
        Clip::new('d', "the devices", &devices.join("\n")),
        Clip::new('r', "the remedy", &remedy),
    ];
    clips.into_iter().flatten().collect()
}

/// Returns what can be copied of a job: its id, its nodes and its devices.
pub(crate) fn of_job(fleet_view: &FleetView, job: &Job) -> Vec<Clip> {
    let nodes = nodeset::fold(job.allocations.iter().map(|part| part.node.label()));
    let devices = held_devices(fleet_view, |holder| holder.job.as_ref() == Some(&job.id));
    let clips = [
        Clip::new('j', "the job id", &job.shown_id),
        Clip::new('n', "the nodes", &nodes),
        Clip::new('d', "the devices", &devices),
    ];
    clips.into_iter().flatten().collect()
}

/// Returns what can be copied of a user: the name, the ids of the jobs, and the held devices.
pub(crate) fn of_user(fleet_view: &FleetView, user: &User, usage: &UserUsage) -> Vec<Clip> {
    let jobs = fleet_view.fleet.jobs.as_deref();
    let jobs: Vec<String> = usage.jobs.iter().map(|job| shown_id(jobs, job).into_owned()).collect();
    let devices = held_devices(fleet_view, |holder| holder.user == *user);
    let clips = [
        Clip::new('u', "the user", &user.text()),
        Clip::new('j', "the job ids", &jobs.join(",")),
        Clip::new('d', "the devices", &devices),
    ];
    clips.into_iter().flatten().collect()
}

/// Returns what can be copied of a process: its PID, alone or with its node, its node and its command line.
pub(crate) fn of_process(target: &ProcessTarget) -> Vec<Clip> {
    let (pid, node) = (target.key.pid, target.node.label());
    let clips = [
        Clip::new('p', "the PID", &pid.to_string()),
        Clip::new('w', "the PID and its node", &format!("{pid} on {node}")),
        Clip::new('n', "the node", node),
        Clip::new('c', "the command line", &target.command),
    ];
    clips.into_iter().flatten().collect()
}

/// Lists the devices that such a holder has.
fn held_devices(fleet_view: &FleetView, is_wanted: impl Fn(&Holder) -> bool) -> String {
    let mut lines = Vec::new();
    for node in fleet_view.nodes() {
        let held = node.devices.iter().filter(|device| {
            let holdings = node.holdings.device(&device.uuid);
            holdings.holders().any(|claim| is_wanted(&claim.holder))
        });
        lines.extend(held.map(|device| device_line(node, device)));
    }
    lines.join("\n")
}

/// Asks the terminal for its attributes (DA1).
pub(crate) const ATTRIBUTES_QUERY: &str = "\x1b[c";

/// What is known from a reply to [`ATTRIBUTES_QUERY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttributesReply {
    /// It has not arrived whole.
    Partial,
    /// True if the terminal takes texts for its clipboard.
    TakesClips(bool),
}

impl AttributesReply {
    /// Finds the reply in what the terminal has sent: `ESC [ ? 62 ; 22 ; 52 c`.
    pub(crate) fn of(input: &[u8]) -> Self {
        let input = String::from_utf8_lossy(input);
        let replies = input.split("\x1b[?").skip(1);
        let attributes = replies.filter_map(|reply| {
            let (attributes, _) = reply.split_once('c')?;
            let is_list = attributes.bytes().all(|byte| byte.is_ascii_digit() || byte == b';');
            is_list.then(|| attributes.split(';').any(|attribute| attribute == "52"))
        });
        attributes.last().map_or(Self::Partial, Self::TakesClips)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_encoded_and_nothing_of_it_ends_the_sequence() {
        let clip = Clip::new('n', "the node set", "gpu[01-02]").unwrap();
        assert_eq!(clip.sequence(), "\x1b]52;c;Z3B1WzAxLTAyXQ==\x07");
        let hostile = Clip::new('r', "the remedy", "a\x1b]0;x\x07\nb\u{202e}").unwrap();
        assert_eq!(hostile.printed(), "copied the remedy:\na ]0;x \nb \n");
        assert_eq!(hostile.message(), "copied the remedy: a ]0;x  b");
    }

    #[test]
    fn an_empty_text_and_one_that_terminals_drop_is_not_offered() {
        assert_eq!(Clip::new('n', "", ""), None);
        assert!(Clip::new('n', "", &"x".repeat(MAX_LENGTH)).is_some());
        assert_eq!(Clip::new('n', "", &"x".repeat(MAX_LENGTH + 1)), None);
    }

    #[test]
    fn a_terminal_that_takes_texts_says_so_in_its_attributes() {
        for (input, reply) in [
            ("", AttributesReply::Partial),
            ("\x1b[?62;22;5", AttributesReply::Partial),
            ("\x1b[?62;22;52c", AttributesReply::TakesClips(true)),
            ("\x1b[?52c", AttributesReply::TakesClips(true)),
            ("\x1b[?1;2c", AttributesReply::TakesClips(false)),
            ("\x1b[?62;152;520c", AttributesReply::TakesClips(false)),
            // What else is typed or comes late.
            ("jc\x1b[?2026;2$y\x1b[I\x1b[?61;52cq", AttributesReply::TakesClips(true)),
            ("\x1b[?2004x 52c", AttributesReply::Partial),
        ] {
            assert_eq!(AttributesReply::of(input.as_bytes()), reply, "{input:?}");
        }
    }
}
