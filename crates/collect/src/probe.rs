//! The probes: the scripts gtop runs on a node, how they are started, and the commands they accept.
//!
//! One script for `python3` (3.6 or newer), one for POSIX `sh` where there is none; both send the same
//! frames. Must not know how a node is reached, nor parse what a probe sends, which `wire` does.

mod command;
mod greeting;
mod listing;
mod missing_python;
mod root;
mod script;
mod shared;

use std::time::Duration;

pub use command::{ProbeCommand, encode};
pub use greeting::{Greeting, GreetingProgress};
pub use listing::{Listing, NONCE};
pub use missing_python::{REASON_PREFIX, why_no_python};
pub use root::{root_launch_line, sudoers};
pub use script::Script;
pub use shared::shared_probe;

pub(crate) use root::sudo_mark;
pub(crate) use script::hex_sha256;
pub(crate) use shared::SharedProbe;

use crate::scheduler::claim;
use gtop_model::SudoRefusal;

/// A probe exits after this time without a heartbeat.
pub const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(30);

/// How often to send [`ProbeCommand::Heartbeat`].
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

/// Minimum sampling interval; shorter ones are raised to it.
pub(crate) const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// The Pythons the loader tries, in order.
const PYTHONS: &str = "/usr/bin/python3 /usr/libexec/platform-python python3";

/// Makes glibc return freed memory; other C libraries ignore these variables.
const MALLOC_SETTINGS: &str = "MALLOC_TRIM_THRESHOLD_=65536 MALLOC_TOP_PAD_=0";

/// The interpreter of a probe, as its loader announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interpreter {
    /// Python 3.6 or newer.
    Python,
    /// POSIX `sh`, because the node has no such Python.
    Shell,
}

/// Settings of one session's probe.
#[derive(Debug, Clone, Copy)]
pub struct ProbeSettings<'a> {
    /// The node's name, which every command must carry; `-` for the one in its step's environment.
    pub node: &'a str,
    /// The session's nonce, as given to [`launch_line`].
    pub nonce: &'a str,
    /// Sampling interval.
    pub interval: Duration,
    /// How long the probe lives without a heartbeat, in whole seconds; [`HEARTBEAT_TIMEOUT`] outside tests.
    pub deadman: Duration,
    /// Why the probe does not run as root although that is wanted; its hello repeats it.
    pub sudo_refusal: Option<SudoRefusal>,
}

impl<'a> ProbeSettings<'a> {
    /// Returns the default settings: one sample per second.
    pub fn new(node: &'a str, nonce: &'a str) -> Self {
        Self {
            node,
            nonce,
            interval: Duration::from_secs(1),
            deadman: HEARTBEAT_TIMEOUT,
            sudo_refusal: None,
        }
    }

    /// Returns the line that follows the script.
    fn line(&self, short: usize) -> String {
        let node = probe_name(self.node);
        let interval = seconds(self.interval.max(MIN_INTERVAL));
        let deadman = self.deadman.as_secs().max(1);
        let refusal = self.sudo_refusal.map_or("-", SudoRefusal::as_str);
        format!("{node} {interval} {deadman} {short} {refusal} {}\n", claim::probe_word())
    }
}

/// Returns the command that starts a loader on a node, for any login shell; less than 1 KiB.
///
/// The loader takes the first Python that is new enough and has `zlib`, announces itself (see [`Greeting`]), and only
/// then reads what [`source`] returns: exactly `python_len` bytes of a script when it is Python, otherwise lines up to
/// one that is the nonce; the script itself reads the line of settings after that. The text between its single quotes is safe in every login shell.
pub fn launch_line(nonce: &str, python_len: usize) -> String {
    format!("exec /bin/sh -c '{}'", loader(nonce, python_len, "", ""))
}

/// Returns the script for `/bin/sh -c`; `suffix` is appended to the announcement, and `skip` is a command in the loop that
/// reads lines.
fn loader(nonce: &str, python_len: usize, suffix: &str, skip: &str) -> String {
    let nonce = strip_unsafe(nonce);
    let check = "import sys,_signal,binascii,zlib;sys.exit(sys.version_info<(3,6))";
    let load = "import os,sys,_signal;_signal.alarm(30);n=int(sys.argv[1]);\
                os.write(1,(chr(10)+sys.argv[2]+chr(10)).encode());b=os.read(0,n);\
                exec(\\\"while len(b)<n:b+=os.read(0,n-len(b))or os._exit(3)\\\");exec(b[:b.index(0)]);b=0;load(_p)";
    format!(
        "export {MALLOC_SETTINGS};for p in {PYTHONS};do \
         if $p -IS -c \"{check}\" </dev/null >/dev/null 2>&1;then \
         exec $p -ISu -c \"{load}\" {python_len} \"{nonce}{suffix}\";fi;done;\
         s=;n=$(printf \"\\012_\");n=${{n%_}};echo \"${{n}}{nonce} NOPY{suffix}\";\
         while IFS= read -r l||exit 3;do [ \"$l\" = {nonce} ]&&break;{skip}s=\"$s$l$n\";done;eval \"$s\""
    )
}

/// What is sent to a node: a script, which is the same for every node, and the settings, which are data.
#[derive(Clone, Debug)]
pub struct ProbeSource {
    script: Script,
    /// The line after the script that ends it, for sh.
    end: String,
    settings: String,
}

impl ProbeSource {
    /// Returns the number of bytes of the script.
    pub(crate) fn script_size(&self) -> usize {
        self.script.size()
    }

    /// Returns the parts to send, in order: those of the script, then the settings.
    pub fn parts(&self) -> [&[u8]; 5] {
        let [first, second, third] = self.script.parts();
        [first, second, third, self.end.as_bytes(), self.settings.as_bytes()]
    }
}

/// Returns what to send once the loader has announced `interpreter`.
pub fn source(interpreter: Interpreter, settings: &ProbeSettings<'_>) -> ProbeSource {
    source_with_fragments(interpreter, settings, 0)
}

/// Returns the same for a connection on which frames are cut into pieces of `short` bytes; 0 means whole frames.
fn source_with_fragments(
    interpreter: Interpreter,
    settings: &ProbeSettings<'_>,
    short: usize,
) -> ProbeSource {
    let end = match interpreter {
        Interpreter::Python => String::new(),
        Interpreter::Shell => format!("{}\n", strip_unsafe(settings.nonce)),
    };
    ProbeSource { script: interpreter.into(), end, settings: settings.line(short) }
}

/// Returns the script that watches a folder of training runs, logs, or only processes.
pub(crate) fn runs_source(
    folder: Option<&str>,
    logs: &[String],
    interval: Duration,
    deadman: Duration,
) -> ProbeSource {
    let settings = serde_json::json!({
        "folder": folder,
        "logs": logs,
        "interval": interval.as_secs_f64(),
        "deadman": deadman.as_secs().max(1),
    });
    ProbeSource { script: Script::Runs, end: String::new(), settings: format!("{settings}\n") }
}

/// Returns the name by which a probe knows its node: in ASCII and without characters that have a meaning in Python, sh or
/// JSON, which are written as `%` and their bytes.
fn probe_name(node: &str) -> String {
    let encoded = node.bytes().map(|byte| match char::from(byte) {
        letter if letter.is_ascii_alphanumeric() || "._:@[]+-/".contains(letter) => {
            letter.to_string()
        }
        _ => format!("%{byte:02x}"),
    });
    encoded.collect()
}

/// Removes the characters that have a meaning in Python, sh or JSON.
fn strip_unsafe(name: &str) -> String {
    name.chars().filter(|c| c.is_ascii_alphanumeric() || "._:@[]+-".contains(*c)).collect()
}

/// Formats seconds so that Python, sh and JSON accept them: digits, a point, digits.
fn seconds(time: Duration) -> String {
    let millis = time.as_millis();
    let fraction = format!("{:03}", millis % 1000);
    let fraction = fraction.trim_end_matches('0');
    format!("{}.{}", millis / 1000, if fraction.is_empty() { "0" } else { fraction })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is sent, split after the script.
    fn sent(interpreter: Interpreter, settings: &ProbeSettings<'_>) -> (Vec<u8>, String) {
        let source = source(interpreter, settings);
        let mut bytes = source.parts().concat();
        let data = bytes.split_off(source.script_size());
        (bytes, String::from_utf8(data).unwrap())
    }

    #[test]
    fn the_launch_line_is_short_and_safe_between_single_quotes() {
        let line = launch_line("0123456789abcdef0123456789abcdef", 123_456);
        assert!(line.len() < 1024, "{} bytes", line.len());
        assert_eq!(line.matches('\'').count(), 2);
        assert!(!line.contains(['\n', '!', '`']));
    }

    #[test]
    fn a_script_is_the_same_for_every_node_and_its_settings_follow_as_data() {
        let settings = ProbeSettings::new("gpu[01]:22", "n0nce");
        let refused = ProbeSettings {
            sudo_refusal: Some(SudoRefusal::Password),
            interval: Duration::from_millis(250),
            ..ProbeSettings::new("gpu02", "other")
        };
        for (interpreter, end) in [(Interpreter::Python, ""), (Interpreter::Shell, "n0nce\n")] {
            let (script, data) = sent(interpreter, &settings);
            assert_eq!(data, format!("{end}gpu[01]:22 1.0 30 0 - {}\n", claim::probe_word()));
            let (other, data) = sent(interpreter, &refused);
            assert!(data.contains("gpu02 0.25 30 0 password "), "{data}");
            assert_eq!(script, other);
            assert_eq!(hex_sha256(&[&script]), Script::from(interpreter).sha256());
        }
    }

    #[test]
    fn a_name_cannot_become_code() {
        let settings = ProbeSettings::new("a\";import os#$(id)`id`\n'", "n;id");
        let (_, python) = sent(Interpreter::Python, &settings);
        let (_, shell) = sent(Interpreter::Shell, &settings);
        let name = "a%22%3bimport%20os%23%24%28id%29%60id%60%0a%27";
        assert_eq!(python, format!("{name} 1.0 30 0 - {}\n", claim::probe_word()));
        assert_eq!(shell, format!("nid\n{name} 1.0 30 0 - {}\n", claim::probe_word()));
    }

    #[test]
    fn paths_of_runs_are_data_on_one_line() {
        let second = Duration::from_secs(1);
        let source = runs_source(Some("a\"\n日"), &["~/b".to_owned()], second, 30 * second);
        let bytes = source.parts().concat();
        let data = std::str::from_utf8(&bytes[source.script_size()..]).unwrap();
        let line = data.strip_suffix('\n').unwrap();
        assert!(!line.contains('\n'));
        let settings: serde_json::Value = serde_json::from_str(line).unwrap();
        let expected = serde_json::json!({ "folder": "a\"\n日", "logs": ["~/b"], "interval": 1.0, "deadman": 30 });
        assert_eq!(settings, expected);
    }

    #[test]
    fn seconds_are_written_without_exponents() {
        for (millis, text) in [(50, "0.05"), (250, "0.25"), (1000, "1.0"), (3_600_125, "3600.125")]
        {
            assert_eq!(seconds(Duration::from_millis(millis)), text);
        }
    }
}
