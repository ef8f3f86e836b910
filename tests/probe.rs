//! Runs the probes as real processes: under all installed login shells, Pythons and sh, with a stub
//! nvidia-smi and NVML that fail as the real ones do, and with every kind of session end.

mod environments;
mod evidence;
mod faults;
mod habits;
mod isolation;
mod kernel_log;
mod launching;
mod nvml;
mod parity;
mod pci;
mod portability;
mod processes;
mod requests;
mod sampling;
mod settings;
mod shares;
mod termination;
mod undefined_names;
mod user_names;
