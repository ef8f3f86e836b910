//! Runs a command on a host, as `ssh HOST COMMAND…` does, and exits with its status.
//!
//!     cargo run -p gtop-ssh --example run -- HOST COMMAND…
//!
//! The command gets no input. A host that cannot be reached is explained on stderr, with exit status 255 as of `ssh`.

use std::error::Error;
use std::io::{Write, stderr, stdout};
use std::process::ExitCode;

use gtop_ssh::{Client, ClientOptions, Exit, Output, RemoteCommand, SshTarget};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let host = args.next().unwrap_or_default();
    let command = args.collect::<Vec<_>>().join(" ");
    let result = if command.is_empty() {
        Err("usage: run [USER@]HOST COMMAND…".into())
    } else {
        run(&host, &command).await.map_err(|error| format!("{host}: {error}"))
    };
    result.unwrap_or_else(|error| {
        // Nobody may read stderr any more.
        writeln!(stderr(), "{error}").ok();
        ExitCode::from(255)
    })
}

/// Copies the output of a command, and returns the exit status.
async fn run(host: &str, command: &str) -> Result<ExitCode, Box<dyn Error>> {
    let target: SshTarget = host.parse()?;
    let client = Client::new(ClientOptions::of_this_process());
    let channel = client.start(&target, RemoteCommand::plain(command)).await?;
    channel.close_stdin().await?;
    let mut exit = None;
    loop {
        match channel.next().await {
            Ok(Output::Stdout(bytes)) => stdout().write_all(&bytes)?,
            Ok(Output::Stderr(bytes)) => stderr().write_all(&bytes)?,
            // Output may follow.
            Ok(Output::Exit(how)) => exit = Some(how),
            Err(Some(fault)) => return Err(fault.into()),
            Err(None) => break,
        }
    }
    stdout().flush()?;
    match exit {
        Some(Exit::Status(status)) => Ok(ExitCode::from(u8::try_from(status).unwrap_or(255))),
        Some(Exit::Signal(name)) => Err(format!("the command was killed by signal {name}").into()),
        None => Err("the connection was closed".into()),
    }
}
