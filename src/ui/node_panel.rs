//! The panel of one node: title, problems, devices, chart, host and processes.

pub(crate) mod attributes;
pub(crate) mod chart;
pub(crate) mod device_table;
pub(crate) mod host;
pub(crate) mod panel;
pub(crate) mod process_table;
pub(crate) mod series;
