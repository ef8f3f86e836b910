//! Node sets: `gpu[001-128,200]!@down` to a list of names and back.
//!
//! The notation is that of Slurm and `ClusterShell`:
//!
//! - `gpu[08-11,20]`, `r[1-2]n[1-4]-ib`, `gpu[0-30/2]`: numbers in brackets, with steps, in several
//!   places. Text around a bracket is kept as it is, so `ada@gpu[1-4]:2222` is four targets;
//!   `[::1]:22` is an address, not a range.
//! - `a,b` and `a b` both, `a!b` without, `a&b` in both, `a^b` in one of the two; from left to right.
//! - `@gpu`, `@racks:r[1-2]`, `@*`: groups, from `ClusterShell`'s files (see [`Groups`]); `gpu*` and
//!   `gpu0?` are what fits among all nodes of the groups.
//!
//! Where the two differ, gtop does this:
//!
//! - The order is that of the text, as Slurm has it; `ClusterShell` sorts. A name stands once, as
//!   `ClusterShell` has it; Slurm repeats.
//! - Digits around a bracket are text: `n1[9-10]` is `n19,n110`, as Slurm has it.
//! - `n[01-128]` is `n01` to `n128` and `n[008-11]` is `n008` to `n011`, as Slurm has it, and
//!   `n[8-011]` a mistake, as `ClusterShell` has it.
//! - Steps, text after a bracket, and operations are `ClusterShell`'s; brackets side by side
//!   (`n[1-2][3-4]`), spaces between names and commas too many are Slurm's. Negative numbers
//!   (`n[-1-1]`) are a mistake, as Slurm has it.
//! - A group nobody has defined is a mistake; `ClusterShell` takes it for an empty one.
//!
//! A set stands for at most [`LIMIT`] names; whatever the text, reading it ends soon.

mod error;
mod expand;
mod fold;
mod glob;
mod groups;
mod ordered_names;

pub use crate::nodeset::error::{NodeSetError, NodeSetErrorKind};
pub use crate::nodeset::expand::{expand_with, find_cycles};
pub use crate::nodeset::fold::fold;
pub use crate::nodeset::glob::glob_matches;
pub use crate::nodeset::groups::{GroupError, Groups};

/// The most names one set may stand for; a typing error must not eat the memory of a login node.
pub const MAX_NAMES: usize = 65_536;

/// The longest name, in bytes.
const MAX_NAME_LENGTH: usize = 255;

/// Expands a node set without groups; the order is that of the text, each name once.
pub fn expand(text: &str) -> Result<Vec<String>, NodeSetError> {
    expand_with(text, &Groups::empty())
}
