//! `gtop probe`: prints what gtop runs on a node, without connecting to it.

use std::io::{self, Write};

use serde_json::json;

use crate::app::env::Env;
use crate::app::targets::named_roster;
use crate::app::{AppError, ExitReason};
use crate::cli::{ProbeOptions, ScriptChoice, TransportChoice};
use crate::model::Privilege;
use crate::probe::{self, Interpreter, ProbeSettings, Script};
use crate::process::account::Account;

/// Stands for the random word of a session.
const NONCE: &str = "NONCE";
/// Stands for the name of a node if none is given.
const NODE: &str = "NODE";

/// Prints what is wanted of it.
pub(super) fn run(
    env: &Env,
    options: &ProbeOptions,
    out: &mut impl Write,
) -> Result<ExitReason, AppError> {
    let allows_signals = env.settings.is_on("allow-signals");
    if let Some(choice) = options.script {
        for part in script(choice).parts() {
            out.write_all(part)?;
        }
    } else if let Some(choice) = options.readable {
        out.write_all(script(choice).readable().as_bytes())?;
    } else if let Some(user) = &options.sudoers {
        let own = || env.settings.text("login").or_else(|| Account::own().name);
        let user = Some(user.clone()).filter(|user| !user.is_empty()).or_else(own);
        write_sudoers(out, &user.unwrap_or_else(|| "LOGIN".to_owned()), allows_signals)?;
    } else {
        let launch = Launch::of(env, options)?;
        if options.json || env.cli.output.print.json {
            serde_json::to_writer_pretty(&mut *out, &launch.json()).map_err(io::Error::from)?;
            writeln!(out)?;
        } else {
            launch.write_text(out)?;
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

/// What starts a probe on a node.
struct Launch {
    node: String,
    transport: TransportChoice,
    privilege: Privilege,
    /// What the transport is given.
    line: String,
    /// The line of data after the script.
    settings: String,
}

impl Launch {
    fn of(env: &Env, options: &ProbeOptions) -> Result<Self, AppError> {
        let host = options.host.as_deref().unwrap_or(NODE).to_owned();
        let targets = named_roster(env, &[host])?.targets;
        let target = targets.first().ok_or(AppError::NoHost)?;
        let node = target.name.as_str().to_owned();
        let transport = env.cli.connection.transport_kind();
        let privilege = env.transport.privilege(target);
        let interval = env.settings.seconds("interval");
        let settings = ProbeSettings { interval, ..ProbeSettings::new(&node, NONCE) };
        let source = probe::source(Interpreter::Python, &settings);
        let settings = source.parts().last().map(|data| String::from_utf8_lossy(data).into_owned());
        let line = match (transport, privilege) {
            (TransportChoice::Srun, _) => probe::shared_probe(NONCE, interval, None).script,
            (_, Privilege::Login) => probe::launch_line(NONCE, Script::Python.size()),
            (_, Privilege::Root { allows_signals }) => {
                probe::root_launch_line(NONCE, allows_signals)
            }
        };
        let settings = settings.unwrap_or_default().trim_end().to_owned();
        Ok(Self { node, transport, privilege, line, settings })
    }

    /// Says what the line is given to.
    const fn carrier(&self) -> &'static str {
        match self.transport {
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

    const fn privilege_text(&self) -> &'static str {
        match self.privilege {
            Privilege::Login => "the user who logs in",
            Privilege::Root { allows_signals: false } => "root by sudo, reading only",
            Privilege::Root { allows_signals: true } => "root by sudo, and may send signals",
        }
    }

    /// Returns the scripts that may follow the line.
    const fn scripts(&self) -> &'static [Script] {
        match self.privilege {
            Privilege::Login => &Script::ALL,
            Privilege::Root { .. } => &[Script::Python],
        }
    }

    fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { node, line, settings, .. } = self;
        let version = env!("CARGO_PKG_VERSION");
        writeln!(out, "What gtop {version} runs on {node}, as {}", self.privilege_text())?;
        writeln!(out, "\n1. A line, {} bytes, for {}.", line.len(), self.carrier())?;
        writeln!(out, "   {NONCE} stands for 32 random digits of each session.\n\n{line}")?;
        writeln!(
            out,
            "\n2. One script, once the line has found what runs it. Each is the same for every node of this"
        )?;
        writeln!(
            out,
            "   version. In Python it is sent compressed: gtop probe --script writes what is sent, and"
        )?;
        writeln!(out, "   gtop probe --readable the same as text.\n")?;
        for script in self.scripts() {
            let readable = script.readable();
            let about = about(*script);
            writeln!(out, "   {:<7} {about}", script.name())?;
            writeln!(out, "     sent  {:>7} bytes  sha256 {}", script.size(), script.sha256())?;
            let hash = probe::hex_sha256(&[readable.as_bytes()]);
            writeln!(out, "     text  {:>7} bytes  sha256 {hash}", readable.len())?;
        }
        writeln!(
            out,
            "\n3. A line of data: node, seconds between samples, seconds until it ends without a sign of"
        )?;
        writeln!(
            out,
            "   gtop, longest piece of a frame (0: whole), why sudo refused.\n\n{settings}"
        )
    }

    fn json(&self) -> serde_json::Value {
        let part = |script: &Script| {
            let readable = script.readable();
            json!({
                "name": script.name(),
                "bytes": script.size(),
                "sha256": script.sha256(),
                "readable_bytes": readable.len(),
                "readable_sha256": probe::hex_sha256(&[readable.as_bytes()]),
            })
        };
        let scripts: Vec<_> = self.scripts().iter().map(part).collect();
        let (is_root, allows_signals) = match self.privilege {
            Privilege::Login => (false, false),
            Privilege::Root { allows_signals } => (true, allows_signals),
        };
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "node": self.node,
            "carrier": self.carrier(),
            "root": is_root,
            "allow_signals": allows_signals,
            "line": self.line,
            "line_bytes": self.line.len(),
            "scripts": scripts,
            "settings": self.settings,
        })
    }
}

const fn about(script: Script) -> &'static str {
    match script {
        Script::Python => "the probe, with Python 3.6 or newer",
        Script::Shell => "the probe, where there is no such Python",
        Script::Runs => "the script of gtop runs",
    }
}
