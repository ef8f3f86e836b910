//! A process as the target of a request or a signal.

use std::sync::Arc;

use unicode_width::UnicodeWidthChar;

use crate::widgets::line::{Tone, truncate};
use gtop_fleet::insight::FleetView;
use gtop_fleet::{Node, Process};
use gtop_local::text::width_of;
use gtop_model::{
    Link, NodeName, ProcessKey, ProcessState, Reason, SudoState, UnseenProcess, UnseenReason,
};

/// Maximum width of the command in a short description.
const MAX_COMMAND_WIDTH: u16 = 24;

/// Identity of a process, with what identifies it to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcessTarget {
    pub(super) node: NodeName,
    /// Pid and start time.
    pub(super) key: ProcessKey,
    pub(super) user: Option<Arc<str>>,
    pub(super) command: Arc<str>,
    /// True if the process belongs to the login of the probe.
    pub(super) is_ours: Option<bool>,
    /// True if the process uses a device, so that samples show when it ends.
    pub(super) is_on_device: bool,
}

/// The processes that a signal is to be sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SignalTargets {
    pub(super) listed: Vec<ProcessTarget>,
    /// The number of tagged ones that get none, because the filter hides them.
    pub(super) hidden: usize,
}

impl From<Vec<ProcessTarget>> for SignalTargets {
    fn from(listed: Vec<ProcessTarget>) -> Self {
        Self { listed, hidden: 0 }
    }
}

/// Returns what is unusual about a process that uses a device: `gone`, `zombie`, `stopped`.
pub(super) fn unusual_state(
    process: Option<&Process>,
    unseen: Option<&UnseenProcess>,
) -> Option<(&'static str, Tone)> {
    if let Some(unseen) = unseen {
        return Some(match unseen.why {
            UnseenReason::Gone => ("gone", Tone::Bad),
            UnseenReason::Hidden => ("no permission", Tone::Warn),
            UnseenReason::OtherNamespace => ("in another PID namespace", Tone::Warn),
            UnseenReason::Ambiguous => (Reason::AmbiguousPid.text(), Tone::Warn),
        });
    }
    let text = match process?.state.get()? {
        ProcessState::Zombie => "zombie",
        ProcessState::Dead => "ending",
        ProcessState::Stopped => "stopped",
        ProcessState::Traced => "traced",
        ProcessState::Running
        | ProcessState::Sleeping
        | ProcessState::Waiting
        | ProcessState::Idle => return None,
    };
    Some((text, Tone::Warn))
}

/// Returns why a process that `/proc` does not show gets no request and no signal.
pub(super) const fn refusal(why: UnseenReason) -> &'static str {
    match why {
        UnseenReason::Gone => "the process has ended",
        UnseenReason::Hidden => "the node hides this process, so there are no details",
        UnseenReason::OtherNamespace => "the process is in another PID namespace, out of reach",
        UnseenReason::Ambiguous => {
            "the driver reports pids of another PID namespace: this pid may belong to another process here"
        }
    }
}

impl ProcessTarget {
    /// Returns the process with this pid and start time, `None` if the node does not show it.
    pub(super) fn find(node: &Node, pid: u32, start_ticks: Option<u64>) -> Option<Self> {
        let process = node.process(pid)?;
        if start_ticks.is_some_and(|start| start != process.key.start_ticks) {
            return None;
        }
        let user = process.statics.user.known().cloned();
        let login = node.hello.as_ref().map(|hello| &hello.host.user);
        let command = process
            .statics
            .command
            .known()
            .or_else(|| node.uses.iter().find(|used| used.pid == pid)?.driver_name.as_ref());
        Some(Self {
            node: node.name.clone(),
            key: process.key,
            is_ours: user.as_ref().zip(login).map(|(user, login)| user == login),
            user,
            command: command.cloned().unwrap_or_default(),
            is_on_device: true,
        })
    }

    /// Returns a process of a training run.
    pub(super) fn of_run(
        node: NodeName,
        key: ProcessKey,
        user: Option<Arc<str>>,
        command: Arc<str>,
    ) -> Self {
        Self { node, key, user, command, is_ours: None, is_on_device: false }
    }

    /// Returns true if a request or reply for this node and key is about the process.
    pub(super) fn matches(&self, node: &NodeName, key: ProcessKey) -> bool {
        self.node == *node && self.key == key
    }

    /// Returns the key under which the process is tagged.
    pub(super) fn tag(&self) -> (NodeName, ProcessKey) {
        (self.node.clone(), self.key)
    }

    /// Returns true if the probe of its node runs as root, so that signals reach the processes of others.
    pub(super) fn is_reached_as_root(&self, fleet_view: &FleetView) -> bool {
        let hello = fleet_view.fleet.node(&self.node).and_then(|node| node.hello.as_ref());
        hello.is_some_and(|hello| hello.sudo == Some(SudoState::Root))
    }

    /// Returns why the process can no longer be reached, `None` if it can.
    pub(super) fn unreachable_reason(&self, fleet_view: &FleetView) -> Option<&'static str> {
        let Some(node) = fleet_view.fleet.node(&self.node) else {
            return Some("the node is no longer monitored");
        };
        if node.link != Link::Up {
            return Some("not connected to the node");
        }
        let is_running = !self.is_on_device
            || node
                .process(self.key.pid)
                .is_some_and(|process| process.key.start_ticks == self.key.start_ticks);
        if is_running { None } else { Some("the process has ended") }
    }

    /// Returns why the process takes no signal from here, `None` if it may.
    pub(super) fn unsignalled_reason(&self, fleet_view: &FleetView) -> Option<&'static str> {
        let node = fleet_view.fleet.node(&self.node);
        let is_page = node.is_some_and(|node| node.is_read_from_page());
        let of_page = is_page.then_some("read from a page of metrics, which takes no signals");
        self.unreachable_reason(fleet_view).or(of_page)
    }

    /// Describes the process in short: `4121 python of alice on gpu03`.
    pub(super) fn name(&self) -> String {
        self.name_with_command(MAX_COMMAND_WIDTH)
    }

    /// Describes the process in this width, with as much of its command as fits, at least what is in short.
    pub(super) fn name_within(&self, width: u16) -> String {
        let spare = width.saturating_sub(width_of(&self.name()));
        self.name_with_command(MAX_COMMAND_WIDTH.saturating_add(spare))
    }

    fn name_with_command(&self, width: u16) -> String {
        let user = self.user.as_ref().map_or_else(String::new, |user| format!(" of {user}"));
        let program = short_command(&self.command, false);
        let program = truncate(&program, width);
        let space = if program.is_empty() { "" } else { " " };
        format!("{}{space}{program}{user} on {}", self.key.pid, self.node.label())
    }
}

/// Returns the command line, without the directory of the program unless `is_full`.
pub(super) fn short_command(command_line: &str, is_full: bool) -> String {
    if is_full {
        return command_line.to_owned();
    }
    let (program, arguments) = command_line.split_once(' ').unwrap_or((command_line, ""));
    // Programs give themselves names with slashes, such as ray::ppo/worker and [kworker/0:0H].
    let is_path = ["/", "./", "../"].iter().any(|start| program.starts_with(start));
    let program = program.rsplit_once('/').filter(|_| is_path).map_or(program, |(_, name)| name);
    if arguments.is_empty() { program.to_owned() } else { format!("{program} {arguments}") }
}

/// Returns the text without its first columns; a wide character cut in half becomes a space.
pub(crate) fn skip_columns(text: &str, columns: usize) -> String {
    let mut left = columns;
    let mut characters = text.chars();
    while left > 0 {
        let Some(character) = characters.next() else { return String::new() };
        let width = character.width().unwrap_or(0);
        if width > left {
            return format!(" {}", characters.as_str());
        }
        left -= width;
    }
    // Combining characters belong to the character before, so they are dropped with it.
    let rest = characters.as_str();
    if columns == 0 {
        return rest.to_owned();
    }
    rest.trim_start_matches(|character: char| character.width() == Some(0)).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_identified_by_node_pid_and_start() {
        let [here, elsewhere] = ["a", "b"].map(|name| NodeName::new(name).unwrap());
        let key = ProcessKey { pid: 7, start_ticks: 9 };
        let target = ProcessTarget {
            node: here.clone(),
            key,
            user: None,
            command: "".into(),
            is_ours: None,
            is_on_device: true,
        };
        assert!(target.matches(&here, key));
        assert!(!target.matches(&elsewhere, key));
        for other in [ProcessKey { pid: 8, ..key }, ProcessKey { start_ticks: 8, ..key }] {
            assert!(!target.matches(&here, other));
        }
    }
}
