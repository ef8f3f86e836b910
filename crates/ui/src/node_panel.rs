//! The panel of one node: title, problems, devices, chart, host and processes.

pub(crate) mod attributes;
pub(crate) mod chart;
pub(crate) mod close_up;
mod device_overview;
pub(crate) mod device_table;
pub(crate) mod explain;
pub(crate) mod host;
mod next_steps;
pub(crate) mod panel;
pub(crate) mod process_table;
pub(crate) mod state;

pub(crate) use state::{NodePanel, scrolled};
