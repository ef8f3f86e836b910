//! The probes: the scripts gtop runs on a node, how they are started, and the commands they accept.
//!
//! One script for `python3` (3.6 or newer), one for POSIX `sh` where there is none; both send the same
//! frames. Must not know how a node is reached, nor parse what a probe sends, which `wire` does.

mod command;
mod greeting;
mod missing_python;
mod shared;

use std::time::Duration;

pub use command::{ProbeCommand, encode};
pub use greeting::{Greeting, GreetingProgress};
pub use missing_python::{REASON_PREFIX, why_no_python};
pub use shared::{SharedProbe, shared_probe};

/// A probe exits after this time without a heartbeat.
pub const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(30);

/// How often to send [`ProbeCommand::Heartbeat`].
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

/// Minimum sampling interval; shorter ones are raised to it.
pub const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// The Pythons the loader tries, in order.
const PYTHONS: &str = "/usr/bin/python3 /usr/libexec/platform-python python3";

/// Makes glibc return freed memory; other C libraries ignore these variables.
const MALLOC_SETTINGS: &str = "MALLOC_TRIM_THRESHOLD_=65536 MALLOC_TOP_PAD_=0";

/// The Python probe without comments and docstrings, compressed to a quarter, which also bounds what a session queues for
/// sending. `build.rs` makes both sources.
const PYTHON_SOURCE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/probe.py.z"));

/// The script of `gtop runs`, made in the same way.
const RUNS_SOURCE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/runs.py.z"));

/// The sh probe without its comments.
const SHELL_SOURCE: &str = include_str!(concat!(env!("OUT_DIR"), "/probe.sh"));

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
    /// The node's name, which every command must carry.
    pub node: &'a str,
    /// The session's nonce, as given to [`launch_line`].
    pub nonce: &'a str,
    /// Sampling interval.
    pub interval: Duration,
    /// How long the probe lives without a heartbeat, in whole seconds; [`HEARTBEAT_TIMEOUT`] outside tests.
    pub deadman: Duration,
}

impl<'a> ProbeSettings<'a> {
    /// Returns the default settings: one sample per second.
    pub fn new(node: &'a str, nonce: &'a str) -> Self {
        Self { node, nonce, interval: Duration::from_secs(1), deadman: HEARTBEAT_TIMEOUT }
    }
}

/// Returns the command that starts a loader on a node, for any login shell; less than 1 KiB.
///
/// The loader takes the first Python that is new enough and has `zlib`, announces itself (see [`Greeting`]), and only
/// then reads what [`source`] returns: exactly `python_len` bytes when it is Python, otherwise lines up to
/// one that is the nonce. The text between its single quotes is safe in every login shell.
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

/// Defines `load`, which compiles pieces of source in a child process and then runs them, and `_p`, the pieces of the
/// probe, which the loader passes to it.
///
/// Compiling would grow the probe's memory by a third for good, so a child does it; if that fails, the pieces are compiled
/// in the probe. They follow compressed after a zero byte, which ends the part that the loader runs first.
const BOOTSTRAP: &str = r#"import os,marshal,zlib
def load(pieces):
 r,w=os.pipe()
 try:k=os.fork()
 except OSError:k=-1
 if k==0:
  try:
   c=marshal.dumps([compile(x,"gtop","exec",0,False,2) for x in pieces])
   while c:c=c[os.write(w,c):]
  finally:os._exit(0)
 os.close(w)
 c=b""
 while 1:
  x=os.read(r,65536)
  if not x:break
  c+=x
 os.close(r)
 if k>0:os.waitpid(k,0)
 try:pieces[:]=marshal.loads(c)
 except Exception:pass
 c=x=None
 while pieces:exec(pieces.pop(0),globals())
_p=zlib.decompress(b[b.index(0)+1:]).split(b"\f")
"#;

/// The script for one node. Nearly all of it is the same for every node and stored once.
#[derive(Debug, Clone)]
pub struct ProbeSource {
    head: String,
    body: &'static [u8],
    tail: String,
}

impl ProbeSource {
    /// Returns the number of bytes of all parts.
    pub fn size(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }

    /// Returns the parts to send, in order.
    pub fn parts(&self) -> [&[u8]; 3] {
        [self.head.as_bytes(), self.body, self.tail.as_bytes()]
    }
}

/// Returns the script to send once the loader has announced `interpreter`, with its end mark for sh.
pub fn source(interpreter: Interpreter, settings: &ProbeSettings<'_>) -> ProbeSource {
    let node = probe_name(settings.node);
    match interpreter {
        Interpreter::Python => build_source(interpreter, settings, &format!("\"{node}\""), 0),
        Interpreter::Shell => build_source(interpreter, settings, &node, 0),
    }
}

/// Returns the script that watches a folder of training runs, logs, or only processes.
pub fn runs_source(
    folder: Option<&str>,
    logs: &[String],
    interval: Duration,
    deadman: Duration,
) -> ProbeSource {
    let folder = folder.map_or_else(|| "None".to_owned(), python_string);
    let logs: Vec<String> = logs.iter().map(|log| python_string(log)).collect();
    let (interval, deadman) = (seconds(interval), deadman.as_secs().max(1));
    ProbeSource {
        head: format!(
            "FOLDER={folder}\nLOGS=[{}]\nINTERVAL={interval}\nDEADMAN={deadman}\n{BOOTSTRAP}\0",
            logs.join(",")
        ),
        body: RUNS_SOURCE,
        tail: String::new(),
    }
}

/// Returns a text as a string literal of Python, in ASCII.
fn python_string(text: &str) -> String {
    let escaped = |letter: char| {
        let is_plain = letter.is_ascii_alphanumeric() || "/._- ,:+=@~".contains(letter);
        if is_plain { letter.to_string() } else { format!("\\U{:08x}", u32::from(letter)) }
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

/// Returns the script for a node whose name is the expression `node`. Frames are cut into pieces of `short` bytes; 0 means
/// whole frames.
fn build_source(
    interpreter: Interpreter,
    settings: &ProbeSettings<'_>,
    node: &str,
    short: usize,
) -> ProbeSource {
    let interval = seconds(settings.interval.max(MIN_INTERVAL));
    let deadman = settings.deadman.as_secs().max(1);
    match interpreter {
        Interpreter::Python => ProbeSource {
            head: format!(
                "NODE={node}\nINTERVAL={interval}\nDEADMAN={deadman}\nSHORT={short}\n{BOOTSTRAP}\0"
            ),
            body: PYTHON_SOURCE,
            tail: String::new(),
        },
        Interpreter::Shell => ProbeSource {
            head: format!(
                "NODE={node} INTERVAL={interval} DEADMAN={deadman} SHORT={}\n",
                if short == 0 { String::new() } else { short.to_string() }
            ),
            body: SHELL_SOURCE.as_bytes(),
            tail: format!("{}\n", strip_unsafe(settings.nonce)),
        },
    }
}

/// Returns the name by which a probe knows its node: in ASCII and without characters that have a meaning in Python, sh or
/// JSON, which are written as `%` and their bytes.
fn probe_name(node: &str) -> String {
    let encoded = |byte: u8| match char::from(byte) {
        letter if letter.is_ascii_alphanumeric() || "._:@[]+-/".contains(letter) => {
            letter.to_string()
        }
        _ => format!("%{byte:02x}"),
    };
    node.bytes().map(encoded).collect()
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

    /// Returns the uncompressed text of a script.
    fn script_text(interpreter: Interpreter, settings: &ProbeSettings<'_>) -> String {
        let source = source(interpreter, settings);
        let bytes = source.parts().concat();
        assert_eq!(bytes.len(), source.size());
        let text = bytes.split(|byte| *byte == 0).next().unwrap();
        String::from_utf8(text.to_vec()).unwrap()
    }

    #[test]
    fn the_launch_line_is_short_and_safe_between_single_quotes() {
        let line = launch_line("0123456789abcdef0123456789abcdef", 123_456);
        assert!(line.len() < 1024, "{} bytes", line.len());
        assert_eq!(line.matches('\'').count(), 2);
        assert!(!line.contains(['\n', '!', '`']));
    }

    #[test]
    fn sources_are_ascii_and_begin_with_their_settings() {
        let settings = ProbeSettings::new("gpu[01]:22", "n0nce");
        let python = script_text(Interpreter::Python, &settings);
        let shell = script_text(Interpreter::Shell, &settings);
        assert!(python.is_ascii() && shell.is_ascii());
        assert!(python.starts_with("NODE=\"gpu[01]:22\"\nINTERVAL=1.0\nDEADMAN=30\nSHORT=0\n"));
        assert!(shell.starts_with("NODE=gpu[01]:22 INTERVAL=1.0 DEADMAN=30 SHORT=\n"));
        assert!(shell.ends_with("\nn0nce\n"));
    }

    #[test]
    fn a_name_cannot_become_code() {
        let settings = ProbeSettings::new("a\";import os#$(id)`id`\n'", "n;id");
        let python = script_text(Interpreter::Python, &settings);
        let shell = script_text(Interpreter::Shell, &settings);
        let name = "a%22%3bimport%20os%23%24%28id%29%60id%60%0a%27";
        assert!(python.starts_with(&format!("NODE=\"{name}\"\n")));
        assert!(shell.starts_with(&format!("NODE={name} INTERVAL")));
        assert!(shell.ends_with("\nnid\n"));
    }

    #[test]
    fn a_path_cannot_become_code() {
        for (path, literal) in [
            ("~/runs a", r#""~/runs a""#),
            ("a\";import os#", r#""a\U00000022\U0000003bimport os\U00000023""#),
            ("日\n\\", r#""\U000065e5\U0000000a\U0000005c""#),
        ] {
            assert_eq!(python_string(path), literal);
        }
    }

    #[test]
    fn seconds_are_written_without_exponents() {
        for (millis, text) in [(50, "0.05"), (250, "0.25"), (1000, "1.0"), (3_600_125, "3600.125")]
        {
            assert_eq!(seconds(Duration::from_millis(millis)), text);
        }
    }
}
