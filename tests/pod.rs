//! The workers of a TPU pod, from stub metadata servers: a correct one, a slow one, and malformed ones.

use std::process::{Command, Output};
use std::time::Duration;

use gtop_collect::inventory::{MetadataError, Pod, PodEnv, PodError, Roster, find_pod};
use gtop_collect::transport::Reach;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

const ENDPOINTS: &str = "unknown:unknown:10.130.0.22,unknown:unknown:10.130.0.24,unknown:unknown:10.130.0.23,\
                         unknown:unknown:10.130.0.25";

const ENVIRONMENT: &str = "ACCELERATOR_TYPE: 'v4-32'\nCHIPS_PER_HOST_BOUNDS: '2,2,1'\nWORKER_ID: '3'\n\
     MEGASCALE_NUM_SLICES: '2'\nMEGASCALE_SLICE_ID: '1'\n";

/// How a stub metadata server behaves.
#[derive(Clone, Copy)]
enum StubBehaviour {
    /// Serves these values as the real server does.
    Right(&'static [(&'static str, &'static str)]),
    /// Serves a list of workers, chunked.
    Chunks(&'static str),
    /// Sends these bytes for every request.
    Bytes(&'static [u8]),
    /// Sends a header and then an endless body.
    Endless(&'static [u8]),
    /// Never responds.
    Silent,
    /// Sends one byte every 100 ms.
    Drops,
}

const RIGHT: &[(&str, &str)] = &[
    ("attributes/worker-network-endpoints", ENDPOINTS),
    ("attributes/agent-worker-number", "2\n"),
    ("attributes/accelerator-type", "v4-32"),
    ("attributes/tpu-env", ENVIRONMENT),
];

/// A worker number out of range, and an accelerator type with an escape sequence.
const INVALID_VALUES: &[(&str, &str)] = &[
    ("attributes/worker-network-endpoints", ENDPOINTS),
    ("attributes/agent-worker-number", "77"),
    ("attributes/accelerator-type", "v4\u{1b}[31m"),
];

const HTML: &[(&str, &str)] = &[("attributes/worker-network-endpoints", "<html>a:b:c</html>")];

/// Starts a stub metadata server; returns the environment that points to it.
async fn serve(behaviour: StubBehaviour) -> PodEnv {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = vec![0; 4096];
                let count = stream.read(&mut request).await.unwrap_or(0);
                let request = String::from_utf8_lossy(request.get(..count).unwrap()).into_owned();
                let response = response(behaviour, &request);
                stream.write_all(&response).await.ok();
                match behaviour {
                    StubBehaviour::Endless(piece) => {
                        while stream.write_all(&piece.repeat(1000)).await.is_ok() {}
                    }
                    StubBehaviour::Silent => std::future::pending().await,
                    StubBehaviour::Drops => loop {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        stream.write_all(b"x").await.ok();
                    },
                    StubBehaviour::Right(_)
                    | StubBehaviour::Chunks(_)
                    | StubBehaviour::Bytes(_) => {}
                }
            });
        }
    });
    PodEnv { metadata: Some(address), ..PodEnv::default() }
}

fn response(behaviour: StubBehaviour, request: &str) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nMetadata-Flavor: Google\r\nContent-Type: application/text\r\n";
    match behaviour {
        StubBehaviour::Right(values) => {
            assert!(request.contains("\r\nMetadata-Flavor: Google\r\n"), "{request}");
            let path = request.split(' ').nth(1).unwrap();
            let path = path.strip_prefix("/computeMetadata/v1/instance/").unwrap();
            match values.iter().find(|(name, _)| *name == path) {
                Some((_, text)) => {
                    format!("{head}Content-Length: {}\r\n\r\n{text}", text.len()).into_bytes()
                }
                None => b"HTTP/1.1 404 Not Found\r\nMetadata-Flavor: Google\r\nContent-Length: 2\r\n\r\nno".to_vec(),
            }
        }
        StubBehaviour::Chunks(text) => {
            let (first, second) = text.split_at(text.len() / 2);
            format!(
                "{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{first}\r\n{:x};a=b\r\n{second}\r\n0\r\n\r\n",
                first.len(),
                second.len()
            )
            .into_bytes()
        }
        StubBehaviour::Bytes(bytes) => bytes.to_vec(),
        StubBehaviour::Endless(_) => format!("{head}\r\n").into_bytes(),
        StubBehaviour::Silent => Vec::new(),
        StubBehaviour::Drops => format!("{head}Content-Length: 100000\r\n\r\n").into_bytes(),
    }
}

async fn find_pod_with(behaviour: StubBehaviour) -> Result<Pod, PodError> {
    Box::pin(find_pod(&serve(behaviour).await)).await
}

fn metadata(error: PodError) -> MetadataError {
    let PodError::Metadata(error) = error else { unreachable!("{error}") };
    error
}

#[tokio::test]
async fn workers_are_in_the_order_of_their_numbers() {
    let pod = find_pod_with(StubBehaviour::Right(RIGHT)).await.unwrap();
    assert_eq!(pod.workers, ["10.130.0.22", "10.130.0.24", "10.130.0.23", "10.130.0.25"]);
    assert_eq!((pod.this_worker, pod.accelerator.as_deref()), (Some(2), Some("v4-32")));
    let text = pod.slice.map(|slice| slice.text());
    assert_eq!(text.as_deref(), Some("slice 1 of 2; the other one is not shown"));
    let mut roster = Roster::default();
    roster.add_pod(&pod).unwrap();
    let name_and_reach = |index: usize| {
        let target = roster.targets.get(index).unwrap();
        (target.name.as_str().to_owned(), target.reach == Reach::Local)
    };
    assert_eq!(name_and_reach(0), ("w0 10.130.0.22".to_owned(), false));
    assert_eq!(name_and_reach(2), ("w2 10.130.0.23".to_owned(), true));
    assert_eq!(name_and_reach(3), ("w3 10.130.0.25".to_owned(), false));
    // This machine is not added again.
    roster.add_local();
    assert_eq!(roster.targets.len(), 4);
    roster.exclude(&["w[0-1],10.130.0.25".to_owned()]).unwrap();
    assert_eq!(roster.targets.len(), 1);
}

#[tokio::test]
async fn missing_values_are_read_from_tpu_env_or_left_out() {
    const LESS: &[(&str, &str)] = &[
        ("attributes/worker-network-endpoints", "a:b:10.130.0.22,a:b:fd00::7"),
        ("attributes/tpu-env", "WORKER_ID: '1'\nACCELERATOR_TYPE: 'v5litepod-8'\n"),
    ];
    let pod = find_pod_with(StubBehaviour::Right(LESS)).await.unwrap();
    assert_eq!(pod.workers, ["10.130.0.22", "fd00::7"]);
    assert_eq!((pod.this_worker, pod.accelerator.as_deref()), (Some(1), Some("v5litepod-8")));
    let pod = find_pod_with(StubBehaviour::Right(INVALID_VALUES)).await.unwrap();
    assert_eq!((pod.this_worker, pod.accelerator), (None, None));
}

#[tokio::test]
async fn a_response_may_be_chunked() {
    let pod = find_pod_with(StubBehaviour::Chunks(ENDPOINTS)).await.unwrap();
    assert_eq!(pod.workers.len(), 4);
}

#[tokio::test]
async fn thousands_of_workers_are_all_parsed() {
    let entries = (0..3000).map(|n| format!("unknown:unknown:10.1.{}.{}", n / 250, n % 250));
    let text = entries.collect::<Vec<_>>().join(",");
    let text: &'static str = Box::leak(text.into_boxed_str());
    let pod = find_pod_with(StubBehaviour::Chunks(text)).await.unwrap();
    assert_eq!(pod.workers.len(), 3000);
}

#[tokio::test]
async fn other_servers_are_not_taken_for_a_metadata_server() {
    let page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>Sign in</html>";
    let other = b"HTTP/1.1 200 OK\r\nMetadata-Flavor: Gogle\r\nContent-Length: 1\r\n\r\nx";
    for bytes in [&page[..], other] {
        let error = metadata(find_pod_with(StubBehaviour::Bytes(bytes)).await.unwrap_err());
        assert!(matches!(error, MetadataError::NotMetadataServer(_)), "{error}");
    }
    for bytes in [
        &b"SSH-2.0-OpenSSH_9.2\r\n"[..],
        b"",
        b"\xff\xfe\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nMetadata-Flavor: Google\r\nContent-Length: 9\r\n\r\nx",
    ] {
        let error = metadata(find_pod_with(StubBehaviour::Bytes(bytes)).await.unwrap_err());
        assert!(matches!(error, MetadataError::NotHttp(_)), "{error}");
    }
    let refusal = b"HTTP/1.1 403 Forbidden\r\nMetadata-Flavor: Google\r\nContent-Length: 0\r\n\r\n";
    let error = metadata(find_pod_with(StubBehaviour::Bytes(refusal)).await.unwrap_err());
    assert!(
        error.to_string().contains("answers 403 when asked for worker-network-endpoints"),
        "{error}"
    );
    let error = metadata(find_pod_with(StubBehaviour::Right(&[])).await.unwrap_err());
    assert!(error.to_string().contains("has no worker-network-endpoints"), "{error}");
    let error = find_pod_with(StubBehaviour::Right(HTML)).await.unwrap_err().to_string();
    assert!(error.contains("entry 0 of the workers"), "{error}");
}

#[tokio::test]
async fn a_slow_or_endless_response_is_an_error() {
    for behaviour in [StubBehaviour::Silent, StubBehaviour::Drops] {
        let error = metadata(find_pod_with(behaviour).await.unwrap_err());
        assert!(matches!(error, MetadataError::TimedOut(_)), "{error}");
    }
    let error = metadata(find_pod_with(StubBehaviour::Endless(b"10.0.0.1,")).await.unwrap_err());
    assert!(matches!(error, MetadataError::TooLarge(_)), "{error}");
    let large =
        b"HTTP/1.1 200 OK\r\nMetadata-Flavor: Google\r\nContent-Length: 99999999999\r\n\r\n";
    let error = metadata(find_pod_with(StubBehaviour::Bytes(large)).await.unwrap_err());
    assert!(matches!(error, MetadataError::TooLarge(_)), "{error}");
}

#[tokio::test]
async fn workers_on_kubernetes_are_read_from_the_environment() {
    let env = PodEnv {
        hostnames: Some("tpu-0.tpu-svc, tpu-1.tpu-svc,10.4.0.9".to_owned()),
        worker: Some("1".to_owned()),
        accelerator: Some("v5litepod-16".to_owned()),
        ..PodEnv::default()
    };
    let pod = Box::pin(find_pod(&env)).await.unwrap();
    assert_eq!(pod.workers, ["tpu-0.tpu-svc", "tpu-1.tpu-svc", "10.4.0.9"]);
    assert_eq!((pod.this_worker, pod.accelerator.as_deref()), (Some(1), Some("v5litepod-16")));
    assert_eq!(pod.slice, None);
    // As on GKE, where several slices work together.
    let in_slices = |slice: &str, slices: &str| {
        let [slice, slices] = [slice, slices].map(|text| Some(text.to_owned()));
        PodEnv { slice, slices, ..env.clone() }
    };
    for (slice, slices, text) in [
        ("1", "4", Some("slice 1 of 4; the other 3 are not shown")),
        ("0", "2", Some("slice 0 of 2; the other one is not shown")),
        ("x", "4", Some("one of 4 slices; the other 3 are not shown")),
        ("0", "1", None),
        ("0", "99999999999", None),
    ] {
        let pod = Box::pin(find_pod(&in_slices(slice, slices))).await.unwrap();
        assert_eq!(pod.slice.map(|slice| slice.text()).as_deref(), text, "{slice} {slices}");
        let mut roster = Roster::default();
        roster.add_pod(&pod).unwrap();
        assert_eq!(roster.slice, pod.slice);
    }
    let env = PodEnv { hostnames: Some("a,-oProxyCommand=x".to_owned()), ..env };
    let error = Box::pin(find_pod(&env)).await.unwrap_err().to_string();
    assert!(error.contains("entry 1 of TPU_WORKER_HOSTNAMES"), "{error}");
}

#[test]
fn workers_are_read_from_a_file_of_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("podips.txt");
    std::fs::write(
        &file,
        "\u{feff}# my pod\r\n192.0.2.7\r\n\r\n192.0.2.8 # the second\n192.0.2.[9-10]\n",
    )
    .unwrap();
    let mut roster = Roster::default();
    roster.add_pod_file(&file).unwrap();
    let names: Vec<_> = roster.targets.iter().map(|target| target.name.as_str()).collect();
    assert_eq!(names, ["w0 192.0.2.7", "w1 192.0.2.8", "w2 192.0.2.9", "w3 192.0.2.10"]);
    assert!(roster.targets.iter().all(|target| target.reach != Reach::Local));
}

fn gtop(arguments: &[&str], metadata: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gtop"));
    command.args(arguments).env("GCE_METADATA_HOST", metadata).env("HOME", "/nowhere");
    for name in ["TPU_WORKER_HOSTNAMES", "TPU_WORKER_ID", "SSH_AUTH_SOCK"] {
        command.env_remove(name);
    }
    command.output().unwrap()
}

#[test]
fn without_a_pod_the_error_is_one_line() {
    for (address, text) in [
        ("127.0.0.1:1", "connection refused"),
        ("no.such.host.invalid", "no metadata server answers at no.such.host.invalid"),
        ("a b", "is not HOST or HOST:PORT"),
    ] {
        let output = gtop(&["--once", "--tpu-pod"], address);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.starts_with("gtop: ") && error.contains(text), "{error}");
        assert!(error.contains("--pod-ips=FILE"), "{error}");
        assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{error}");
    }
    let output = gtop(&["--once", "--pod-ips=mine"], "127.0.0.1:1");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("/nowhere/mine.txt"), "{error}");
    let output = gtop(&["doctor", "--tpu-pod", "--json"], "127.0.0.1:1");
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(
        report.contains(r#""name":"tpu-pod""#) && report.contains("connection refused"),
        "{report}"
    );
    assert_eq!(output.status.code(), Some(1));
}
