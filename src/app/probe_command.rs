//! `gtop probe`: prints what gtop runs on a node, without connecting to it.

use std::io::{self, Write};

use crate::app::env::Env;
use crate::app::targets::{TargetError, named_roster};
use crate::app::{AppError, ExitReason};
use crate::cli::{ProbeOptions, ScriptChoice};
use crate::setting_table::{IntervalSettings, NodeSettings, TransportChoice};
use gtop_collect::inventory::InventoryError;
use gtop_collect::probe::{self, Interpreter, Listing, NONCE, ProbeSettings, Script};
use gtop_collect::transport::Reach;
use gtop_local::process::account::Account;
use gtop_model::Privilege;

/// Stands for the name of a node if none is given.
const NODE: &str = "NODE";

/// Prints what is wanted of it.
pub(super) fn run(
    env: &Env,
    options: &ProbeOptions,
    out: &mut impl Write,
) -> Result<ExitReason, AppError> {
    let allows_signals = env.settings.read::<NodeSettings>().allow_signals;
    if let Some(choice) = options.script {
        for part in script(choice).parts() {
            out.write_all(part)?;
        }
    } else if let Some(choice) = options.readable {
        out.write_all(script(choice).readable().as_bytes())?;
    } else if let Some(user) = &options.sudoers {
        let of_host = options.host.as_deref().and_then(|host| host.rsplit_once('@'));
        let user = Some(user.clone())
            .filter(|user| !user.is_empty())
            .or_else(|| Some(of_host?.0.trim_start_matches("ssh://").to_owned()))
            .or_else(|| env.settings.read::<NodeSettings>().login)
            .or_else(|| Account::own().name)
            .unwrap_or_else(|| "LOGIN".to_owned());
        write_sudoers(out, &user, allows_signals)?;
    } else {
        let listing = listing(env, options)?;
        if options.json || env.cli.output.print.json {
            out.write_all(listing.json().as_bytes())?;
        } else {
            listing.write_text(out)?;
        }
    }
    out.flush()?;
    Ok(ExitReason::Done)
}

const fn script(choice: ScriptChoice) -> Script {
    match choice {
        ScriptChoice::Python => Script::Python,
        ScriptChoice::Shell => Script::Shell,
        ScriptChoice::Runs => Script::Runs,
    }
}

fn write_sudoers(out: &mut impl Write, user: &str, allows_signals: bool) -> io::Result<()> {
    let may = if allows_signals { "it may send signals" } else { "it reads only" };
    writeln!(
        out,
        "# gtop {}: {user} may run the probe as root; {may}. Check: visudo -cf FILE",
        env!("CARGO_PKG_VERSION")
    )?;
    out.write_all(probe::sudoers(user, allows_signals).as_bytes())
}

/// Returns what starts a probe on the node.
fn listing(env: &Env, options: &ProbeOptions) -> Result<Listing, AppError> {
    let host = options.host.as_deref().unwrap_or(NODE).to_owned();
    let targets = named_roster(env, &[host])?.targets;
    let target = targets.first().ok_or(InventoryError::NoNodesLeft)?;
    if let Reach::Page(url) = &target.reach {
        return Err(TargetError::OnlyPage(url.to_string()).into());
    }
    let node = target.name.as_str().to_owned();
    let transport = env.cli.connection.transport_kind();
    let privilege = env.transport.privilege(target);
    let interval = env.settings.read::<IntervalSettings>().interval.value;
    let settings = ProbeSettings { interval, ..ProbeSettings::new(&node, NONCE) };
    let source = probe::source(Interpreter::Python, &settings);
    let settings = source.parts().last().map(|data| String::from_utf8_lossy(data).into_owned());
    let line = match (transport, privilege) {
        (TransportChoice::Srun, _) => probe::shared_probe(NONCE, interval, None).script,
        (_, Privilege::Login) => probe::launch_line(NONCE, Script::Python.size()),
        (_, Privilege::Root { allows_signals }) => probe::root_launch_line(NONCE, allows_signals),
    };
    let settings = settings.unwrap_or_default().trim_end().to_owned();
    Ok(Listing { node, carrier: carrier(transport), privilege, line, settings })
}

/// Returns what runs the line.
const fn carrier(transport: TransportChoice) -> &'static str {
    match transport {
        TransportChoice::Auto | TransportChoice::Native => {
            "the login shell of the node, by SSH (exec request)"
        }
        TransportChoice::Ssh => "the login shell of the node, by the ssh program",
        TransportChoice::Local => "/bin/sh -c, on this machine",
        TransportChoice::Exec => {
            "the command of --exec, as {command} or as the first line of its input"
        }
        TransportChoice::Srun => "/bin/sh -c in each task of srun, in a job of yours",
    }
}
