//! What to do about what is wrong: the only place that says so.
//!
//! Faults, sources, devices and the scheduler say what happened, as plain data; the screen, the doctor, JSON, reports and
//! the exporter read here what helps. Text from a node never stands in a command, and names with shell metacharacters
//! are quoted.

pub mod device;
pub mod root;
pub mod scheduler;
pub mod source;

mod connection;
mod known;
mod reader;
mod steps;

pub use crate::advice::connection::{
    for_fault, of_cause, of_shared_name, of_slow_shell, of_step, of_untrusted,
};
pub use crate::advice::known::{Known, PublicKey, shell_quoted};
pub use crate::advice::reader::Reader;
pub use crate::advice::steps::{Advice, Step};

pub(crate) use crate::advice::connection::{in_public, of_alike};
