//! Output formats: a snapshot as JSON (with a schema) and the jobs as text lines. One file per format.

pub use jobs::write_jobs;
pub use json::{write_json, write_json_schema};
pub use rntop::{RNTOP_HEADER, RntopLog};

mod jobs;
mod json;
mod rntop;
