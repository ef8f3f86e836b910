//! `gtop runs`: watches training runs and the nodes they are on, on the screen or without one.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use crate::app::configuration::node_groups;
use crate::app::env::Env;
use crate::app::output_mode::OutputMode;
use crate::app::run_server::{RunServer, RunsOnScreen};
use crate::app::runs::csv_files::CsvWriter;
use crate::app::settings_controller::theme;
use crate::app::tmux_windows::TmuxWindows;
use crate::app::utilization_log::print_notices;
use crate::app::watch::{WatchSession, start};
use crate::app::{AppError, CommandError, ExitReason, recording, screen, variable};
use crate::cli::{RunPlace, RunsOptions};
use crate::setting_table::{IntervalSettings, OutputSettings};
use gtop_collect::inventory::Roster;
use gtop_collect::runs::{HostProcesses, RunSource, RunsClient, RunsMonitor};
use gtop_collect::transport::{Reach, Target};
use gtop_fleet::FleetReader;
use gtop_fleet::insight::runs::{Runs, processes_to_watch};
use gtop_fleet::settings::Layer;
use gtop_local::time::{Clock, Timestamp};
use gtop_model::nodeset::{self, Groups};
use gtop_model::{NodeName, RunId, RunList};
use gtop_ui::{RunFeed, ScreenSettings};

mod csv_files;
mod headless;

/// ttop's interval.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(2);
/// Minimum time between two looks at which processes are watched.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);
/// Capacity of the queue of replies to the screen.
const REPLY_QUEUE_SIZE: usize = 64;

/// The host of a folder is not among the nodes.
#[derive(Debug, thiserror::Error)]
#[error("{folder}: {host} is not watched; name the host, or do not exclude it")]
struct UnwatchedHost {
    folder: String,
    host: String,
}

impl CommandError for UnwatchedHost {
    fn exit_code(&self) -> u8 {
        2
    }
}

/// Watches runs until the user quits or a signal ends it.
pub(super) fn run(
    mut env: Env,
    options: &RunsOptions,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<ExitReason, AppError> {
    if let OutputMode::Once(Some(reason)) = env.output_mode {
        writeln!(err, "gtop: {reason}")?;
    }
    let WatchSession { monitor, title, recorder, prompter, .. } = *start(&mut env, err)?;
    let given = env.settings.read::<IntervalSettings>().interval;
    let interval = if given.layer == Layer::Default { DEFAULT_INTERVAL } else { given.value };
    let groups = node_groups(&env.settings);
    let sources = sources(options, &groups, &monitor.rosters().borrow())?;
    let windows = options.tmux.then(|| {
        TmuxWindows::new(env.transport.clone(), monitor.rosters(), variable("TMUX").as_deref())
    });
    let windows = windows.transpose()?;
    let (transport, clock) = (env.transport.clone(), env.clock.clone());
    let mut runs = RunsMonitor::start(transport, clock, sources, interval, options.limits())?;
    let growth = runs.take_growth();
    let (unfolded, unfolded_changes) = watch::channel(Vec::new());
    let client = runs.client();
    let client =
        if env.settings.read::<ScreenSettings>().readonly { client.readonly() } else { client };
    let watching = watch_processes(
        runs.list(),
        monitor.fleet(),
        monitor.rosters(),
        client.clone(),
        unfolded_changes,
    );
    let csv_interval = options.csv.csv_interval.map_or(interval, Duration::from_secs_f64);
    let (notice_sender, mut notices) = mpsc::channel(1);
    let view = RunsReader { list: runs.list(), fleet: monitor.fleet(), clock: env.clock.clone() };
    let csv = options.csv.target().map(|(folder, format)| {
        CsvWriter::start(folder, format, view.clone(), csv_interval, notice_sender)
    });
    let csv = csv.transpose()?;
    let title = run_title(options, &title);
    let reason = env.runtime.block_on(async {
        let showing = async {
            match env.output_mode {
                OutputMode::Screen => {
                    let (replies, reply_receiver) = mpsc::channel(REPLY_QUEUE_SIZE);
                    let (_none, no_growth) = mpsc::channel(1);
                    let feed = RunFeed {
                        list: runs.list(),
                        replies: reply_receiver,
                        growth: growth.unwrap_or(no_growth),
                        opens_windows: windows.is_some(),
                    };
                    let (fleet, clock) = (monitor.fleet(), env.clock.clone());
                    let server = RunServer { client, replies, unfolded, fleet, clock, windows };
                    let on_screen = RunsOnScreen { feed, server };
                    let screen = screen::run(
                        &env,
                        &monitor,
                        &recorder,
                        title,
                        prompter,
                        Some(on_screen),
                        &mut notices,
                    );
                    Box::pin(screen).await
                }
                OutputMode::Once(_) | OutputMode::Continuous | OutputMode::Record => {
                    let is_once = matches!(env.output_mode, OutputMode::Once(_));
                    let deadline = env.settings.read::<OutputSettings>().deadline;
                    let printing = async {
                        if is_once {
                            let theme = theme(&env.settings, variable);
                            headless::print_once(&view, deadline, theme, out).await
                        } else {
                            headless::print_progress(&view, interval, out).await
                        }
                    };
                    tokio::select! {
                        reason = printing => reason,
                        reason = print_notices(&mut notices, err) => reason,
                    }
                }
            }
        };
        tokio::select! {
            reason = showing => reason,
            reason = watching => reason,
        }
    });
    if let Some(error) = csv.and_then(CsvWriter::finish) {
        writeln!(err, "gtop: {error}")?;
    }
    drop(runs);
    drop(monitor);
    recording::finish(recorder, env.output_mode, err)?;
    Ok(reason?)
}

/// Returns what is watched as text.
fn run_title(options: &RunsOptions, nodes: &str) -> String {
    let places = options.folders().into_iter().chain(options.logs());
    let names: Vec<String> = places.map(|place| place.text).collect();
    format!("runs of {} on {nodes}", names.join(", "))
}

/// Returns the scripts to start: one per folder and host, and one per host of logs.
fn sources(
    options: &RunsOptions,
    groups: &Groups,
    roster: &Roster,
) -> Result<Vec<RunSource>, UnwatchedHost> {
    let mut sources: Vec<RunSource> = Vec::new();
    for place in options.folders() {
        let targets = targets_of(&place, groups, roster)?;
        let is_one = targets.len() == 1;
        for target in targets {
            let label =
                if is_one { place.text.clone() } else { format!("{}:{}", target.name, place.path) };
            let folder = Some(place.path.clone());
            sources.push(RunSource { label: label.into(), target, folder, logs: Vec::new() });
        }
    }
    let mut logs: BTreeMap<String, RunSource> = BTreeMap::new();
    for place in options.logs() {
        for target in targets_of(&place, groups, roster)? {
            let name = target.name.to_string();
            let label =
                place.host.as_ref().map_or("logs".to_owned(), |_| format!("logs on {name}"));
            let empty = RunSource { label: label.into(), target, folder: None, logs: Vec::new() };
            logs.entry(name).or_insert(empty).logs.push(place.path.clone());
        }
    }
    sources.extend(logs.into_values());
    Ok(sources)
}

/// Returns the targets of a folder: this machine, or the nodes of a node set.
fn targets_of(
    place: &RunPlace,
    groups: &Groups,
    roster: &Roster,
) -> Result<Vec<Target>, UnwatchedHost> {
    let Some(hosts) = &place.host else {
        let local = roster.targets.iter().find(|target| target.reach == Reach::Local);
        return Ok(local.into_iter().cloned().collect());
    };
    // A host that is no node set has been refused before.
    let names = nodeset::expand_with(hosts, groups).unwrap_or_default();
    let targets = names.into_iter().map(|host| {
        let found = roster.targets.iter().find(|target| is_named(&target.name, &host)).cloned();
        found.ok_or_else(|| UnwatchedHost { folder: place.text.clone(), host })
    });
    targets.collect()
}

/// Returns true if a node has this name, without the user who logs in if need be.
fn is_named(node: &NodeName, name: &str) -> bool {
    node.as_str() == name || node.label() == name || bare(node.as_str()) == bare(name)
}

/// Returns a host without the user who logs in.
fn bare(name: &str) -> &str {
    name.rsplit_once('@').map_or(name, |(_, host)| host)
}

/// Asks for the processes of runs on the hosts that are watched, whenever runs or nodes change.
async fn watch_processes(
    mut list: watch::Receiver<Arc<RunList>>,
    fleet: FleetReader,
    rosters: watch::Receiver<Arc<Roster>>,
    client: RunsClient,
    mut unfolded: watch::Receiver<Vec<RunId>>,
) -> io::Result<ExitReason> {
    loop {
        {
            let list = Arc::clone(&list.borrow_and_update());
            let unfolded = unfolded.borrow_and_update().clone();
            let fleet = fleet.borrow().clone();
            let roster = Arc::clone(&rosters.borrow());
            let expanded: Vec<u32> = list
                .runs
                .iter()
                .filter(|run| unfolded.contains(&run.id))
                .filter_map(|run| run.progress.as_ref()?.pid)
                .collect();
            let wanted =
                processes_to_watch(&list, &fleet).into_iter().filter_map(|(node, pids)| {
                    let mut targets = roster.targets.iter();
                    let target = targets.find(|target| target.name == node)?.clone();
                    let expanded =
                        pids.iter().copied().filter(|pid| expanded.contains(pid)).collect();
                    Some((node, HostProcesses { target, pids, expanded }))
                });
            client.watch_processes(wanted.collect());
        }
        sleep(WATCH_INTERVAL).await;
        let changed = async {
            tokio::select! {
                changed = list.changed() => changed,
                changed = unfolded.changed() => changed,
            }
        };
        if changed.await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Reads runs joined with the fleet.
#[derive(Clone)]
pub(super) struct RunsReader {
    list: watch::Receiver<Arc<RunList>>,
    fleet: FleetReader,
    clock: Clock,
}

impl RunsReader {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the runs at this moment.
    fn read(&self) -> Runs {
        let list = Arc::clone(&self.list.borrow());
        Runs::new(list, &self.fleet.borrow().clone(), self.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_ssh::{Profile, SshTarget};

    fn roster() -> Roster {
        let target = |name: &str, reach| Target { name: NodeName::new(name).unwrap(), reach };
        let ssh = |host: &str| {
            Reach::Ssh(SshTarget {
                host: host.to_owned(),
                user: None,
                port: None,
                profile: Profile::System,
            })
        };
        let targets = vec![
            target("login1", Reach::Local),
            target("gpu01", ssh("gpu01")),
            target("ada@gpu02", ssh("gpu02")),
        ];
        let mut roster = Roster::default();
        roster.targets = targets;
        roster
    }

    fn found(host: Option<&str>) -> Result<Vec<String>, String> {
        let place = RunPlace {
            text: "word".to_owned(),
            host: host.map(str::to_owned),
            path: "runs".to_owned(),
        };
        let targets = targets_of(&place, &Groups::default(), &roster());
        let names = |all: Vec<Target>| all.iter().map(|one| one.name.to_string()).collect();
        targets.map(names).map_err(|error| error.to_string())
    }

    #[test]
    fn a_folder_is_read_on_the_hosts_that_it_names() {
        let names = |all: &[&str]| Ok(all.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(found(None), names(&["login1"]));
        assert_eq!(found(Some("gpu01")), names(&["gpu01"]));
        assert_eq!(found(Some("gpu[01-02]")), names(&["gpu01", "ada@gpu02"]));
        assert_eq!(found(Some("bob@gpu02")), names(&["ada@gpu02"]));
        let error = found(Some("gpu[01,03]")).unwrap_err();
        assert!(error.contains("gpu03 is not watched"), "{error}");
    }
}
