//! The default key bindings: one table per view, and one for all views.
//!
//! A binding is its name in the config file, its default keys (the first one is shown in hints), what it does,
//! its description, and its hint in the bottom line, if any: `"word"`, or `"word" with` the binding whose key
//! stands in the same hint.

use crate::action::{
    Action, FleetAction, JobAction, NodeAction, ProcessAction, RowAction, RunAction, SortAction,
};
use crate::display_options::Density;
use crate::keymap::binding::{Binding, Hint};
use crate::view::View;
use crate::widgets::list::Movement;
use gtop_fleet::query::SortOrder;
use gtop_model::{PlaybackCommand, Signal};

macro_rules! bindings {
    ($($name:literal $keys:literal => $action:expr, $help:literal
       $(, $hint:literal $(with $pair:literal)?)?;)*) => {
        &[$(Binding {
            name: $name,
            keys: $keys,
            action: $action,
            help: $help,
            hint: bindings!(@hint $($hint $(with $pair)?)?),
        }),*]
    };
    (@hint) => { None };
    (@hint $hint:literal) => { Some(Hint { meaning: $hint, paired_with: None }) };
    (@hint $hint:literal with $pair:literal) => {
        Some(Hint { meaning: $hint, paired_with: Some($pair) })
    };
}

/// Returns the bindings by view; those of a view precede the ones that hold in all views.
pub(super) fn tables() -> impl Iterator<Item = (Option<View>, &'static [Binding])> {
    let of_views = View::ALL.map(|view| match view {
        View::Fleet => (Some(view), FLEET),
        View::Job => (Some(view), JOB),
        View::Node => (Some(view), NODE),
        View::Processes => (Some(view), PROCESSES),
        View::Users => (Some(view), USERS),
        View::Events => (Some(view), EVENTS),
        View::Problems => (Some(view), PROBLEMS),
        View::Runs => (Some(view), RUNS),
    });
    of_views.into_iter().chain([(None, EVERYWHERE)])
}

/// Returns the action that sorts processes by a column in its default direction.
const fn sort_by(column: &'static str) -> Action {
    Action::Sort(SortAction::Set(SortOrder::by(column)))
}

/// The fleet view.
const FLEET: &[Binding] = bindings! {
    "fleet.map" "m" => Action::Fleet(FleetAction::ToggleLayout),
        "switch between node list and device map", "map";
    "fleet.next-metric" "b" => Action::Fleet(FleetAction::NextMetric),
        "next map metric: utilization, memory, power, temperature, owner, job", "metric";
    "fleet.previous-metric" "B" => Action::Fleet(FleetAction::PreviousMetric),
        "previous map metric";
    "fleet.next-grouping" "g" => Action::Fleet(FleetAction::NextGrouping),
        "next grouping: node name, partition, job, user, device model, none", "group";
    "fleet.previous-grouping" "G" => Action::Fleet(FleetAction::PreviousGrouping),
        "previous grouping";
    "fleet.fold" "Space" => Action::Fleet(FleetAction::ToggleFold),
        "fold or unfold the group";
    "fleet.left" "Left" => Action::Fleet(FleetAction::Left),
        "fold the group; in the map, previous device";
    "fleet.right" "Right" => Action::Fleet(FleetAction::Right),
        "unfold the group; in the map, next device";
    "fleet.fold-all" "-" => Action::Fleet(FleetAction::FoldAll),
        "fold all groups";
    "fleet.unfold-all" "+ =" => Action::Fleet(FleetAction::UnfoldAll),
        "unfold all groups";
    "fleet.job" "J" => Action::OpenJob,
        "open the job of the node";
    "fleet.sort-next" "." => Action::Sort(SortAction::Next),
        "sort by the next column";
    "fleet.sort-previous" "," => Action::Sort(SortAction::Previous),
        "sort by the previous column";
    "fleet.reverse" "\\" => Action::Sort(SortAction::Reverse),
        "reverse the sort order";
};

/// The job view.
const JOB: &[Binding] = bindings! {
    "job.previous" "Up k K" => Action::Job(JobAction::PreviousJob),
        "previous job; with the cursor in the table, up", "job" with "job.next";
    "job.next" "Down j J" => Action::Job(JobAction::NextJob),
        "next job; with the cursor in the table, down";
    "job.previous-node" "Left <" => Action::Job(JobAction::PreviousNode),
        "previous node of the job", "node" with "job.next-node";
    "job.next-node" "Right >" => Action::Job(JobAction::NextNode),
        "next node of the job";
    "job.sort-previous" "," => Action::Sort(SortAction::Previous),
        "in the list, sort by the previous column; in a job, previous node";
    "job.sort-next" "." => Action::Sort(SortAction::Next),
        "in the list, sort by the next column; in a job, next node";
    "job.reverse" "\\" => Action::Sort(SortAction::Reverse),
        "reverse the sort order of the list";
    "job.processes" "p" => Action::Job(JobAction::ToggleProcesses),
        "show or hide processes of the selected node";
    "job.next-metric" "m" => Action::Job(JobAction::NextMetric),
        "next metric: utilization, memory, power, temperature", "metric";
    "job.runs" "r" => Action::Runs(RunAction::OfJob),
        "training runs of the job, in gtop runs";
    "job.overview" "o" => Action::Show(View::Fleet),
        "switch to the fleet view";
};

/// The node view.
const NODE: &[Binding] = bindings! {
    "node.previous" "Left < ," => Action::Node(NodeAction::Previous),
        "previous node", "node" with "node.next";
    "node.next" "Right > ." => Action::Node(NodeAction::Next),
        "next node";
    "node.processes" "p" => Action::Node(NodeAction::Processes),
        "show or hide processes", "processes";
    "node.chart" "g" => Action::Node(NodeAction::Chart),
        "show or hide charts of each device", "chart" with "node.metrics";
    "node.metrics" "G" => Action::Node(NodeAction::Metrics),
        "choose up to four metrics to chart";
    "node.auto" "a" => Action::Node(NodeAction::Density(Density::Auto)),
        "automatic density";
    "node.full" "f" => Action::Node(NodeAction::Density(Density::Full)),
        "full density: all that is known of each device, graphs of the host", "density" with "node.compact";
    "node.compact" "c" => Action::Node(NodeAction::Density(Density::Compact)),
        "compact density: one line per device, few for the host";
    "node.overview" "o" => Action::Show(View::Fleet),
        "switch to the fleet view";
    "node.tag" "Space" => Action::Processes(ProcessAction::Tag),
        "tag the process under the cursor, and go to the next one";
    "node.tree" "t" => Action::Processes(ProcessAction::Tree),
        "process tree of the node";
    "node.environment" "e" => Action::Processes(ProcessAction::Environment),
        "environment of the process under the cursor";
    "node.left" "Alt-h" => Action::Processes(ProcessAction::Scroll { is_forward: false }),
        "scroll commands left";
    "node.right" "Alt-l" => Action::Processes(ProcessAction::Scroll { is_forward: true }),
        "scroll commands right";
    "node.line-start" "^ Ctrl-A" => Action::Processes(ProcessAction::ScrollHome),
        "scroll to the start of commands";
    "node.line-end" "$ Ctrl-E" => Action::Processes(ProcessAction::ScrollEnd),
        "scroll to the end of commands";
    "node.sort" "" => Action::Sort(SortAction::Menu),
        "sort menu of the node's processes";
    "node.sort-previous" "" => Action::Sort(SortAction::Previous),
        "sort the node's processes by the previous column";
    "node.sort-next" "" => Action::Sort(SortAction::Next),
        "sort the node's processes by the next column";
    "node.reverse" "\\" => Action::Sort(SortAction::Reverse),
        "reverse the order of the node's processes";
    "signal-here.terminate" "T" => Action::Processes(ProcessAction::Signal(Signal::Terminate)),
        "send TERM to the process under the cursor", "signal" with "signal-here.kill";
    "signal-here.kill" "K" => Action::Processes(ProcessAction::Signal(Signal::Kill)),
        "send KILL to the process under the cursor";
    "signal-here.interrupt" "I" => Action::Processes(ProcessAction::Signal(Signal::Interrupt)),
        "send INT to the process under the cursor";
    "signal-here.interrupt-selected" "" => Action::Processes(ProcessAction::InterruptSelected),
        "send INT to the process under the cursor, after a question; quit if there is none";
};

/// The process view.
const PROCESSES: &[Binding] = bindings! {
    "processes.scope" "s" => Action::Processes(ProcessAction::Scope),
        "scope: all nodes, the selected node, the selected job", "scope";
    "processes.tag" "Space" => Action::Processes(ProcessAction::Tag),
        "tag or untag the process; Esc clears all tags", "tag";
    "processes.tree" "t" => Action::Processes(ProcessAction::Tree),
        "switch between process tree and table", "tree";
    "processes.environment" "e" => Action::Processes(ProcessAction::Environment),
        "environment of the process", "env";
    "signal.terminate" "T" => Action::Processes(ProcessAction::Signal(Signal::Terminate)),
        "send TERM to the tagged processes or the selected one", "signal" with "signal.kill";
    "signal.kill" "K" => Action::Processes(ProcessAction::Signal(Signal::Kill)),
        "send KILL";
    "signal.interrupt" "I" => Action::Processes(ProcessAction::Signal(Signal::Interrupt)),
        "send INT";
    "signal.interrupt-selected" "Ctrl-C" => Action::Processes(ProcessAction::InterruptSelected),
        "send INT to the selected process, after a question; quit if none is selected";
    "processes.refresh" "r" => Action::Processes(ProcessAction::Refresh),
        "reload the tree, environment or details", "reload";
    "processes.untag" "" => Action::Processes(ProcessAction::UntagAll),
        "untag all processes";
    "processes.paths" "" => Action::Processes(ProcessAction::TogglePaths),
        "show or hide the directories of programs";
    "processes.close-page" "" => Action::Processes(ProcessAction::ClosePage),
        "close the tree, environment or details";
    "processes.sort-previous" ", <" => Action::Sort(SortAction::Previous),
        "sort by the previous column";
    "processes.sort-next" ". >" => Action::Sort(SortAction::Next),
        "sort by the next column";
    "processes.reverse" "\\" => Action::Sort(SortAction::Reverse),
        "reverse the sort order";
    "processes.sort" "o" => Action::Sort(SortAction::Menu),
        "sort menu: press a letter; uppercase reverses";
    "processes.auto" "a" => Action::Processes(ProcessAction::Density(Density::Auto)),
        "automatic density: as many columns as fit";
    "processes.full" "f" => Action::Processes(ProcessAction::Density(Density::Full)),
        "full density: also the directories of programs";
    "processes.compact" "c" => Action::Processes(ProcessAction::Density(Density::Compact)),
        "compact density: few columns, more room for commands";
    "processes.left" "Left Alt-h" => Action::Processes(ProcessAction::Scroll { is_forward: false }),
        "scroll commands left";
    "processes.right" "Right Alt-l" => Action::Processes(ProcessAction::Scroll { is_forward: true }),
        "scroll commands right";
    "processes.line-start" "^ Ctrl-A" => Action::Processes(ProcessAction::ScrollHome),
        "scroll to the start of commands";
    "processes.line-end" "$ Ctrl-E" => Action::Processes(ProcessAction::ScrollEnd),
        "scroll to the end of commands";
    "processes.page-up" "[ Alt-K" => Action::Rows(RowAction::Move(Movement::PageUp)),
        "page up";
    "processes.page-down" "] Alt-J" => Action::Rows(RowAction::Move(Movement::PageDown)),
        "page down";
};

/// The users view.
const USERS: &[Binding] = bindings! {
    "users.sort-previous" "," => Action::Sort(SortAction::Previous),
        "sort by the previous column";
    "users.sort-next" "." => Action::Sort(SortAction::Next),
        "sort by the next column";
    "users.reverse" "\\" => Action::Sort(SortAction::Reverse),
        "reverse the sort order";
    "users.overview" "o" => Action::Show(View::Fleet),
        "switch to the fleet view";
};

/// The events view.
const EVENTS: &[Binding] = bindings! {
    "events.overview" "o" => Action::Show(View::Fleet),
        "switch to the fleet view";
};

/// The problems view.
const PROBLEMS: &[Binding] = bindings! {
    "problems.overview" "o" => Action::Show(View::Fleet),
        "switch to the fleet view";
};

/// The view of training runs; the keys are those of ttop.
const RUNS: &[Binding] = bindings! {
    "runs.status" "s" => Action::Runs(RunAction::NextStatus),
        "show runs of the next status: all, RUNNING, FINISHED, …", "status";
    "runs.filter" "f" => Action::Runs(RunAction::Filter),
        "show runs whose names contain a text", "find";
    "runs.unfold" "t Space" => Action::Runs(RunAction::Unfold),
        "show processes, then threads of the run", "unfold";
    "runs.edit" "e" => Action::Runs(RunAction::Edit),
        "edit the variables of the run", "edit";
    "runs.output" "o" => Action::Runs(RunAction::Output),
        "read the output of the run", "output";
    "signal.run" "k" => Action::Runs(RunAction::Signal),
        "send a signal to the run, the process or the thread's process", "signal" with "signal.all-runs";
    "signal.all-runs" "l" => Action::Runs(RunAction::SignalAll),
        "send a signal to all running runs";
    "runs.delete" "c" => Action::Runs(RunAction::Delete),
        "delete the files of a run that has ended", "delete";
    "runs.left" "Left" => Action::Runs(RunAction::Left),
        "show columns on the left", "columns" with "runs.right";
    "runs.right" "Right" => Action::Runs(RunAction::Right),
        "show columns on the right";
};

/// All views, unless a view binds the key itself.
const EVERYWHERE: &[Binding] = bindings! {
    "up" "Up k Alt-k" => Action::Rows(RowAction::Move(Movement::Up)),
        "up";
    "down" "Down j Alt-j" => Action::Rows(RowAction::Move(Movement::Down)),
        "down";
    "page-up" "PgUp" => Action::Rows(RowAction::Move(Movement::PageUp)),
        "page up";
    "page-down" "PgDn" => Action::Rows(RowAction::Move(Movement::PageDown)),
        "page down";
    "first" "Home" => Action::Rows(RowAction::Move(Movement::Home)),
        "first row";
    "last" "End" => Action::Rows(RowAction::Move(Movement::End)),
        "last row; in a recording that is still written, back to now", "now";
    "open" "Enter" => Action::Rows(RowAction::Open),
        "open the selected row, or the first one", "open";
    "back" "Esc" => Action::Rows(RowAction::Back),
        "back: leave, clear the filter, or return to the previous view", "back";
    "view-fleet" "1" => Action::Show(View::Fleet),
        "the fleet";
    "view-job" "2" => Action::Show(View::Job),
        "jobs: the list; again, from a job back to the list";
    "view-node" "3" => Action::Show(View::Node),
        "the selected node";
    "view-processes" "4" => Action::Show(View::Processes),
        "processes on all nodes";
    "view-users" "5" => Action::Show(View::Users),
        "users and their devices";
    "view-events" "6" => Action::Show(View::Events),
        "events";
    "view-problems" "7" => Action::Show(View::Problems),
        "problems: each kind once, with its nodes and what to do about it";
    "view-runs" "8" => Action::Show(View::Runs),
        "training runs, in gtop runs";
    "next-view" "Tab" => Action::NextView,
        "next view", "view";
    "previous-view" "Shift-Tab" => Action::PreviousView,
        "previous view";
    "playback.play" "x" => Action::Playback(PlaybackCommand::TogglePlay),
        "recording: play or pause", "play";
    "playback.slower" "{" => Action::Playback(PlaybackCommand::Slower),
        "recording: slower";
    "playback.faster" "}" => Action::Playback(PlaybackCommand::Faster),
        "recording: faster";
    "playback.back" "( Shift-Left" => Action::Playback(PlaybackCommand::Step { seconds: -10 }),
        "recording: 10 seconds back", "10s" with "playback.forward";
    "playback.forward" ") Shift-Right" => Action::Playback(PlaybackCommand::Step { seconds: 10 }),
        "recording: 10 seconds forward";
    "playback.far-back" "Ctrl-Left" => Action::Playback(PlaybackCommand::Step { seconds: -600 }),
        "recording: 10 minutes back";
    "playback.far-forward" "Ctrl-Right" => Action::Playback(PlaybackCommand::Step { seconds: 600 }),
        "recording: 10 minutes forward";
    "playback.sample-back" "Alt-," => Action::Playback(PlaybackCommand::StepSample { ahead: false }),
        "recording: pause, one sample back";
    "playback.sample-forward" "Alt-." => Action::Playback(PlaybackCommand::StepSample { ahead: true }),
        "recording: pause, one sample forward";
    "playback.next-event" "n" => Action::Playback(PlaybackCommand::NextMark),
        "recording: next event", "event" with "playback.previous-event";
    "playback.previous-event" "N" => Action::Playback(PlaybackCommand::PreviousMark),
        "recording: previous event";
    "playback.go-to" ":" => Action::GoTo,
        "recording: go to a time, such as 14:05 or -3m", "go to";
    "host-keys" "A" => Action::HostKeys,
        "answer about hosts whose keys are not known: shows the keys, and stores them after yes", "host keys";
    "log-in" "L" => Action::LogIn,
        "log in to nodes that ask for a password or a code, as gtop login does", "log in";
    "explain" "i" => Action::Explain,
        "explain the row: each number, each note and what to do about it", "explain";
    "next-problem" "!" => Action::NextProblem,
        "move to the sickest node, then to the next one", "worst";
    "filter" "/" => Action::Filter,
        "filter, such as util<10 user=alice", "filter";
    "sort" "F6" => Action::Sort(SortAction::Menu),
        "sort nodes, jobs, processes or users by a column", "sort";
    "sort-pid" "" => sort_by("pid"),
        "sort processes by PID";
    "sort-cpu" "" => sort_by("pcpu"),
        "sort processes by CPU";
    "sort-memory" "" => sort_by("prss"),
        "sort processes by their share of host memory";
    "sort-time" "" => sort_by("time"),
        "sort processes by running time";
    "freeze" "z" => Action::Freeze,
        "freeze or resume the display", "freeze";
    "focus" "w" => Action::Focus,
        "focus: sample the node 10 to 20 times a second, for a minute", "focus";
    "setup" "F2" => Action::Setup,
        "setup: colours, units, thresholds, what is shown";
    "save" "F12" => Action::Save,
        "save the setup to setup.toml";
    "refresh" "F5 R Ctrl-R" => Action::Refresh,
        "refresh everything and reconnect nodes that are down", "retry";
    "signals" "F9" => Action::Processes(ProcessAction::Signals),
        "send a signal to the selected process or the tagged ones";
    "copy" "y" => Action::Copy,
        "copy what is under the cursor: nodes, devices, a remedy, a job id, a PID", "copy";
    "help" "h ? F1" => Action::Help,
        "this help", "help";
    "quit" "q Q F10" => Action::Quit,
        "quit", "quit";
    "interrupt" "Ctrl-C" => Action::Interrupt,
        "quit, with exit status 130";
    "suspend" "Ctrl-Z" => Action::Suspend,
        "suspend; fg in the shell resumes";
    "redraw" "Ctrl-L" => Action::Redraw,
        "redraw the screen";
};
