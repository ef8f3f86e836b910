//! The probe for a Slurm step over many nodes: all run the same script and receive the same input.

use std::time::Duration;

use super::{Interpreter, ProbeSettings, build_source, loader, strip_unsafe};

/// Maximum bytes of a piece of a frame: with the longest node name twice, a line stays below 900 bytes.
const MAX_PIECE_BYTES: usize = 340;

/// Environment variable in which Slurm sets the node's name.
const NODE_NAME_VARIABLE: &str = "SLURMD_NODENAME";

/// A probe for all nodes of a Slurm step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedProbe {
    /// The nonce of the announcements; a loader prints it and the node, with `NOPY` between them if it has no Python.
    pub nonce: String,
    /// The script for `/bin/sh -c` on each node.
    pub script: String,
    /// The input for all nodes: both scripts, of which each loader takes its own.
    pub input: Vec<u8>,
}

/// Returns the probe for all nodes of a step.
///
/// A Python loader reads exactly the bytes of its script, and its probe skips lines that are no commands. An sh loader
/// discards what it has read at the line that is the nonce with a dash, after which its script begins.
pub fn shared_probe(nonce: &str, interval: Duration) -> SharedProbe {
    let settings = ProbeSettings { interval, ..ProbeSettings::new("", nonce) };
    let name = format!("os.environ[\"{NODE_NAME_VARIABLE}\"]");
    let mut input =
        build_source(Interpreter::Python, &settings, &name, MAX_PIECE_BYTES).parts().concat();
    let nonce = strip_unsafe(nonce);
    let skip = format!("[ \"$l\" = {nonce}- ]&&{{ s=;continue;}};");
    let script = loader(&nonce, input.len(), &format!(" ${NODE_NAME_VARIABLE}"), &skip);
    input.extend_from_slice(format!("\n{nonce}-\n").as_bytes());
    let shell = build_source(
        Interpreter::Shell,
        &settings,
        &format!("${NODE_NAME_VARIABLE}"),
        MAX_PIECE_BYTES,
    );
    input.extend(shell.parts().concat());
    SharedProbe { nonce, script, input }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_scripts_know_their_node_and_write_short_lines() {
        let shared = shared_probe("n0nce", Duration::from_secs(2));
        let mark = b"\nn0nce-\n";
        let at = shared.input.windows(mark.len()).position(|bytes| bytes == mark).unwrap();
        let (python, shell) = shared.input.split_at(at);
        let [python, shell] = [python, &shell[mark.len()..]].map(String::from_utf8_lossy);
        assert!(python.starts_with("NODE=os.environ[\"SLURMD_NODENAME\"]\nINTERVAL=2.0\n"));
        assert!(python.contains("\nSHORT=340\n"));
        assert!(shell.starts_with("NODE=$SLURMD_NODENAME INTERVAL=2.0 DEADMAN=30 SHORT=340\n"));
        assert!(shell.ends_with("\nn0nce\n"));
        assert!(shared.script.contains(&format!(" {at} ")));
        const { assert!(MAX_PIECE_BYTES + 2 * 255 + 50 <= 900) };
    }
}
