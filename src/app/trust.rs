//! `gtop trust`: shows the keys of unknown hosts and stores them after one confirmation; then those behind gateways.

use std::io::{BufRead, Write};

use crate::app::env::Env;
use crate::app::host_keys::{HostKeyScan, HostKeys};
use crate::app::{AppError, CommandError, ExitReason, targets};
use gtop_local::text::counted;
use gtop_model::{AcceptedKey, HostKeyAnswer, UnknownHost};

/// No host was named.
#[derive(Debug, thiserror::Error)]
#[error("no host given; use gtop trust HOST")]
struct NoHost;

impl CommandError for NoHost {
    fn exit_code(&self) -> u8 {
        2
    }
}

/// Runs `gtop trust`: shows the keys of the nodes that are not known, and stores them after a confirmation. If a gateway
/// is not known, its keys come first.
pub(super) fn run(
    env: &Env,
    hosts: &[String],
    input: &mut impl BufRead,
    out: &mut impl Write,
) -> Result<ExitReason, AppError> {
    let targets = targets::named_roster(env, hosts)?.targets;
    if targets.is_empty() {
        return Err(NoHost.into());
    }
    let keys = HostKeys::new(env);
    let mut scan = env.runtime.block_on(keys.scan(targets));
    let mut reason = ExitReason::Done;
    loop {
        show(&scan, out)?;
        if !scan.refused.is_empty() {
            reason = ExitReason::Failed;
        }
        if scan.unknown.is_empty() {
            return Ok(reason);
        }
        let accepted = ask(&scan, input, out)?;
        if accepted.len() < scan.unknown.len() {
            reason = ExitReason::Failed;
        }
        if accepted.is_empty() {
            writeln!(out, "not stored")?;
            return Ok(reason);
        }
        let (_, behind) = env.runtime.block_on(keys.accept(&scan, &accepted))?;
        writeln!(out, "stored {}", counted(accepted.len(), "key"))?;
        scan = behind;
    }
}

/// Shows what is known of the nodes, and the keys of the hosts to ask about.
fn show(scan: &HostKeyScan, out: &mut impl Write) -> Result<(), AppError> {
    for (node, why) in &scan.known {
        writeln!(out, "{node}: {why}")?;
    }
    for (node, why, advice) in &scan.refused {
        writeln!(out, "{node}: {why}")?;
        for line in advice.text().lines() {
            writeln!(out, "  > {line}")?;
        }
    }
    for host in &scan.unknown {
        let UnknownHost { name, place, keys, .. } = host;
        writeln!(out, "{name} ({place}{}):", host.others_text())?;
        for key in keys {
            writeln!(out, "  {} {}", key.algorithm, key.fingerprint)?;
        }
    }
    Ok(())
}

/// Asks whether the hosts are those; returns the accepted keys.
fn ask(
    scan: &HostKeyScan,
    input: &mut impl BufRead,
    out: &mut impl Write,
) -> Result<Vec<AcceptedKey>, AppError> {
    let which = match scan.unknown.len() {
        1 => "this key".to_owned(),
        count => format!("the first key of each of these {count} hosts"),
    };
    writeln!(
        out,
        "Compare with the fingerprints that the administrator published: a host with a false key can read what you send."
    )?;
    write!(out, "Trust {which}? [y/N or fingerprints] ")?;
    out.flush()?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    let answer = match answer.trim() {
        "y" | "Y" => HostKeyAnswer::Yes,
        text => HostKeyAnswer::parse(text),
    };
    Ok(scan.question().accepted(&answer))
}
