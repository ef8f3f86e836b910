//! Processes that sleep, for a probe to see, to read and to signal.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use gtop_model::ProcessKey;
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::probe::TIMEOUT;

/// A child process, sleeping by default, that is killed on drop.
pub(crate) struct Sleeper(pub(crate) Child);

impl Sleeper {
    pub(crate) fn new() -> Self {
        Self::with(|command| command)
    }

    pub(crate) fn with(change: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        let mut command = Command::new("sleep");
        command.arg("1000").stdin(Stdio::null()).stdout(Stdio::null());
        let sleeper = Self(change(&mut command).spawn().unwrap());
        // Its command line appears shortly after the start, and then it runs until it sleeps.
        let cmdline = format!("/proc/{}/cmdline", sleeper.pid());
        let has_started = || std::fs::read(&cmdline).unwrap().ends_with(b"\x001000\0");
        let deadline = Instant::now() + TIMEOUT;
        while !has_started() || stat(sleeper.pid())[0] != "S" {
            assert!(Instant::now() < deadline, "{cmdline} is not that of a sleeper");
            thread::yield_now();
        }
        sleeper
    }

    /// A process of another user.
    pub(crate) fn of(uid: u32) -> Self {
        Self::with(|command| command.uid(uid).gid(uid).current_dir("/"))
    }

    /// A process with this name, which may be no text.
    pub(crate) fn named(name: &[u8]) -> Self {
        Self::with(|command| command.arg0(OsStr::from_bytes(name)))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn key(&self) -> ProcessKey {
        key(self.pid())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _killed = self.0.kill();
        let _status = self.0.wait();
    }
}

/// The fields of `/proc/PID/stat` after the name.
pub(crate) fn stat(pid: u32) -> Vec<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').map(str::to_owned).collect()
}

pub(crate) fn key(pid: u32) -> ProcessKey {
    ProcessKey { pid, start_ticks: stat(pid)[19].parse().unwrap() }
}
