//! What is known, written once: a snapshot as JSON, jobs as lines. One file per format.

pub use jobs::write_jobs;
pub use json::write_json;

mod jobs;
mod json;
