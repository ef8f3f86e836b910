//! Damaged recordings: what is whole is played, and nothing panics.

use std::fs;
use std::path::{Path, PathBuf};

use gtop::internals::record::{Recording, RecordingError};
use gtop::internals::sim::FleetSpec;
use gtop::internals::source::replay::Recordings;
use tempfile::TempDir;

use super::{HISTORY, Session, after, options, seconds, small_recording};

struct Damaged {
    _folder: TempDir,
    path: PathBuf,
}

impl Damaged {
    fn new(bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("damaged.gtop");
        fs::write(&path, bytes).unwrap();
        Self { _folder: folder, path }
    }
}

/// Opens a recording and plays it to its end; returns the end, in seconds since the start.
fn played_seconds(path: &Path) -> Result<u64, RecordingError> {
    let recordings = Recordings::open([path])?;
    let end = recordings.end().unwrap_or(super::START);
    let fleet = recordings.fleet_at(end, HISTORY);
    assert!(fleet.nodes.len() <= 2);
    Ok(seconds(end))
}

#[test]
fn a_recording_cut_at_any_byte_loses_at_most_its_last_group() {
    let (bytes, _) = small_recording(6);
    let recording = Damaged::new(&bytes);
    let ends = Recording::open(&recording.path).unwrap().group_ends();
    for cut in 0..bytes.len() {
        let damaged = Damaged::new(&bytes[..cut]);
        let whole =
            ends.iter().filter(|(end, _)| *end <= cut as u64).map(|(_, at)| *at).next_back();
        match (played_seconds(&damaged.path), whole) {
            (Ok(seconds), Some(at)) => {
                let expected = super::seconds(at);
                assert!(seconds >= expected, "cut at {cut}: {seconds} of {expected} s");
            }
            (Err(RecordingError::Empty(_) | RecordingError::Foreign(_)), None) => {}
            (played, whole) => panic!("cut at {cut}: {played:?}, {whole:?}"),
        }
    }
}

#[test]
fn the_next_run_cuts_off_an_incomplete_end_and_goes_on() {
    let (bytes, _) = small_recording(36);
    for cut in (bytes.len() / 2..bytes.len()).step_by(397) {
        let damaged = Damaged::new(&bytes[..cut]);
        let before = played_seconds(&damaged.path).unwrap();
        let mut session =
            Session::at(&damaged.path, &FleetSpec::busy(2, 1, 1, 3), after(100), options());
        session.run(4);
        drop(session);
        let recordings = Recordings::open([damaged.path.as_path()]).unwrap();
        assert_eq!(recordings.loss(), None, "cut at {cut}");
        let spans: Vec<_> = recordings.spans().iter().map(|(_, end)| seconds(*end)).collect();
        assert_eq!(spans, [before, 103], "cut at {cut}");
        let status = std::process::Command::new("zstd").arg("-tq").arg(&damaged.path).status();
        assert!(status.unwrap().success(), "cut at {cut}");
    }
}

#[test]
fn flipped_bits_lose_a_group_and_never_panic() {
    let (bytes, _) = small_recording(70);
    let mut lost = 0;
    for at in (0..bytes.len()).step_by(67) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let damaged = Damaged::new(&damaged);
        match played_seconds(&damaged.path) {
            // Bits of an index or of a header that nobody needs may change nothing.
            Ok(seconds) => assert!(seconds >= 66, "byte {at}: {seconds} s"),
            Err(RecordingError::Foreign(_)) => lost += 1,
            Err(error) => panic!("byte {at}: {error}"),
        }
    }
    // Only the first group, which identifies the file, must be whole.
    assert!(lost < 8, "{lost} positions");
}

#[test]
fn what_is_no_recording_is_named_and_left_alone() {
    let compressed = |text: &str| zstd_of(text.as_bytes());
    let newer = r#"{"at":1.0,"start":{"gtop":2,"version":"9"}}"#;
    for (bytes, expected) in [
        (b"timestamp,node\n1,2\n".to_vec(), "is not a recording of gtop"),
        (vec![0; 100_000], "is not a recording of gtop"),
        (compressed("hello\n"), "is not a recording of gtop"),
        (compressed("{\"at\":1}\n"), "is not a recording of gtop"),
        (compressed(newer), "is of format 2; this gtop reads format 1"),
    ] {
        let file = Damaged::new(&bytes);
        let error = Recording::open(&file.path).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        let clock = gtop::internals::time::Clock::fixed(super::START);
        let error = gtop::internals::record::Recorder::start(&file.path, options(), clock);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("nothing was written to it"), "{error}");
        assert_eq!(fs::read(&file.path).unwrap(), bytes);
    }
}

fn zstd_of(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut process = std::process::Command::new("zstd")
        .args(["-qc"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = process.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    let writing = std::thread::spawn(move || input.write_all(&bytes));
    let output = process.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();
    output.stdout
}

#[test]
fn hostile_lines_are_passed_by() {
    let header = r#"{"at":1790000000.0,"start":{"gtop":1,"title":"a\u001b[31m"}}"#;
    let name = "x".repeat(300);
    let deep = "[".repeat(100_000);
    let lines = [
        r#"{"at":1e308,"node":"a","link":{"state":"up"}}"#.to_owned(),
        r#"{"at":-1e308,"nodes":["a","a","b\u0007","--x"]}"#.to_owned(),
        r#"{"at":9223372036854775808,"nodes":[]}"#.to_owned(),
        format!(r#"{{"at":1790000001.0,"nodes":["gpu01","{name}"]}}"#),
        format!(r#"{{"at":1790000001.0,"node":"gpu01","body":{deep}}}"#),
        format!(r#"{{"at":1790000001.0,"jobs":{deep}}}"#),
        r#"{"at":1790000001.5,"node":"gpu01","interval":-5}"#.to_owned(),
        r#"{"at":1790000001.5,"node":"gpu01","interval":1e300}"#.to_owned(),
        r#"{"at":1790000001.5,"node":"gpu01","link":{"state":"opening","attempt":4294967296}}"#.to_owned(),
        r#"{"at":1790000001.6,"node":"gpu01","link":{"state":"opening","attempt":1}}"#.to_owned(),
        r#"{"at":1790000001.6,"node":"gpu01","link":{"state":"down","fault":"\u001b]0;x\u0007","detail":"\u202e"}}"#.to_owned(),
        r#"{"at":1790000001.6,"mark":"down","text":"\u001b[2Jx"}"#.to_owned(),
        r#"{"at":1790000002.0,"nodes":["gpu01"],"jobs":{"jobs":[{"id":"1; rm","limit":-1},{"id":"2","limit":1e300,"name":"\u001b"}],"at":1e300}}"#.to_owned(),
        "\u{0}".repeat(1000),
    ];
    let text = std::iter::once(header.to_owned()).chain(lines).collect::<Vec<_>>().join("\n");
    let file = Damaged::new(&zstd_of(text.as_bytes()));
    let recordings = Recordings::open([file.path.as_path()]).unwrap();
    assert_eq!(recordings.title(), "a [31m");
    let fleet = recordings.fleet_at(after(3), HISTORY);
    assert_eq!(fleet.nodes.len(), 1);
    assert_eq!(
        fleet.nodes[0].fault().unwrap().message(),
        "session lost:  ]0;x".replace(":  ", ": ")
    );
    assert_eq!(fleet.jobs.unwrap().jobs.len(), 1);
    let marks = Recording::open(&file.path).unwrap().marks().to_vec();
    assert_eq!(&*marks[0].text, "[2Jx");
}

#[test]
fn a_decompression_bomb_is_refused_in_bounded_memory() {
    let header = zstd_of(br#"{"at":1790000000.0,"start":{"gtop":1}}"#);
    let bomb = zstd_of(&vec![b' '; 256 << 20]);
    let file = Damaged::new(&[header, bomb].concat());
    let recordings = Recordings::open([file.path.as_path()]).unwrap();
    assert!(recordings.loss().is_some());
}
