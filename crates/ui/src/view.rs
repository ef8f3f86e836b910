//! The views: the pages of the screen.

use gtop_model::table;

table! {
    /// A page of the screen, in the order of the number keys.
    #[derive(Default)]
    pub enum View {
        /// All nodes.
        #[default]
        Fleet = "Fleet",
        /// One job and its nodes.
        Job = "Job",
        /// One node.
        Node = "Node",
        /// Processes on devices, of all nodes or of one node or job.
        Processes = "Processes",
        /// Users and the devices they hold.
        Users = "Users",
        /// What happened.
        Events = "Events",
        /// What is wrong, each kind once.
        Problems = "Problems",
        /// Training runs; only if folders of runs are watched.
        Runs = "Runs",
    }
    /// All views, in the order of their number keys.
    pub const ALL;
    /// Returns the name in tabs and settings.
    pub fn title -> &'static str;
}

impl View {
    /// Returns the views that have a tab.
    pub(crate) fn shown(has_runs: bool) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |view| *view != Self::Runs || has_runs)
    }
}
