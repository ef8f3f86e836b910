//! Expands node sets such as `gpu[001-128,200]!@down` to names, and folds names to node sets.
//!
//! The notation is that of Slurm and `ClusterShell`:
//!
//! - `gpu[08-11,20]`, `r[1-2]n[1-4]-ib`, `gpu[0-30/2]`: ranges in brackets, with steps, any number of
//!   them. Text around a bracket is literal, so `ada@gpu[1-4]:2222` is four targets;
//!   `[::1]:22` is an address, not a range.
//! - `a,b` and `a b`: union, `a!b`: difference, `a&b`: intersection, `a^b`: symmetric difference; from
//!   left to right.
//! - `@gpu`, `@racks:r[1-2]`, `@*`: groups, from `ClusterShell`'s files (see [`Groups`]); `gpu*` and
//!   `gpu0?` match among all nodes of the groups.
//! - `http://gpu[01-04]:9100/metrics?a[]=b,c`: addresses of pages. What follows the host is literal, up to the next blank or
//!   to a comma before another address.
//!
//! Where the two differ:
//!
//! - The order is that of the text, as in Slurm; `ClusterShell` sorts. Duplicates are removed, as in
//!   `ClusterShell`; Slurm repeats.
//! - Digits around a bracket are literal: `n1[9-10]` is `n19,n110`, as in Slurm.
//! - `n[01-128]` is `n01` to `n128` and `n[008-11]` is `n008` to `n011`, as in Slurm, and
//!   `n[8-011]` is an error, as in `ClusterShell`.
//! - Steps, text after a bracket, and operations are `ClusterShell`'s; brackets side by side
//!   (`n[1-2][3-4]`), spaces between names and extra commas are Slurm's. Negative numbers
//!   (`n[-1-1]`) are an error, as in Slurm.
//! - An undefined group is an error; in `ClusterShell` it is empty.
//!
//! A set expands to at most [`MAX_NAMES`] names, and expanding any text takes bounded time.

mod error;
mod expand;
mod fold;
mod groups;
mod ordered_names;

pub use crate::nodeset::error::NodeSetError;
pub use crate::nodeset::expand::{expand_with, find_cycles};
pub use crate::nodeset::fold::fold;
pub use crate::nodeset::groups::Groups;

pub(crate) use crate::nodeset::error::NodeSetErrorKind;
pub(crate) use crate::nodeset::groups::GroupError;

/// Maximum number of names of a set; a typing error must not exhaust the memory of a login node.
pub const MAX_NAMES: usize = 65_536;

/// Maximum length of a name, in bytes.
const MAX_NAME_LENGTH: usize = 255;

/// Expands a node set without groups, in the order of the text, without duplicates.
pub fn expand(text: &str) -> Result<Vec<String>, NodeSetError> {
    expand_with(text, &Groups::empty())
}
