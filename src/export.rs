//! Output formats: a snapshot as JSON (with a schema) and the jobs as text lines, and the Python module that reads the
//! JSON. One file per format.

pub use csv::{write_csv, write_csv_header};
pub use exposition::{CompatNames, ExpositionOptions, MetricChoice, UnknownMetric, exposition};
pub use field_list::{write_fields, write_fields_json};
pub use jobs::write_jobs;
pub use json::{serialize_fleet, write_chosen_json, write_json, write_json_schema};
pub use output_field::{DeviceKey, OutputField};
pub use pick::{PickFormat, write_pick_json, write_pick_variables, write_picks};
pub use problems::write_problems;
pub use python::write_python_module;
#[cfg(feature = "report")]
pub use report::{ReportFormat, write_report};
pub use rntop::{RNTOP_HEADER, RntopLog};
pub use runs_csv::{RunMatrix, RunStatistics, TTOP_HEADER, TtopTotals, ttop_file_time, ttop_line};
#[cfg(feature = "record")]
pub use samples::{SampleTable, SampleWriter, sample_columns, sample_fields};
#[cfg(feature = "record")]
pub use table::{SampleColumn, SampleFormat};
pub use time_format::TimeFormat;

mod csv;
mod exposition;
mod field_list;
mod jobs;
mod json;
mod output_field;
mod pick;
mod problems;
mod python;
#[cfg(feature = "report")]
mod report;
mod rntop;
mod runs_csv;
#[cfg(feature = "record")]
mod samples;
#[cfg(feature = "record")]
mod table;
mod time_format;
