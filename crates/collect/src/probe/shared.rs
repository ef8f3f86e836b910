//! The probe for a job step over many nodes: all run the same script and receive the same input.

use std::time::Duration;

use super::{Interpreter, ProbeSettings, loader, source_with_fragments, strip_unsafe};
use crate::scheduler::SchedulerKind;
use gtop_model::SudoRefusal;

/// Maximum bytes of a piece of a frame: with the longest node name twice, a line stays below 900 bytes.
const MAX_PIECE_BYTES: usize = 340;

/// A probe for all nodes of a job step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedProbe {
    /// The nonce of the announcements; a loader prints it and the node, with `NOPY` between them if it has no Python.
    pub(crate) nonce: String,
    /// The script for `/bin/sh -c` on each node.
    pub script: String,
    /// The input for all nodes: both scripts, of which each loader takes its own.
    pub input: Vec<u8>,
}

/// Returns the probe for all nodes of a step; `sudo_refusal` if it should run as root, which a step cannot.
///
/// A Python loader reads exactly the bytes of its script, and its probe skips lines that are no commands. An sh loader
/// discards what it has read at the line that is the nonce with a dash, after which its script begins.
pub fn shared_probe(
    nonce: &str,
    interval: Duration,
    sudo_refusal: Option<SudoRefusal>,
) -> SharedProbe {
    let settings = ProbeSettings { interval, sudo_refusal, ..ProbeSettings::new("-", nonce) };
    let [python, shell] = [Interpreter::Python, Interpreter::Shell]
        .map(|interpreter| source_with_fragments(interpreter, &settings, MAX_PIECE_BYTES));
    let nonce = strip_unsafe(nonce);
    let skip = format!("[ \"$l\" = {nonce}- ]&&{{ s=;continue;}};");
    let node_variable = SchedulerKind::default().profile().node_variable.unwrap_or_default();
    let script = loader(&nonce, python.script_size(), &format!(" ${node_variable}"), &skip);
    let mut input = python.parts().concat();
    input.extend_from_slice(format!("\n{nonce}-\n").as_bytes());
    input.extend(shell.parts().concat());
    SharedProbe { nonce, script, input }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Script;
    use crate::scheduler::claim;

    #[test]
    fn both_scripts_know_their_node_and_write_short_lines() {
        let shared = shared_probe("n0nce", Duration::from_secs(2), None);
        let settings = format!("- 2.0 30 340 - {}\n", claim::probe_word());
        let settings = settings.as_bytes();
        let python = Script::Python.parts().concat();
        let rest = shared.input.strip_prefix(python.as_slice()).unwrap();
        let rest = rest.strip_prefix(settings).unwrap().strip_prefix(b"\nn0nce-\n").unwrap();
        let shell = Script::Shell.parts().concat();
        let rest = rest.strip_prefix(shell.as_slice()).unwrap();
        assert_eq!(rest, [&b"n0nce\n"[..], settings].concat());
        assert!(shared.script.contains(&format!(" {} ", python.len())));
        const { assert!(MAX_PIECE_BYTES + 2 * 255 + 50 <= 900) };
    }
}
