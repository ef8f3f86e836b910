//! AMD devices as a tree of stub files shows them: `gtop --json` says what stands there, value by value, and nothing else.
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
#[path = "probe/rig.rs"]
mod rig;

#[path = "amd/cards.rs"]
mod cards;
#[path = "amd/machine.rs"]
mod machine;
#[path = "amd/quiet.rs"]
mod quiet;
#[path = "amd/tree.rs"]
mod tree;
