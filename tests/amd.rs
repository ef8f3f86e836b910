//! AMD devices in a tree of stub files: each value of `gtop --json` equals that of the files.

mod cards;
pub(crate) mod machine;
mod skipped_reads;
pub(crate) mod sysfs;
