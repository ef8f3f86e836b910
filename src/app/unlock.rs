//! Asks for the passphrases of keys that are of no use without, once, before anything else.

use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use crate::app::interview::{Mood, is_at_terminal};
use crate::app::terminal::{Ask, Typed};
use crate::transport::{Target, Transport};

/// So many tries a file has, as with ssh.
const TRIES: usize = 3;

/// Asks for each locked key file the targets need. An empty line goes on without.
pub(super) async fn unlock_keys(
    transport: &Transport,
    targets: &[Target],
    out: &mut impl Write,
) -> io::Result<Mood> {
    if !is_at_terminal() {
        return Ok(Mood::Patient);
    }
    for file in transport.locked_keys(targets).await {
        for _ in 0..TRIES {
            let prompt = format!("Passphrase of {} (empty to go on without): ", file.display());
            let asking = Ask { prompt, is_shown: false };
            let passphrase = match asking.put(&AtomicBool::new(false), out)? {
                Typed::Line(passphrase) if passphrase.expose().is_empty() => break,
                Typed::Line(passphrase) => passphrase,
                Typed::End => return Ok(Mood::Tired),
                Typed::Interrupt => return Ok(Mood::Interrupted),
            };
            match transport.unlock(&file, passphrase).await {
                Ok(()) => break,
                Err(_wrong) => writeln!(out, "gtop: that does not open {}", file.display())?,
            }
        }
    }
    Ok(Mood::Patient)
}
