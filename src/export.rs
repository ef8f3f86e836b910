//! What is known, written once: a snapshot as JSON, which has a schema, a picture as a table. One file per format.

pub use json::{write_json, write_json_schema};
pub use table::write_table;

mod json;
mod table;
