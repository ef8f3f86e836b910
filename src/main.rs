//! The `gtop` program.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use gtop::cli::Cli;

fn main() -> ExitCode {
    let cli = match Cli::try_parse().and_then(|cli| cli.check().map(|()| cli)) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come this way too, and go to standard output.
            drop(error.print());
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let code = gtop::app::run(&cli, &mut out, &mut err);
    drop(out.flush());
    code
}
