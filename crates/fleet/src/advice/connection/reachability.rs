//! What to do about a node that does not answer, or answers late.

use crate::advice::known::Known;
use crate::advice::steps::Step;
use gtop_local::fault::ConnectPhase;

pub(super) const START_SSHD: &str = "systemctl start sshd || systemctl start ssh";

impl Known {
    pub(super) fn wait_longer(&self) -> Step {
        let command = format!("gtop --connect-timeout 60 {}", self.watched);
        Step::run("wait longer", command).when("it is only slow")
    }

    pub(super) fn for_timeout(&self, phase: ConnectPhase) -> Step {
        let (destination, address, port) = (&self.destination, self.address(), self.port());
        match phase {
            ConnectPhase::Configuration => Step::run(
                "check whether it hangs, for example in a Match exec",
                format!("ssh -G {destination}"),
            ),
            ConnectPhase::Name => {
                Step::run("name resolution hangs", format!("getent hosts {address}"))
            }
            ConnectPhase::Connection => Step::run(
                format!(
                    "check that it is up and that no firewall drops port {port}; or raise --connect-timeout"
                ),
                format!("ping -c 3 {address}"),
            ),
            ConnectPhase::BannerExchange => Step::words(format!(
                "check sshd on the node, which accepts connections but sends nothing; if it is not sshd, {}",
                self.correct_option("Port")
            )),
            ConnectPhase::KeyExchange => {
                Step::words("the node may be overloaded, or the network drops large packets (MTU)")
            }
            ConnectPhase::Login => {
                Step::words("the directory service of the node may hang; check the log of its sshd")
            }
            ConnectPhase::Command => {
                Step::words("the node may be overloaded, or its file system hangs")
            }
        }
    }
}
