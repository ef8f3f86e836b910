//! AMD devices in a tree of stub files: each value of `gtop --json` equals that of the files.
#![expect(clippy::disallowed_methods, reason = "a real program against a real clock")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "all of this file is tests; a skip says why"
)]

mod schema;

#[expect(dead_code, reason = "shared with the tests of all probes")]
#[path = "probe/harness.rs"]
mod harness;

#[path = "amd/cards.rs"]
mod cards;
#[path = "amd/machine.rs"]
mod machine;
#[path = "amd/skipped_reads.rs"]
mod skipped_reads;
#[path = "amd/sysfs.rs"]
mod sysfs;
