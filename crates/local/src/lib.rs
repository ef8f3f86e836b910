//! What every crate of gtop stands on: time, text, files, programs of this machine, and why something failed.
//!
//! A part of gtop: its interface changes with it.

#[warn(missing_docs)]
pub mod fault;
#[warn(missing_docs)]
pub mod lock;
pub mod process;
pub mod storage;
#[warn(missing_docs)]
pub mod text;
#[warn(missing_docs)]
pub mod time;
