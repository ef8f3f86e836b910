//! The `gtop` program.

use std::io::{self, Write};
use std::process::ExitCode;

use gtop::cli::{self, Cli};
use gtop::ssh;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|arg| arg == ssh::PARENT_GUARD) {
        let error = ssh::run_parent_guard(args);
        drop(writeln!(io::stderr(), "{error}"));
        return ExitCode::from(ssh::EXIT_NOT_STARTED);
    }
    let cli = match Cli::parse_args(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => {
            // `--help` and `--version` arrive as errors too, and go to standard output.
            match cli::error_text(&error) {
                Some(text) => drop(write!(io::stderr(), "{text}")),
                None => drop(error.print()),
            }
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let code = gtop::app::run(cli, &mut out, &mut err);
    drop(out.flush());
    code
}
