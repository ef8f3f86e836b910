//! Fuzzes recordings: any bytes are a recording or an error. The bytes are a file, the lines of one, or lines in columns.
#![no_main]

use std::time::Duration;

use gtop_collect::record::{block_of_columns, compress_lines};
use gtop_collect::source::replay::Recordings;
use libfuzzer_sys::fuzz_target;

const HEADER: &[u8] = b"{\"at\":1790000000.0,\"start\":{\"gtop\":2}}\n";

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let header = compress_lines(HEADER);
    let content = match first % 4 {
        0 => rest.to_vec(),
        1 => [&header, rest].concat(),
        2 => [header, compress_lines(rest)].concat(),
        _ => [header, block_of_columns(rest)].concat(),
    };
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let path = folder.path().join("fuzz.gtop");
    std::fs::write(&path, content).expect("a file");
    let Ok(recordings) = Recordings::open([path.as_path()]) else { return };
    let Some(end) = recordings.end() else { return };
    let fleet = recordings.fleet_at(end, Duration::from_secs(60));
    assert!(fleet.nodes.len() <= 16_384);
});
