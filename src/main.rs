//! The `gtop` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    gtop::run_program()
}
