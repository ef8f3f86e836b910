//! Looks up what advice on a node needs beside its fault: the public keys.

use std::fs::File;
use std::io::Read;

use gtop_collect::transport::{Reach, Target};
use gtop_fleet::advice::{Known, PublicKey};
use gtop_local::storage::user_dirs;

/// Maximum number of bytes read from a public key file; large certificates have a few thousand.
const MAX_KEY_BYTES: u64 = 16 * 1024;

/// Returns what is known of a target without its configuration.
pub(super) fn of_target(target: &Target) -> Known {
    match &target.reach {
        Reach::Ssh(ssh) => Known::new(target.name.host(), ssh.user.as_deref(), &ssh.host, ssh.port),
        Reach::Page(url) => Known::new(target.name.host(), None, url.host(), None),
        Reach::Local | Reach::InProcess(_) => {
            Known::new("this machine", None, "this machine", None)
        }
    }
}

/// Reads the public keys of the files that `IdentityFile` names.
pub(super) fn read_keys(known: &mut Known) {
    let home = user_dirs::home().unwrap_or_default();
    let files = known.values("IdentityFile").iter().map(|file| match file.strip_prefix("~/") {
        Some(rest) => home.join(rest).display().to_string(),
        None => file.clone(),
    });
    known.keys = files.filter(|file| file.starts_with('/')).filter_map(read_key).collect();
}

/// Reads a public key file, given its path or that of the private key.
fn read_key(identity: String) -> Option<PublicKey> {
    let file = format!("{}.pub", identity.strip_suffix(".pub").unwrap_or(&identity));
    // Opening a pipe or a device may block.
    if !std::fs::metadata(&file).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    File::open(&file).ok()?.take(MAX_KEY_BYTES).read_to_string(&mut text).ok()?;
    let kind = text.split_whitespace().next().filter(|kind| {
        kind.chars().all(|c| c.is_ascii_alphanumeric() || "-@.".contains(c)) && kind.len() <= 64
    });
    Some(PublicKey { identity, file, kind: kind.map(ToOwned::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_keys_of_configured_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(file("id.pub"), "ssh-rsa AAAA ada\n").unwrap();
        std::fs::write(file("odd.pub"), "x;curl|sh AAAA\n").unwrap();
        std::fs::create_dir(file("folder.pub")).unwrap();
        let mut known = Known::new("gpu01", None, "gpu01", None);
        let files = [file("id"), file("odd"), file("folder"), file("none"), "id".to_owned()];
        known.set_option("IdentityFile", &files, None);
        read_keys(&mut known);
        let found: Vec<_> =
            known.keys.iter().map(|key| (key.file.clone(), key.kind.as_deref())).collect();
        assert_eq!(found, [(file("id.pub"), Some("ssh-rsa")), (file("odd.pub"), None)]);
        known.set_option("IdentityFile", &[file("id.pub")], None);
        read_keys(&mut known);
        assert_eq!(known.keys[0].file, file("id.pub"));
    }
}
