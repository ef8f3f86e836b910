//! Time to resolve the SSH configuration of 1,000 hosts, compared with `ssh -G`.
//!
//! `cargo bench --bench ssh_config`. One configuration has a block per host; the other has a few
//! patterns, an `Include` and a `Match final`, as a site might.
#![expect(clippy::unwrap_used, reason = "a failed measurement aborts the bench")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use gtop_collect::transport::{Options, Reach, Target, Transport};
use gtop_model::NodeName;
use gtop_ssh::{Profile, SshTarget};
use tokio::process::Command;
use tokio::time::Instant;

const HOSTS: u32 = 1000;
/// Number of hosts for which `ssh -G` is run.
const SSH_HOSTS: u32 = 100;
const ROUNDS: usize = 7;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let mut block_per_host = String::new();
    for host in 0..HOSTS {
        writeln!(
            block_per_host,
            "Host n{host:04}\n  HostName n{host:04}.site\n  Port {}\n  User ada",
            2000 + host
        )
        .unwrap();
    }
    let site = "Include more.conf\nHost n* !n0000\n  User ada\n  ProxyJump gate\n\
                Match final all\n  Ciphers aes256-gcm@openssh.com,aes128-ctr\n";
    let mut out = std::io::stdout().lock();
    for (name, text) in [("a block per host", block_per_host.as_str()), ("a few patterns", site)] {
        let file = folder.path().join("config");
        std::fs::write(&file, text).unwrap();
        let mut ours = Vec::new();
        for _ in 0..ROUNDS {
            ours.push(measure_gtop(folder.path(), &file).await);
        }
        ours.sort_by(f64::total_cmp);
        let theirs = measure_ssh(&file).await;
        let median = ours.get(ROUNDS / 2).unwrap();
        writeln!(
            out,
            "{name}: {HOSTS} hosts in {median:.1} ms ({:.4} ms per host); ssh -G {theirs:.2} ms per host",
            median / f64::from(HOSTS)
        )
        .unwrap();
    }
}

/// Returns the milliseconds for all hosts, including reading the files.
async fn measure_gtop(home: &Path, file: &Path) -> f64 {
    let mut options = Options::of_this_process();
    options.ssh.config_file = Some(file.to_owned());
    options.ssh.ssh_program = "/no/ssh".into();
    options.ssh.env.home = home.to_owned();
    let transport = Transport::new(options);
    let begin = Instant::now();
    for host in 0..HOSTS {
        let host = format!("n{host:04}");
        let name = NodeName::new(&host).unwrap();
        let profile = Profile::System;
        let reach = Reach::Ssh(SshTarget { host, user: None, port: None, profile });
        assert!(!transport.effective_options(&Target { name, reach }).await.unwrap().is_empty());
    }
    begin.elapsed().as_secs_f64() * 1e3
}

/// Returns the milliseconds `ssh -G` takes for one host.
async fn measure_ssh(file: &Path) -> f64 {
    let begin = Instant::now();
    for host in 0..SSH_HOSTS {
        let mut command = Command::new("ssh");
        command.args(["-T", "-G", "-F"]).arg(file).arg(format!("n{host:04}"));
        command.output().await.unwrap();
    }
    begin.elapsed().as_secs_f64() * 1e3 / f64::from(SSH_HOSTS)
}
