//! What to do about sources without values, and about nodes that are up and not as they should be.

use crate::advice::reader::Reader;
use gtop_model::SourceFaultKind;

/// Another name of a node that is listed too.
pub(crate) const SAME_MACHINE: &str = "leave one of the names out";
/// No values came before the picture was printed.
pub const LATE: &str = "--deadline SECONDS waits longer; gtop doctor HOST says why";
/// The node is tried again only when the user asks for it.
pub(crate) const ON_REQUEST: &str = "press R to retry";

/// About a node that waits for its host key to be accepted.
pub(crate) const ON_HOST_KEY: &str = "press A to see the key and answer";

/// About a node that waits for a login.
pub(crate) const ON_LOGIN: &str = "press L to log in";
/// The node is tried again by itself.
pub(crate) const RETRY: &str = "press R to retry now";
/// Each call loads the driver.
pub(crate) const PERSISTENCE: &str =
    "persistence mode keeps the driver loaded: run nvidia-smi -pm 1 on the node as root";
/// The settings hide all devices.
pub(crate) const NONE_SELECTED: &str = "press F2 to see what is selected";
/// The node has no devices.
pub(crate) const NO_DEVICES: &str = "nothing, if the node is meant to have no devices";
/// The node may have no such devices.
pub const NOT_THERE: &str = "nothing, if the node has no such devices, or none that you may use";
/// A source did not answer in time.
pub const NO_ANSWER: &str = "run it on the node by hand";
/// A node was connected and sent nothing.
pub const NOT_SEEN: &str = "the driver may hang, or the node may be overloaded: look at its events";
/// The probe runs in a shell, and only Python reads the source.
pub const NEEDS_PYTHON: &str = "install Python 3.6 or newer on the node";
/// The probe runs in a shell.
pub const SHELL_PROBE: &str =
    "sh works, at a higher CPU cost for the node; install Python 3.6 or newer";
/// The clocks of the node and of this machine differ.
pub const CLOCK: &str = "ages are still shown correctly; check timedatectl on both machines";

/// Returns what to do about a node from which no new values come.
pub(crate) const fn of_stale(reader: Reader) -> &'static str {
    match reader {
        Reader::Screen | Reader::Program => "check the node; gtop reconnects automatically",
        Reader::Print | Reader::Stranger => "check the node",
    }
}

/// A page of metrics is old.
pub(crate) const OLD_PAGE: &str =
    "check the exporter on the host, and what serves its page: no new values arrive";

/// Returns the command that examines a node.
pub fn examine(node: &str) -> String {
    format!("gtop doctor {node} examines the node")
}

/// Returns what to do about a source without values.
pub const fn of_source(kind: SourceFaultKind) -> &'static str {
    match kind {
        SourceFaultKind::Starting => "without persistence mode, each call reloads the driver",
        SourceFaultKind::Slow => "wait: it may still answer, and gtop then continues",
        SourceFaultKind::Unanswered => {
            "wait a minute: if the driver has not answered by then, it hangs"
        }
        SourceFaultKind::Stuck => {
            "the driver hangs; a reset of the device or a reboot of the node is likely needed"
        }
        SourceFaultKind::HostStuck => {
            "a file system or a process on the node hangs; check df and ps there"
        }
        SourceFaultKind::NoLibrary => "no NVIDIA tools on this node; a CPU node needs none",
        SourceFaultKind::NoDriver => "load the driver, or ask the administrator",
        SourceFaultKind::NoStart => {
            "dmesg on the node says why; reload the driver or reboot the node"
        }
        SourceFaultKind::Mismatch => "the driver was updated; reload it or reboot the node",
        SourceFaultKind::NoPermission => "ask the administrator for access to the devices",
        SourceFaultKind::Lost => "the device fell off the bus; reboot the node",
        SourceFaultKind::NoDevices => {
            "dmesg on the node says why the driver finds none; reload it or reboot the node"
        }
        SourceFaultKind::Unreadable | SourceFaultKind::Failed => {
            "run nvidia-smi on the node by hand"
        }
    }
}
