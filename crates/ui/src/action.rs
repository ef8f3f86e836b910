//! Actions: what keys and clicks mean.

use crate::chart_metric::ChartMetric;
use crate::clipboard::Clip;
use crate::display_options::Density;
use crate::input::Click;
use crate::view::View;
use crate::widgets::list::Movement;
use gtop_fleet::query::SortOrder;
use gtop_model::{PlaybackCommand, Signal};

/// What a key or a click asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Quit,
    /// Quits with the exit code of an interrupt.
    Interrupt,
    /// Suspends gtop, as Ctrl-Z does in a shell.
    Suspend,
    /// Clears the terminal and draws everything again.
    Redraw,
    /// Opens or closes the help page.
    Help,
    /// Explains the row at the cursor.
    Explain,
    /// Opens the menu of what can be copied from the row at the cursor.
    Copy,
    /// Copies this.
    CopyText(Clip),
    /// Moves the cursor to the sickest node, then to the next one.
    NextProblem,
    /// Opens the job of the selected node.
    OpenJob,
    /// Freezes or unfreezes the screen.
    Freeze,
    /// Starts or stops sampling the selected node 10 to 20 times a second.
    Focus,
    /// Requests a full sample of every node, and reconnects to nodes that are down.
    Refresh,
    /// Asks about hosts whose keys are not known.
    HostKeys,
    /// Logs in to nodes that ask for a password or a code.
    LogIn,
    /// Opens or closes the setup pages.
    Setup,
    /// Saves changed settings.
    Save,
    /// Opens the filter prompt.
    Filter,
    /// Plays a recording, or moves in it.
    Playback(PlaybackCommand),
    /// Opens the prompt for a time of the recording.
    GoTo,
    Show(View),
    NextView,
    PreviousView,
    /// An action on the rows of the current view.
    Rows(RowAction),
    /// An action on the sort order of the current view.
    Sort(SortAction),
    Fleet(FleetAction),
    Job(JobAction),
    Node(NodeAction),
    Processes(ProcessAction),
    Runs(RunAction),
}

impl Action {
    /// Returns true if the current view handles it.
    pub(crate) fn belongs_to_view(&self) -> bool {
        matches!(
            self,
            Self::Explain
                | Self::Copy
                | Self::CopyText(_)
                | Self::NextProblem
                | Self::OpenJob
                | Self::Rows(_)
                | Self::Sort(_)
                | Self::Fleet(_)
                | Self::Job(_)
                | Self::Node(_)
                | Self::Processes(_)
                | Self::Runs(_)
        )
    }

    /// Returns true if it is about playing a recording.
    pub(crate) const fn is_of_player(&self) -> bool {
        matches!(self, Self::Playback(_) | Self::GoTo)
    }

    /// Returns true if it needs nodes that answer, which those of a recording do not.
    pub(crate) const fn needs_nodes(&self) -> bool {
        matches!(
            self,
            Self::Refresh
                | Self::Focus
                | Self::HostKeys
                | Self::LogIn
                | Self::Processes(
                    ProcessAction::Tree
                        | ProcessAction::Environment
                        | ProcessAction::Refresh
                        | ProcessAction::Signals
                        | ProcessAction::Signal(_)
                )
        )
    }
}

/// An action on the rows of any view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowAction {
    /// Moves in the list or table.
    Move(Movement),
    /// Opens the selected row.
    Open,
    /// Closes what was opened; ignored if there is nothing to go back to.
    Back,
    Click(Click),
}

/// An action on the sort order of any view that has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SortAction {
    /// Opens the sort menu.
    Menu,
    /// Sorts by this column; inverts the order if it is the sort column already.
    By(&'static str),
    /// Sorts in this order.
    Set(SortOrder),
    Next,
    Previous,
    /// Inverts the sort order.
    Reverse,
}

/// Actions of the fleet view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FleetAction {
    /// Switches between table and heat map.
    ToggleLayout,
    /// Shows the next metric in the heat map.
    NextMetric,
    /// Shows the previous metric.
    PreviousMetric,
    /// Switches to the next grouping.
    NextGrouping,
    /// Switches to the previous grouping.
    PreviousGrouping,
    /// Folds or unfolds the current group.
    ToggleFold,
    FoldAll,
    UnfoldAll,
    /// Moves to the device on the left; in the table, folds the group.
    Left,
    /// Moves to the device on the right; in the table, unfolds the group.
    Right,
}

/// Actions of the job view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobAction {
    PreviousJob,
    NextJob,
    PreviousNode,
    NextNode,
    ToggleProcesses,
    /// Shows the next metric in the table's device columns.
    NextMetric,
}

/// Actions of the node view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeAction {
    Previous,
    Next,
    Processes,
    /// Sets the density of devices, host and chart.
    Density(Density),
    Chart,
    /// Opens the menu of chart metrics.
    Metrics,
    /// Adds a metric to the chart, or removes it.
    ToggleMetric(ChartMetric),
}

/// Actions of the process view; those about signals hold for the node and job views too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessAction {
    /// Shows the next scope: fleet, selected node, selected job.
    Scope,
    Density(Density),
    /// Scrolls commands sideways.
    Scroll {
        /// True to scroll towards the end of the commands.
        is_forward: bool,
    },
    ScrollHome,
    /// Scrolls until the longest visible command ends at the right edge.
    ScrollEnd,
    /// Tags or untags the selected process and moves down.
    Tag,
    /// Shows the process tree of its node.
    Tree,
    Environment,
    /// Untags all processes.
    UntagAll,
    /// Shows or hides the directories of programs.
    TogglePaths,
    /// Closes the page in front of the table; ignored on the table.
    ClosePage,
    /// Queries the node again.
    Refresh,
    /// Opens the menu of signals.
    Signals,
    Signal(Signal),
    /// Sends SIGINT if a process is selected.
    InterruptSelected,
}

/// Actions of the view of training runs, and the one that leads there from a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunAction {
    /// Shows runs of the next status.
    NextStatus,
    /// Opens the prompt for a part of the names to show.
    Filter,
    /// Shows runs whose names contain this.
    SetFilter(String),
    /// Shows the processes of the run, then their threads, then neither.
    Unfold,
    /// Opens the editor of variables.
    Edit,
    /// Opens the output.
    Output,
    /// Sends a signal to the process of the row.
    Signal,
    /// Sends a signal to all running runs.
    SignalAll,
    /// Deletes the files of the run.
    Delete,
    /// Shows columns on the left.
    Left,
    /// Shows columns on the right.
    Right,
    /// Shows the runs of the selected job.
    OfJob,
}
