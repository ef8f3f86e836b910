//! The probes: the scripts gtop runs on a node, how they are started, and the commands they accept.
//!
//! One script for `python3` (3.6 or newer), one for POSIX `sh` where there is none; both send the same
//! frames. Must not know how a node is reached, nor parse what a probe sends, which `wire` does.

mod command;
mod greeting;
mod missing_python;
mod shared;

use std::time::Duration;

pub use command::{Command, encode};
pub use greeting::{Greeting, Progress};
pub use missing_python::{REASON, why_no_python};
pub use shared::{Shared, shared};

/// A probe exits after this time without a heartbeat.
pub const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(30);

/// How often to send [`Command::Heartbeat`].
pub const HEARTBEAT: Duration = Duration::from_secs(10);

/// Minimum sampling interval; shorter ones are raised to it.
pub const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// The Pythons the loader tries, in order.
const PYTHONS: &str = "/usr/bin/python3 /usr/libexec/platform-python python3";

/// Keeps glibc from holding on to memory that was freed; others do not know these words.
const MALLOC: &str = "MALLOC_TRIM_THRESHOLD_=65536 MALLOC_TOP_PAD_=0";

/// The Python probe without its comments and docstrings, packed: what travels is a quarter of it, and a session that
/// has to queue it on its way out holds no more than that. `build.rs` makes both.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/probe.py.z"));

/// The sh probe without its comments.
const BARE_SHELL: &str = include_str!(concat!(env!("OUT_DIR"), "/probe.sh"));

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
pub struct Settings<'a> {
    /// The node's name, which every command must carry.
    pub node: &'a str,
    /// The session's nonce, as given to [`launch_line`].
    pub nonce: &'a str,
    /// Sampling interval.
    pub interval: Duration,
    /// How long the probe lives without a heartbeat, in whole seconds; [`HEARTBEAT_TIMEOUT`] outside tests.
    pub deadman: Duration,
}

impl<'a> Settings<'a> {
    /// Returns the default settings: one sample per second.
    pub fn new(node: &'a str, nonce: &'a str) -> Self {
        Self { node, nonce, interval: Duration::from_secs(1), deadman: HEARTBEAT_TIMEOUT }
    }
}

/// Returns the command that starts a loader on a node, for any login shell; less than 1 KiB.
///
/// The loader takes the first Python that is new enough and has `zlib`, announces itself (see [`BannerExchange`]), and only
/// then reads what [`source`] returns: exactly `python_len` bytes when it is Python, otherwise lines up to
/// one that is the nonce. The text between its single quotes is safe in every login shell.
pub fn launch_line(nonce: &str, python_len: usize) -> String {
    format!("exec /bin/sh -c '{}'", loader(nonce, python_len, "", ""))
}

/// Returns what `/bin/sh -c` runs; `said` is what the announcement says besides, and `skip` a
/// command of the loop that reads lines.
fn loader(nonce: &str, python_len: usize, said: &str, skip: &str) -> String {
    let nonce = plain(nonce);
    let check = "import sys,_signal,binascii,zlib;sys.exit(sys.version_info<(3,6))";
    let load = "import os,sys,_signal;_signal.alarm(30);n=int(sys.argv[1]);\
                os.write(1,(chr(10)+sys.argv[2]+chr(10)).encode());b=os.read(0,n);\
                exec(\\\"while len(b)<n:b+=os.read(0,n-len(b))or os._exit(3)\\\");exec(b[:b.index(0)]);b=0;load(_p)";
    format!(
        "export {MALLOC};for p in {PYTHONS};do \
         if $p -IS -c \"{check}\" </dev/null >/dev/null 2>&1;then \
         exec $p -ISu -c \"{load}\" {python_len} \"{nonce}{said}\";fi;done;\
         s=;n=$(printf \"\\012_\");n=${{n%_}};echo \"${{n}}{nonce} NOPY{said}\";\
         while IFS= read -r l||exit 3;do [ \"$l\" = {nonce} ]&&break;{skip}s=\"$s$l$n\";done;eval \"$s\""
    )
}

/// Defines `load`, which compiles pieces of source in a child that hands over the code, and runs them; and `_p`, the
/// pieces of the probe, which the loader gives it in the end.
///
/// Compiling leaves a third of the probe's memory behind for good, so another process does it; where that fails, the
/// pieces are run as they are. They stand packed behind a zero byte, which ends what the loader runs at once.
const COMPILE: &str = r#"import os,marshal,zlib
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

/// The script to send to one node. Nearly all of it is the same for every node and held once.
#[derive(Debug, Clone)]
pub struct Source {
    head: String,
    body: &'static [u8],
    tail: String,
}

impl Source {
    /// Returns the number of bytes of all parts.
    #[expect(clippy::len_without_is_empty, reason = "a script is never empty")]
    pub fn len(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }

    /// Returns what to send, in order.
    pub fn parts(&self) -> [&[u8]; 3] {
        [self.head.as_bytes(), self.body, self.tail.as_bytes()]
    }
}

/// Returns the script to send once the loader has announced `interpreter`, with its end mark for sh.
pub fn source(interpreter: Interpreter, settings: &Settings<'_>) -> Source {
    let node = plain(settings.node);
    match interpreter {
        Interpreter::Python => written(interpreter, settings, &format!("\"{node}\""), 0),
        Interpreter::Shell => written(interpreter, settings, &node, 0),
    }
}

/// Writes the script for a node whose name is this expression, with frames in pieces of `short`
/// bytes unless that is 0.
fn written(interpreter: Interpreter, settings: &Settings<'_>, node: &str, short: usize) -> Source {
    let interval = seconds(settings.interval.max(MIN_INTERVAL));
    let deadman = settings.deadman.as_secs().max(1);
    match interpreter {
        Interpreter::Python => Source {
            head: format!(
                "NODE={node}\nINTERVAL={interval}\nDEADMAN={deadman}\nSHORT={short}\n{COMPILE}\0"
            ),
            body: PACKED,
            tail: String::new(),
        },
        Interpreter::Shell => Source {
            head: format!(
                "NODE={node} INTERVAL={interval} DEADMAN={deadman} SHORT={}\n",
                if short == 0 { String::new() } else { short.to_string() }
            ),
            body: BARE_SHELL.as_bytes(),
            tail: format!("{}\n", plain(settings.nonce)),
        },
    }
}

/// Leaves of a name only what means nothing to Python, sh and JSON; a validated name stays as it is.
fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_ascii_alphanumeric() || "._:@[]+-".contains(*c)).collect()
}

/// Returns a number of seconds as all readers take it: digits, a point, digits.
fn seconds(time: Duration) -> String {
    let millis = time.as_millis();
    let fraction = format!("{:03}", millis % 1000);
    let fraction = fraction.trim_end_matches('0');
    format!("{}.{}", millis / 1000, if fraction.is_empty() { "0" } else { fraction })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is to be read as text of a script.
    fn text(interpreter: Interpreter, settings: &Settings<'_>) -> String {
        let source = source(interpreter, settings);
        let bytes = source.parts().concat();
        assert_eq!(bytes.len(), source.len());
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
        let settings = Settings::new("gpu[01]:22", "n0nce");
        let python = text(Interpreter::Python, &settings);
        let shell = text(Interpreter::Shell, &settings);
        assert!(python.is_ascii() && shell.is_ascii());
        assert!(python.starts_with("NODE=\"gpu[01]:22\"\nINTERVAL=1.0\nDEADMAN=30\nSHORT=0\n"));
        assert!(shell.starts_with("NODE=gpu[01]:22 INTERVAL=1.0 DEADMAN=30 SHORT=\n"));
        assert!(shell.ends_with("\nn0nce\n"));
    }

    #[test]
    fn a_name_cannot_become_code() {
        let settings = Settings::new("a\";import os#$(id)`id`\n'", "n;id");
        let python = text(Interpreter::Python, &settings);
        let shell = text(Interpreter::Shell, &settings);
        assert!(python.starts_with("NODE=\"aimportosidid\"\n"));
        assert!(shell.starts_with("NODE=aimportosidid INTERVAL"));
        assert!(shell.ends_with("\nnid\n"));
    }

    #[test]
    fn seconds_are_written_without_exponents() {
        for (millis, text) in [(50, "0.05"), (250, "0.25"), (1000, "1.0"), (3_600_125, "3600.125")]
        {
            assert_eq!(seconds(Duration::from_millis(millis)), text);
        }
    }
}
