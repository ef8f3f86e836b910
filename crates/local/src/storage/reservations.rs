//! Which devices gtop has picked on this machine, for a while: so that of two picks at once, by whichever users, each takes
//! others.
//!
//! Each user has a file in the memory of the machine, which all can read and no reboot leaves; whoever picks reads all of
//! them and writes their own, while nobody else picks. A reservation ends with its time or with its
//! process, after ten minutes at most.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, fchmod};
use rustix::io::Errno;
use rustix::process::{Pid, geteuid, getpid, test_kill_process};

use crate::storage;
use crate::time::Timestamp;

/// The longest time for which a device may be reserved.
pub const MAX_RESERVATION: Duration = Duration::from_secs(600);

/// A name of which only one process of the machine can be at a time.
const LOCK_NAME: &[u8] = b"gtop-pick";
const FOLDER: &str = "/dev/shm";
const PREFIX: &str = "gtop-pick-";
/// Users whose files are read.
const MAX_FILES: usize = 1024;
/// Processes between this one and the first.
const MAX_ANCESTORS: usize = 64;
/// Bytes of a file.
const MAX_BYTES: u64 = 64 << 10;

/// The right to pick: nobody else on this machine picks until it is dropped.
#[derive(Debug)]
pub struct PickLock(#[expect(dead_code, reason = "held, not used")] UnixListener);

impl PickLock {
    /// Returns `None` while somebody else has it.
    ///
    /// # Errors
    ///
    /// If this machine has no such locks.
    pub fn try_take() -> io::Result<Option<Self>> {
        match UnixListener::bind_addr(&SocketAddr::from_abstract_name(LOCK_NAME)?) {
            Ok(listener) => Ok(Some(Self(listener))),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The reservations of this machine.
#[derive(Clone, Debug)]
pub struct Reservations {
    folder: PathBuf,
}

impl Default for Reservations {
    fn default() -> Self {
        Self { folder: PathBuf::from(FOLDER) }
    }
}

/// A device that is reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reservation {
    until: Timestamp,
    /// The process that ends it; 0 for none.
    pid: i32,
    device: String,
}

impl Reservations {
    /// Returns the UUIDs of devices that somebody has reserved; not for a command that started this process.
    pub fn devices(&self, now: Timestamp) -> BTreeSet<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let files = names.filter_map(|name| Some((name.strip_prefix(PREFIX)?.parse().ok()?, name)));
        let all = files.take(MAX_FILES).flat_map(|(user, name)| self.read(&name, user));
        let own = ancestors();
        let of_others = all.filter(|found| found.holds(now) && !own.contains(&found.pid));
        of_others.map(|found| found.device).collect()
    }

    /// Reserves devices for this long, or until they are free earlier.
    ///
    /// # Errors
    ///
    /// If the file of this user cannot be written.
    pub fn add<'a>(
        &self,
        devices: impl IntoIterator<Item = &'a str>,
        now: Timestamp,
        length: Duration,
        ends: ReservationEnd,
    ) -> io::Result<()> {
        let user = geteuid().as_raw();
        let name = format!("{PREFIX}{user}");
        let pid = match ends {
            ReservationEnd::Process => getpid().as_raw_pid(),
            ReservationEnd::Time => 0,
        };
        let until = now.plus(length.min(MAX_RESERVATION));
        let mut all = self.read(&name, user);
        all.retain(|known| known.holds(now));
        let devices = devices.into_iter().map(str::to_owned);
        all.extend(devices.map(|device| Reservation { until, pid, device }));
        let lines: String = all.iter().map(Reservation::line).collect();
        self.write(&name, user, &lines)
    }

    /// Writes the file of this user, which others may have put there.
    fn write(&self, name: &str, user: u32, lines: &str) -> io::Result<()> {
        let path = self.folder.join(name);
        let mut file = open_no_link(&path, OFlags::RDWR | OFlags::CREATE)?;
        let found = file.metadata()?;
        if !found.is_file() || found.uid() != user || found.nlink() != 1 {
            let why = format!("{} is not a file of yours", path.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        // Other users read it, whatever the mask of modes is.
        fchmod(&file, Mode::from_raw_mode(0o644))?;
        file.set_len(0)?;
        file.write_all(lines.as_bytes())
    }

    /// Reads the file of a user; a file of somebody else has no reservations.
    fn read(&self, name: &str, user: u32) -> Vec<Reservation> {
        let content = open_no_link(&self.folder.join(name), OFlags::RDONLY).and_then(|file| {
            let found = file.metadata()?;
            let is_theirs = found.is_file() && found.uid() == user;
            if is_theirs { storage::read_bounded(file, MAX_BYTES) } else { Ok(None) }
        });
        let content = content.ok().flatten().unwrap_or_default();
        String::from_utf8_lossy(&content).lines().filter_map(Reservation::parse).collect()
    }
}

/// What ends a reservation before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationEnd {
    /// The end of this process, or of the program that it becomes.
    Process,
    /// Nothing.
    Time,
}

impl Reservation {
    /// Parses `UNTIL PID DEVICE`.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(3, ' ');
        let until = Timestamp::from_micros(words.next()?.parse().ok()?);
        let pid = words.next()?.parse().ok().filter(|pid| *pid >= 0)?;
        Some(Self { until, pid, device: words.next()?.to_owned() })
    }

    fn line(&self) -> String {
        format!("{} {} {}\n", self.until.as_micros(), self.pid, self.device)
    }

    /// Returns true if it has not ended.
    fn holds(&self, now: Timestamp) -> bool {
        let left = self.until.since(now);
        let process = Pid::from_raw(self.pid);
        let is_running = process.is_none_or(|pid| test_kill_process(pid) != Err(Errno::SRCH));
        is_running && !left.is_zero() && left <= MAX_RESERVATION
    }
}

/// Returns this process, which may be the command of another pick, and those that it descends from.
fn ancestors() -> Vec<i32> {
    let own = getpid().as_raw_pid();
    std::iter::successors(Some(own), |pid| parent_of(*pid)).take(MAX_ANCESTORS).collect()
}

/// Returns the parent of a process; `None` if that is the first process.
fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may have any letters.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok().filter(|parent| *parent > 1)
}

/// Opens a file that is no link, without waiting for the writer of a pipe.
fn open_no_link(path: &Path, access: OFlags) -> io::Result<File> {
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000_000);

    fn reservations() -> (tempfile::TempDir, Reservations, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("{PREFIX}{}", geteuid().as_raw()));
        let reservations = Reservations { folder: folder.path().to_owned() };
        (folder, reservations, path)
    }

    fn after(seconds: u64) -> Timestamp {
        NOW.plus(Duration::from_secs(seconds))
    }

    #[test]
    fn a_reservation_ends_with_its_time_and_with_its_process() {
        let (_folder, reservations, path) = reservations();
        let minute = Duration::from_secs(60);
        reservations.add(["GPU-1"], NOW, minute, ReservationEnd::Time).unwrap();
        reservations.add(["GPU-own"], after(30), minute, ReservationEnd::Process).unwrap();
        // The first process runs, and so it does not end this.
        let lines = fs::read_to_string(&path).unwrap();
        assert!(lines.contains(&format!(" {} GPU-own\n", getpid().as_raw_pid())), "{lines}");
        let until = after(90).as_micros();
        fs::write(&path, format!("{lines}{until} 1 GPU-2\n")).unwrap();
        let found = |now| reservations.devices(now).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(found(after(59)), "GPU-1 GPU-2");
        assert_eq!(found(after(60)), "GPU-2");
        assert_eq!(found(after(90)), "");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(found(after(30)), "GPU-1 GPU-2", "what this process has reserved it may have");
        // Of a process that is no more; a process has at most 2^22.
        let gone = format!("{} 2147483647 GPU-3\n", after(60).as_micros());
        fs::write(&path, gone).unwrap();
        assert_eq!(found(NOW), "");
        // What has ended leaves the file.
        reservations.add([], NOW, minute, ReservationEnd::Time).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
    }

    #[test]
    fn what_a_file_says_is_bounded_and_must_be_its_users() {
        let (folder, reservations, path) = reservations();
        let until = after(60).as_micros();
        let late = after(601).as_micros();
        let lines =
            format!("{late} 0 GPU-late\n{until} -1 GPU-a\nx\n{until} 0\n\u{0} \n{until} 0 GPU-1\n");
        fs::write(&path, lines).unwrap();
        // Files of others, of nobody, and links.
        let line = format!("{until} 0 GPU-2\n");
        fs::write(folder.path().join(format!("{PREFIX}4294967294")), &line).unwrap();
        fs::write(folder.path().join(format!("{PREFIX}x")), &line).unwrap();
        assert_eq!(reservations.devices(NOW), ["GPU-1".to_owned()].into());
        fs::remove_file(&path).unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, &line).unwrap();
        symlink(&victim, &path).unwrap();
        assert!(reservations.devices(NOW).is_empty());
        let add = || reservations.add(["GPU-1"], NOW, Duration::from_secs(1), ReservationEnd::Time);
        add().unwrap_err();
        fs::remove_file(&path).unwrap();
        fs::hard_link(&victim, &path).unwrap();
        add().unwrap_err();
        assert_eq!(fs::read_to_string(&victim).unwrap(), line);
    }

    #[test]
    fn one_picks_at_a_time() {
        let lock = PickLock::try_take().unwrap();
        if lock.is_some() {
            assert!(PickLock::try_take().unwrap().is_none());
        }
    }
}
