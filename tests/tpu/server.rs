//! A stub of a runtime's metrics service: a real gRPC server, or one with a fault.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::LazyLock;

pub(crate) const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stubs/tpu_metrics.py");

/// A Python with grpcio: that of the environment made by `tests/run`, or else `python3`.
static PYTHON: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let installed =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).parent()?.join("python-grpcio/bin/python");
    [installed, "python3".into()].into_iter().find(|python| {
        let status =
            Command::new(python).args(["-c", "import grpc"]).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    })
});

/// Returns that Python; prints that the test is skipped if there is none.
pub(crate) fn python() -> Option<PathBuf> {
    if PYTHON.is_none() {
        eprintln!("skipped: no Python with grpcio; tests/run installs it");
    }
    PYTHON.clone()
}

/// Returns unused ports, sorted.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind(("127.0.0.1", 0)).unwrap()).collect();
    let mut ports: Vec<u16> =
        listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
    ports.sort_unstable();
    ports
}

/// Formats ports as a comma-separated list.
pub(crate) fn join_ports(ports: &[u16]) -> String {
    ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}

/// A running server, killed on drop.
pub(crate) struct Server {
    pub(crate) child: Child,
    _stdin: Option<ChildStdin>,
}

impl Server {
    /// Starts a real gRPC server; `None` without grpcio.
    pub(crate) fn start(ports: &[u16], arguments: &[&str]) -> Option<Self> {
        Some(Self::spawn(&python()?, ports, arguments))
    }

    /// Starts a server with a fault, under any Python.
    pub(crate) fn start_with_fault(port: u16, fault: &str) -> Self {
        Self::spawn(&PathBuf::from("python3"), &[port], &["--fault", fault])
    }

    fn spawn(python: &PathBuf, ports: &[u16], arguments: &[&str]) -> Self {
        let mut child = Command::new(python)
            .arg(SCRIPT)
            .args(["--ports", &join_ports(ports)])
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
