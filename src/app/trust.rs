//! `gtop trust`: shows the host keys of unknown nodes and stores them after one confirmation.

use std::io::{self, BufRead, Write};

use crate::advice::{self, Known};
use crate::app::env::Env;
use crate::app::{AppError, ExitReason, targets};
use crate::ssh::{Fault, HostKeyStatus, KnownHostEntry, OfferedKey, write_known_hosts};
use crate::transport::Target;

/// The result of fetching a node's host key.
type KeyScan = (Target, Result<OfferedKey, Fault>);

/// Runs `gtop trust`: fetches the host key of each node, shows the new ones, and stores them after a
/// confirmation.
pub(super) fn run(
    env: &Env,
    hosts: &[String],
    input: &mut impl BufRead,
    out: &mut impl Write,
) -> Result<ExitReason, AppError> {
    let targets = targets::named_roster(env, hosts)?.targets;
    if targets.is_empty() {
        return Err(AppError::NoHost);
    }
    let scans = env.runtime.block_on(scan_keys(env, targets));
    let mut new_keys = Vec::new();
    let mut failed = false;
    for (target, result) in scans {
        let name = &target.name;
        match result {
            Err(fault) | Ok(OfferedKey { refusal: Some(fault), .. }) => {
                failed = true;
                writeln!(out, "{name}: {fault}")?;
                // What is reached without SSH has no host key.
                if env.transport.uses_ssh_config(&target) {
                    let advice = advice::of_untrusted(&fault, &Known::of_destination(name.host()));
                    for line in advice.text().lines() {
                        writeln!(out, "  > {line}")?;
                    }
                }
            }
            Ok(key) => match &key.status {
                HostKeyStatus::Known => writeln!(out, "{name}: already known")?,
                HostKeyStatus::Certified { at } => {
                    writeln!(out, "{name}: already known by the certificate authority in {at}")?;
                }
                HostKeyStatus::Exempt => {
                    writeln!(out, "{name}: not checked, by NoHostAuthenticationForLocalhost")?;
                }
                HostKeyStatus::Unknown
                | HostKeyStatus::Changed { .. }
                | HostKeyStatus::Revoked { .. } => {
                    let OfferedKey { algorithm, fingerprint, certificate_problem: flaw, .. } = &key;
                    let flaw = flaw.as_ref().map(|flaw| format!(" (its certificate {flaw})"));
                    let flaw = flaw.unwrap_or_default();
                    writeln!(out, "{name}: {algorithm} {fingerprint}{flaw}")?;
                    new_keys.push(key.entry);
                }
            },
        }
    }
    let reason = if failed { ExitReason::Failed } else { ExitReason::Done };
    if new_keys.is_empty() {
        return Ok(reason);
    }
    let is_stored = confirm_and_store(&new_keys, input, out)?;
    Ok(if is_stored { reason } else { ExitReason::Failed })
}

/// Stores keys after a confirmation. Returns true if they were stored.
fn confirm_and_store(
    new_keys: &[KnownHostEntry],
    input: &mut impl BufRead,
    out: &mut impl Write,
) -> io::Result<bool> {
    let keys = if new_keys.len() == 1 {
        "this key".to_owned()
    } else {
        format!("these {} keys", new_keys.len())
    };
    writeln!(
        out,
        "Compare with the fingerprints that the administrator published: a host with a false key can read what you send."
    )?;
    write!(out, "Trust {keys}? [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    if !matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        writeln!(out, "not stored")?;
        return Ok(false);
    }
    write_known_hosts(new_keys)?;
    writeln!(out, "stored {keys}")?;
    Ok(true)
}

async fn scan_keys(env: &Env, targets: Vec<Target>) -> Vec<KeyScan> {
    let max_connecting = env.cli.connection.max_connecting;
    let scanning = targets::spawn_for_each(targets, max_connecting, |target| {
        let transport = env.transport.clone();
        async move {
            let result = transport.fetch_host_key(&target).await;
            (target, result)
        }
    });
    let mut scans = scanning.join_all().await;
    scans.sort_by_key(|(index, _)| *index);
    scans.into_iter().map(|(_, scan)| scan).collect()
}
