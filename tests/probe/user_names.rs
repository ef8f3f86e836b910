//! A slow name service delays nothing else and is not reported as a hanging driver.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use gtop_collect::probe::{Interpreter, ProbeCommand};
use serde_json::Value;

use crate::harness::built;
use crate::harness::probe::{BOTH, Rig, Setup, TIMEOUT, at_once, gpus};
use crate::harness::sleeper::Sleeper;
use crate::probe::environments::{can_unshare_mounts, in_namespace};

/// A name service module that knows one user, and answers once the file `SLOW_GATE` exists.
const SLOW_MODULE: &str = r#"
#include <nss.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>
#include <string.h>
enum nss_status _nss_slow_getpwuid_r(uid_t uid, struct passwd *out, char *buffer, size_t size, int *error)
{
    while (access(getenv("SLOW_GATE"), F_OK) != 0)
        usleep(10000);
    strcpy(buffer, "ada");
    *out = (struct passwd){ .pw_name = buffer, .pw_passwd = buffer + 3, .pw_uid = uid, .pw_gid = uid,
                            .pw_gecos = buffer + 3, .pw_dir = buffer + 3, .pw_shell = buffer + 3 };
    return NSS_STATUS_SUCCESS;
}
"#;

/// Collects the user names of processes from frames, and asserts that no frame is an error.
struct Users<'a> {
    rig: &'a mut Rig,
    known: std::collections::BTreeMap<u32, String>,
}

impl Users<'_> {
    fn on_frame(&mut self, frame: &Value) {
        assert_ne!(frame["t"], "error", "{frame}");
        for row in frame["processes"]["list"].as_array().into_iter().flatten() {
            if let (Some(pid), Some(user)) = (row["pid"].as_u64(), row["user"].as_str()) {
                self.known.insert(u32::try_from(pid).unwrap(), user.to_owned());
            }
        }
    }

    /// Waits until a process has this user name; returns the time of the last frame.
    fn wait_for(&mut self, sleeper: &Sleeper, user: &str) -> f64 {
        let deadline = std::time::Instant::now() + TIMEOUT;
        while self.known.get(&sleeper.pid()).map(String::as_str) != Some(user) {
            assert!(std::time::Instant::now() < deadline, "{user}: {:?}", self.known);
            self.next();
        }
        self.next()
    }

    /// Reads the next frame, and returns the time at which the probe sent it.
    fn next(&mut self) -> f64 {
        self.rig.command(ProbeCommand::Heartbeat);
        let frame = self.rig.next().unwrap();
        self.on_frame(&frame);
        frame["at"].as_f64().unwrap()
    }
}

fn used_by(sleepers: &[&Sleeper]) -> String {
    sleepers.iter().fold(gpus(1), |mut state, sleeper| {
        writeln!(state, "proc 0 {} 9", sleeper.pid()).unwrap();
        state
    })
}

fn with_slow_user_database(
    interpreter: Interpreter,
    state: &str,
    library: &Path,
    gate: PathBuf,
) -> Setup {
    let environment =
        vec![("LD_LIBRARY_PATH".to_owned(), library.into()), ("SLOW_GATE".to_owned(), gate.into())];
    let script = "mount -t tmpfs none /mnt\nsed 's/^passwd:.*/passwd: files slow/' /etc/nsswitch.conf >/mnt/nsswitch.conf\n\
                  grep -q slow /mnt/nsswitch.conf\nmount --bind /mnt/nsswitch.conf /etc/nsswitch.conf";
    let setup = Setup { environment, ..Setup::new(interpreter) };
    in_namespace(setup.state(state), script, None)
}

#[test]
fn a_slow_user_database_is_not_a_stuck_driver_and_delays_no_other_name() {
    if !can_unshare_mounts() {
        return;
    }
    let Some(library) = built::library("libnss_slow.so.2", SLOW_MODULE, &[]) else { return };
    let gates = tempfile::tempdir().unwrap();
    at_once(BOTH, |interpreter| {
        eprintln!("{interpreter:?}");
        let gate = gates.path().join(format!("{interpreter:?}"));
        let (slow, fast) = (Sleeper::of(54321), Sleeper::of(65534));
        let state = used_by(&[&slow, &fast]);
        let mut rig = with_slow_user_database(interpreter, &state, &library, gate.clone()).start();
        let mut users = Users { rig: &mut rig, known: std::collections::BTreeMap::new() };
        users.wait_for(&fast, "nobody");
        let since = users.wait_for(&slow, "54321");
        // A call counts as stuck after three seconds.
        while users.next() < since + 5.0 {}
        let late = Sleeper::of(65534);
        users.rig.set_state(&used_by(&[&slow, &fast, &late]));
        users.wait_for(&late, "nobody");
        assert_eq!(users.known[&slow.pid()], "54321");
        std::fs::write(&gate, "").unwrap();
        users.wait_for(&slow, "ada");
        rig.finish();
    });
}
