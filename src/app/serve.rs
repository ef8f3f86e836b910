//! `gtop serve`: watches nodes, or opens a recording, and serves snapshots over HTTP.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tokio::sync::{mpsc, watch};

use crate::app::env::Env;
use crate::app::replay::print_losses;
use crate::app::times::SpanError;
use crate::app::utilization_log::print_notices;
use crate::app::watch::start;
use crate::app::{AppError, CommandError, ExitReason, settings_controller, variable};
use crate::cli::ServeOptions;
use crate::serve::{
    AccessRules, ServeError, ServedContent, Server, Tls, TlsError, Token, TokenError,
};
use crate::setting_table::IntervalSettings;
use gtop_collect::source::replay::Recordings;
use gtop_fleet::{Fleet, FleetReader, advice};
use gtop_local::storage::user_dirs;
use gtop_local::time::{Clock, local_text};
use gtop_ui::StopSignals;

/// There is no home directory for the token.
#[derive(Debug, thiserror::Error)]
#[error("HOME is not set: name a file for the token with --token-file")]
struct NoTokenFile;

impl CommandError for NoTokenFile {}
impl CommandError for ServeError {}
impl CommandError for TlsError {}
impl CommandError for TokenError {}

/// Serves until a signal ends gtop.
pub(super) fn run(
    mut env: Env,
    options: &ServeOptions,
    err: &mut impl Write,
) -> Result<ExitReason, AppError> {
    let (token_path, token) = if let Some(path) = &options.token_file {
        (path.clone(), Token::load(path)?)
    } else {
        let path = default_token().ok_or(NoTokenFile)?;
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
    let session;
    let (publisher, recorded) = watch::channel(Fleet::default());
    let (fleet, clock, title) = if options.files.is_empty() {
        session = start(&mut env, err)?;
        (session.monitor.fleet(), env.clock.clone(), session.title.clone())
    } else {
        let recordings = Recordings::open(options.files.iter().map(PathBuf::as_path))?;
        let end = recordings.end().ok_or_else(|| SpanError::nothing_in(&options.files))?;
        let (picture, missing) =
            recordings.picture_at(end, env.settings.read::<IntervalSettings>().history);
        print_losses(&recordings, &missing, err)?;
        writeln!(err, "gtop: a recording: everything is as it was at {}", local_text(end))?;
        publisher.send_replace(picture);
        (recorded, Clock::fixed(end), recordings.title())
    };
    let content = ServedContent {
        fleet,
        clock,
        title,
        compat: options.compat(),
        metrics: options.metrics.clone(),
        has_processes: options.processes,
        selection: display.selection,
        filter: options.filter.clone(),
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

/// Reports when the scheduler stops answering, and when it answers again; never ends.
async fn report_scheduler(mut fleet: FleetReader, notices: &mpsc::Sender<String>) {
    let mut known = None;
    loop {
        let jobs = fleet.borrow_and_update().jobs.clone();
        let error = jobs.as_ref().and_then(|list| Some((list, list.error.as_ref()?)));
        let text =
            error.map(|(list, error)| advice::scheduler::explained(&list.scheduler.words, error));
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
