//! `gtop serve`: watches nodes, or opens a recording, and serves snapshots over HTTP.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tokio::sync::watch;

use crate::app::env::Env;
use crate::app::watch::{Start, start};
use crate::app::{AppError, ExitReason};
use crate::cli::ServeOptions;
use crate::serve::{AccessRules, ServedContent, Server, Tls, Token};
use crate::source::replay::Recordings;
use crate::storage::user_dirs;
use crate::time::Clock;
use crate::ui::StopSignals;

/// Serves until a signal ends gtop.
pub(super) fn run(
    mut env: Env,
    options: &ServeOptions,
    err: &mut impl Write,
) -> Result<ExitReason, AppError> {
    let (token_path, token) = if let Some(path) = &options.token_file {
        (path.clone(), Token::load(path)?)
    } else {
        let path = default_token().ok_or(AppError::NoTokenFile)?;
        let token = Token::load_or_make(&path)?;
        (path, token)
    };
    let tls = match (&options.tls_cert, &options.tls_key) {
        (Some(certificates), Some(key)) => {
            Some(Tls::load(certificates.clone(), key.clone(), env.clock.clone())?)
        }
        _ => None,
    };
    let access = AccessRules { token, allowed_hosts: options.allow_host.clone() };
    // Before there are threads that create files, and before nodes are asked for anything.
    let server = {
        let _runtime = env.runtime.enter();
        Server::bind(options.address(), options.socket.clone(), tls)?
    };
    if options.files.is_empty() {
        let session = match start(&mut env, err)? {
            Start::Watching(session) => session,
            Start::Stopped(reason) => return Ok(reason),
        };
        let content = ServedContent {
            fleet: session.monitor.fleet(),
            clock: env.clock.clone(),
            title: session.title.clone(),
            compat: options.compat(),
            has_processes: options.processes,
        };
        return Ok(serve(&env, server, content, access, &token_path, err)?);
    }
    let recordings = Recordings::open(options.files.iter().map(PathBuf::as_path))?;
    let Some(end) = recordings.end() else {
        let names: Vec<_> = options.files.iter().map(|path| path.display().to_string()).collect();
        return Err(AppError::NothingRecorded(names.join(", ")));
    };
    let fleet = recordings.fleet_at(end, env.settings.seconds("history"));
    let (_publisher, fleet) = watch::channel(fleet);
    let content = ServedContent {
        fleet,
        clock: Clock::fixed(end),
        title: recordings.title(),
        compat: options.compat(),
        has_processes: options.processes,
    };
    Ok(serve(&env, server, content, access, &token_path, err)?)
}

fn default_token() -> Option<PathBuf> {
    Some(user_dirs::state()?.join("gtop/serve-token"))
}

fn serve(
    env: &Env,
    server: Server,
    content: ServedContent,
    access: AccessRules,
    token: &Path,
    err: &mut impl Write,
) -> io::Result<ExitReason> {
    for address in server.addresses() {
        writeln!(err, "gtop: serving {address}")?;
    }
    writeln!(err, "gtop: the token is in {}", token.display())?;
    err.flush()?;
    let mut signals = StopSignals::new();
    env.runtime.block_on(async {
        tokio::select! {
            () = server.run(content, access) => Ok(ExitReason::Done),
            reason = signals.next() => Ok(reason.into()),
        }
    })
}
