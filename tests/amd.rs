//! AMD devices in a tree of stub files: each value of `gtop --json` equals that of the files.

mod cards;
mod machine;
mod skipped_reads;
mod sysfs;
