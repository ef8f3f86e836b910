//! Parses the list of devices that `slurmd -G` prints.
//!
//! Each line is a record of one or more devices. The order of the lines, and within a line that of its files, is that of
//! the scheduler's indices. What a line calls `Index` is only the number at the end of its files.

use crate::wire::decode::evidence::MAX_LISTED;
use crate::wire::decode::evidence::config::{GresLine, device};
use crate::wire::decode::evidence::name_ranges::expand;
use gtop_model::ListedDevice;

/// Returns the devices in the order of the scheduler's indices. Lines about anything else are skipped; if one about
/// devices is malformed, there is no list, because what follows would have wrong indices.
pub(super) fn parse<S: AsRef<str>>(lines: &[S]) -> Result<Vec<ListedDevice>, &'static str> {
    let mut devices = Vec::new();
    for line in lines {
        let Some((_, record)) = line.as_ref().split_once("Gres Name=") else { continue };
        if record.split_whitespace().next() == Some("gpu") {
            devices.extend(record_devices(record).ok_or("its list is malformed or too long")?);
        }
        if devices.len() > MAX_LISTED {
            return Err("its list is too long");
        }
    }
    Ok(devices)
}

/// Returns the devices of a record, such as `gpu Type=h100 Count=2 Index=0 ID=7696487 File=/dev/nvidia[0-1] (null)`: one
/// for each file, or, if there are not as many, `Count` devices of all files.
fn record_devices(record: &str) -> Option<Vec<ListedDevice>> {
    let record = GresLine::new(record);
    let count: usize = record.value("Count")?.parse().ok().filter(|count| *count <= MAX_LISTED)?;
    let kind = record.value("Type").filter(|kind| *kind != "(null)");
    let files = record.value("File").filter(|file| *file != "(null)").unwrap_or_default();
    let files = expand(files, MAX_LISTED)?;
    if files.len() == count {
        return Some(files.iter().map(|file| device(kind, file)).collect());
    }
    Some(vec![device(kind, &files.join(",")); count])
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str =
        include_str!("../../../../../../tests/fixtures/slurm/device-lists-22.05.8.txt");

    /// Returns types and files, without their folder, of the devices in lines.
    fn listed(lines: &[&str]) -> Result<Vec<String>, &'static str> {
        let text = |device: &ListedDevice| {
            let files = device.files.replace("/run/lab/slurm/dev/", "").replace("nvidia-caps/", "");
            format!("{} {files}", device.kind.as_deref().unwrap_or("-"))
        };
        Ok(parse(lines)?.iter().map(text).collect())
    }

    /// Returns the recorded lines with this title.
    fn recorded(title: &str) -> Vec<&'static str> {
        let section = RECORDED.split("== ").find(|section| section.lines().next() == Some(title));
        section.unwrap().split_once("-- slurmd -G\n").unwrap().1.lines().collect()
    }

    #[test]
    fn the_order_of_real_lists_is_that_of_the_scheduler() {
        for (title, expected) in [
            (
                "backwards",
                "h100 nvidia3|h100 nvidia0|h100 nvidia1|h100 nvidia2|a100 nvidia4|a100 nvidia5",
            ),
            ("untyped", "- nvidia4|- nvidia5|- nvidia3|- nvidia0|- nvidia1|- nvidia2"),
            ("from-one", "- nvidia1|- nvidia2|- nvidia3|- nvidia4|- nvidia5|- nvidia6|- nvidia7"),
            ("gap", "- nvidia0|- nvidia1|- nvidia3|- nvidia4|- nvidia5|- nvidia6|- nvidia7"),
            (
                "slices",
                "1g.10gb nvidia0,nvidia-cap12,nvidia-cap21|2g.20gb nvidia1,nvidia-cap147,nvidia-cap156",
            ),
            ("shards", "- nvidia0|- nvidia1|- nvidia2"),
            ("count-only", ""),
            ("none", ""),
            (
                "detected",
                "h100 nvidia3|h100 nvidia2|a100 nvidia5|h100 nvidia1|h100 nvidia0|a100 nvidia4",
            ),
            (
                "detected-slices",
                "mig nvidia0,nvidia-cap21|mig nvidia1,nvidia-cap156|mig nvidia0,nvidia-cap30|mig nvidia1,nvidia-cap147",
            ),
            ("no-file", ""),
        ] {
            assert_eq!(listed(&recorded(title)).unwrap().join("|"), expected, "{title}");
        }
    }

    #[test]
    fn devices_without_files_of_their_own_keep_their_number() {
        let two = [
            "slurmd: Gres Name=gpu Type=t4 Count=2 ID=7696487 (null)",
            "x: Gres Name=gpu Count=1 File=/dev/dri/renderD128",
        ];
        assert_eq!(listed(&two).unwrap(), ["t4 ", "t4 ", "- /dev/dri/renderD128"]);
        let shared = ["Gres Name=gpu Count=2 File=/dev/a,/dev/b,/dev/c"];
        assert_eq!(listed(&shared).unwrap(), ["- /dev/a,/dev/b,/dev/c", "- /dev/a,/dev/b,/dev/c"]);
    }

    #[test]
    fn a_malformed_record_leaves_no_list() {
        let good = "Gres Name=gpu Count=1 File=/dev/nvidia0";
        for bad in [
            "Gres Name=gpu File=/dev/nvidia1",
            "Gres Name=gpu Count=-1 File=/dev/nvidia1",
            "Gres Name=gpu Count=99999999999999999999 File=/dev/nvidia1",
            "Gres Name=gpu Count=4294967295",
            "Gres Name=gpu Count=1 File=/dev/nvidia[0-4294967295]",
            "Gres Name=gpu Count=1 File=/dev/nvidia[5-1]",
            "Gres Name=gpu Count=1 File=/dev/nvidia[1",
        ] {
            assert!(listed(&[good, bad]).is_err(), "{bad}");
        }
        for other in
            ["", "error: gpu", "Gres Name=", "Gres Name=gpus Count=-1", "Gres Name=mps Count=x"]
        {
            assert_eq!(listed(&[good, other]).unwrap(), ["- /dev/nvidia0"], "{other}");
        }
        assert!(listed(&["Gres Name=gpu Count=1024"; 2]).is_err());
        let hostile = parse(&["Gres Name=gpu Type=\u{1b}[2J Count=1 File=/dev/\u{7}x"]).unwrap();
        assert!(!format!("{hostile:?}").contains("\\u{"), "{hostile:?}");
    }
}
