//! One step for many nodes: what runs on each is the same, and what is written to one is written to
//! all.

use std::time::Duration;

use super::{Interpreter, Settings, loader, plain, written};

/// The longest piece of a frame: with the longest name of a node, twice, a line stays below 900 bytes.
const PIECE: usize = 340;

/// Where Slurm says what the node is called.
const NAME: &str = "SLURMD_NODENAME";

/// A probe for all nodes of a step of Slurm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// The word by which loaders announce themselves: a line of it and the node, with `NOPY`
    /// between where there is no Python.
    pub nonce: String,
    /// What `/bin/sh -c` is to run on each node.
    pub script: String,
    /// What is to be written once to all of them: both scripts, of which each loader takes its own.
    pub input: Vec<u8>,
}

/// Returns the probe for all nodes of a step.
///
/// A Python loader takes the first bytes, exactly as many as its script has, and the probe then
/// skips lines that are no commands; an sh loader forgets what it read when the line comes that is
/// the nonce with a dash, and its script begins.
pub fn shared(nonce: &str, interval: Duration) -> Shared {
    let settings = Settings { interval, ..Settings::new("", nonce) };
    let name = format!("os.environ[\"{NAME}\"]");
    let mut input = written(Interpreter::Python, &settings, &name, PIECE).parts().concat();
    let nonce = plain(nonce);
    let skip = format!("[ \"$l\" = {nonce}- ]&&{{ s=;continue;}};");
    let script = loader(&nonce, input.len(), &format!(" ${NAME}"), &skip);
    input.extend_from_slice(format!("\n{nonce}-\n").as_bytes());
    let shell = written(Interpreter::Shell, &settings, &format!("${NAME}"), PIECE);
    input.extend(shell.parts().concat());
    Shared { nonce, script, input }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_scripts_know_their_node_and_write_short_lines() {
        let shared = shared("n0nce", Duration::from_secs(2));
        let mark = b"\nn0nce-\n";
        let at = shared.input.windows(mark.len()).position(|bytes| bytes == mark).unwrap();
        let (python, shell) = shared.input.split_at(at);
        let [python, shell] = [python, &shell[mark.len()..]].map(String::from_utf8_lossy);
        assert!(python.starts_with("NODE=os.environ[\"SLURMD_NODENAME\"]\nINTERVAL=2.0\n"));
        assert!(python.contains("\nSHORT=340\n"));
        assert!(shell.starts_with("NODE=$SLURMD_NODENAME INTERVAL=2.0 DEADMAN=30 SHORT=340\n"));
        assert!(shell.ends_with("\nn0nce\n"));
        assert!(shared.script.contains(&format!(" {at} ")));
        const { assert!(PIECE + 2 * 255 + 50 <= 900) };
    }
}
