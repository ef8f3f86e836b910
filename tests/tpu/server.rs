//! A stub of a runtime's metrics service: a real gRPC server, or one that misbehaves.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::LazyLock;

pub(crate) const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stubs/tpu_metrics.py");

/// A Python that has grpcio: from the environment `tests/run` makes, or whichever has it.
static PYTHON: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let made = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).parent()?.join("grpcio/bin/python");
    [made, "python3".into()].into_iter().find(|python| {
        let tried = Command::new(python).args(["-c", "import grpc"]).stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    })
});

/// Returns that Python; says so where there is none.
pub(crate) fn python() -> Option<PathBuf> {
    if PYTHON.is_none() {
        eprintln!("skipped: no Python with grpcio; tests/run installs it");
    }
    PYTHON.clone()
}

/// Ports nobody listens on, in order.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
    let held: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind(("127.0.0.1", 0)).unwrap()).collect();
    let mut ports: Vec<u16> =
        held.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
    ports.sort_unstable();
    ports
}

/// Ports as they stand in a list.
pub(crate) fn list(ports: &[u16]) -> String {
    ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}

/// A running server; it ends with this.
pub(crate) struct Server {
    pub(crate) child: Child,
    _stdin: Option<ChildStdin>,
}

impl Server {
    /// Starts a real gRPC server; `None` where there is no grpcio.
    pub(crate) fn start(ports: &[u16], arguments: &[&str]) -> Option<Self> {
        Some(Self::run(&python()?, ports, arguments))
    }

    /// Starts one that misbehaves, for which any Python will do.
    pub(crate) fn misbehaving(port: u16, fault: &str) -> Self {
        Self::run(&PathBuf::from("python3"), &[port], &["--fault", fault])
    }

    fn run(python: &PathBuf, ports: &[u16], arguments: &[&str]) -> Self {
        let mut child = Command::new(python)
            .arg(SCRIPT)
            .args(["--ports", &list(ports)])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        assert_eq!(first, "up\n");
        Self { _stdin: child.stdin.take(), child }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}
