//! What is known, written once: a snapshot as JSON, which has a schema, jobs as lines. One file per format.

pub use jobs::write_jobs;
pub use json::{write_json, write_json_schema};

mod jobs;
mod json;
