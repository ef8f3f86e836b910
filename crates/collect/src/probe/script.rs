//! The scripts as they are sent: the same bytes for every node of a version of gtop.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::Interpreter;

/// The Python probe without comments and docstrings, compressed to a quarter, which also bounds what a session queues for
/// sending. `build.rs` makes all sources.
const PYTHON_SOURCE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/probe.py.z"));

/// The script of `gtop runs`, made in the same way.
const RUNS_SOURCE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/runs.py.z"));

/// The sh probe without its comments.
const SHELL_SOURCE: &str = include_str!(concat!(env!("OUT_DIR"), "/probe.sh"));

/// The Python probe before it is compressed.
const PYTHON_TEXT: &str = include_str!(concat!(env!("OUT_DIR"), "/probe.py"));

/// The script of `gtop runs` before it is compressed.
const RUNS_TEXT: &str = include_str!(concat!(env!("OUT_DIR"), "/runs.py"));

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

/// A script that gtop runs on nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// The probe for Python 3.6 or newer.
    Python,
    /// The probe for POSIX `sh`.
    Shell,
    /// The script of `gtop runs`, in Python.
    Runs,
}

impl From<Interpreter> for Script {
    fn from(interpreter: Interpreter) -> Self {
        match interpreter {
            Interpreter::Python => Self::Python,
            Interpreter::Shell => Self::Shell,
        }
    }
}

impl Script {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Python, Self::Shell, Self::Runs];

    /// Returns the word for it on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Shell => "shell",
            Self::Runs => "runs",
        }
    }

    /// Returns the parts to send, in order.
    pub const fn parts(self) -> [&'static [u8]; 3] {
        match self {
            Self::Python => [BOOTSTRAP.as_bytes(), b"\0", PYTHON_SOURCE],
            Self::Shell => [SHELL_SOURCE.as_bytes(), b"", b""],
            Self::Runs => [BOOTSTRAP.as_bytes(), b"\0", RUNS_SOURCE],
        }
    }

    /// Returns the number of bytes that are sent.
    pub const fn size(self) -> usize {
        let [first, second, third] = self.parts();
        first.len() + second.len() + third.len()
    }

    /// Returns the SHA-256 of what is sent, in hexadecimal digits.
    pub fn sha256(self) -> String {
        hex_sha256(&self.parts())
    }

    /// Returns the same as text: what is compressed in what is sent follows decompressed.
    pub fn readable(self) -> String {
        match self {
            Self::Python => format!("{BOOTSTRAP}{PYTHON_TEXT}"),
            Self::Shell => SHELL_SOURCE.to_owned(),
            Self::Runs => format!("{BOOTSTRAP}{RUNS_TEXT}"),
        }
    }
}

/// Returns the SHA-256 of all parts together, in hexadecimal digits.
pub(crate) fn hex_sha256(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        _ = write!(text, "{byte:02x}");
        text
    })
}
