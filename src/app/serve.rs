//! `gtop serve`: watches nodes, or opens a recording, and serves snapshots over HTTP.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::app::env::Env;
use crate::app::replay::tell_losses;
use crate::app::times::local_time;
use crate::app::utilization_log::print_notices;
use crate::app::watch::{Start, start};
use crate::app::{AppError, ExitReason, settings_controller, variable};
use crate::cli::ServeOptions;
use crate::serve::{AccessRules, ServedContent, Server, Tls, Token};
use crate::setting_table::IntervalSettings;
use gtop_collect::source::replay::Recordings;
use gtop_fleet::FleetReader;
use gtop_fleet::advice;
use gtop_local::storage::user_dirs;
use gtop_local::time::Clock;
use gtop_model::JobList;
use gtop_ui::StopSignals;

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
    // Before there are threads that create files, and before nodes are asked for anything.
    let server = {
        let _runtime = env.runtime.enter();
        Server::bind(options.address(), options.socket.clone(), tls)?
    };
    env.other_files = server.max_files();
    let access = AccessRules { token, allowed_hosts: options.allow_host.clone() };
    let display = settings_controller::display_options(&env.settings, variable);
    let content = |fleet: FleetReader, clock: Clock, title: String| ServedContent {
        fleet,
        clock,
        title,
        compat: options.compat(),
        metrics: options.metrics.clone(),
        has_processes: options.processes,
        selection: display.selection.clone(),
    };
    if options.files.is_empty() {
        let session = match start(&mut env, err)? {
            Start::Watching(session) => session,
            Start::Stopped(reason) => return Ok(reason),
        };
        let content = content(session.monitor.fleet(), env.clock.clone(), session.title.clone());
        return Ok(serve(&env, server, content, access, &token_path, err)?);
    }
    let recordings = Recordings::open(options.files.iter().map(PathBuf::as_path))?;
    let Some(end) = recordings.end() else {
        let names: Vec<_> = options.files.iter().map(|path| path.display().to_string()).collect();
        return Err(AppError::NothingRecorded(names.join(", ")));
    };
    let (fleet, missing) =
        recordings.picture_at(end, env.settings.read::<IntervalSettings>().history);
    tell_losses(&recordings, &missing, err)?;
    let (_publisher, fleet) = watch::channel(fleet);
    writeln!(err, "gtop: a recording: everything is as it was at {}", local_time(end))?;
    let content = content(fleet, Clock::fixed(end), recordings.title());
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
    if server.has_port() {
        writeln!(err, "gtop: the token is in {}", token.display())?;
    }
    err.flush()?;
    let mut signals = StopSignals::new();
    let (notice_sender, mut notices) = mpsc::channel(1);
    let fleet = content.fleet.clone();
    env.runtime.block_on(async {
        tokio::select! {
            () = server.run(content, access, notice_sender.clone()) => Ok(ExitReason::Done),
            () = report_scheduler(fleet, &notice_sender) => Ok(ExitReason::Done),
            reason = print_notices(&mut notices, err) => Ok(reason),
            reason = signals.next() => Ok(reason.into()),
        }
    })
}

/// Says when the scheduler does not answer, and when it does again; never ends.
async fn report_scheduler(mut fleet: FleetReader, notices: &mpsc::Sender<String>) {
    let mut known = None;
    loop {
        let jobs = fleet.borrow_and_update().jobs.clone();
        let explained = |list: &Arc<JobList>| {
            let error = list.error.as_ref()?;
            Some(advice::scheduler::explained(&list.scheduler.words, error))
        };
        let text = jobs.as_ref().and_then(explained);
        if text != known {
            let notice = text.clone().unwrap_or_else(|| "the scheduler answers again".to_owned());
            // Fails if the program ends.
            notices.send(notice).await.ok();
            known = text;
        }
        if fleet.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
