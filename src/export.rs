//! What is known, written once: a snapshot as JSON, a picture as a table. One file per format.

pub use json::write_json;
pub use table::write_table;

mod json;
mod table;
