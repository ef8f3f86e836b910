//! Parses lines of `gres.conf`.

use crate::wire::checked::sanitize_name;
use crate::wire::decode::evidence::name_ranges::{contains, expand};
use crate::wire::decode::evidence::{MAX_FILES_LENGTH, MAX_LISTED};
use gtop_local::text::sanitize_shared;
use gtop_model::{DeviceConfig, ListedDevice};

/// Returns what the lines say of the devices of a node; `None` if it has too many, one is malformed, or lines are about
/// nodes and the node's name is not known.
pub(super) fn parse(lines: &[String], node: Option<&str>) -> Option<DeviceConfig> {
    let (mut of_all, mut of_node, mut devices) = (None, None, Vec::new());
    for line in lines {
        let line = GresLine::new(line);
        let nodes = line.value("NodeName");
        if let Some(nodes) = nodes
            && !contains(nodes, node?)
        {
            continue;
        }
        if let Some(detection) = line.value("AutoDetect") {
            *(if nodes.is_some() { &mut of_node } else { &mut of_all }) =
                Some(detection.to_ascii_lowercase());
        }
        if line.value("Name").is_some_and(|name| name.eq_ignore_ascii_case("gpu")) {
            devices.extend(line.devices()?);
        }
        if devices.len() > MAX_LISTED {
            return None;
        }
    }
    let detection = of_node.or(of_all).filter(|detection| detection != "off");
    Some(DeviceConfig {
        detection: detection.as_deref().map(sanitize_name),
        devices: devices.into(),
    })
}

/// The `Key=value` words of a line.
pub(super) struct GresLine<'a>(Vec<(&'a str, &'a str)>);

impl<'a> GresLine<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        let words = line.split_whitespace().filter_map(|word| word.split_once('='));
        Self(words.map(|(key, value)| (key, value.trim_matches('"'))).collect())
    }

    pub(super) fn value(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| *value)
    }

    /// Returns the devices of a line, in their order. A line with neither files nor a count has none: it only says of
    /// which type detected devices are.
    fn devices(&self) -> Option<Vec<ListedDevice>> {
        let kind = self.value("Type");
        if let Some(files) = self.value("File") {
            return Some(
                expand(files, MAX_LISTED)?.iter().map(|file| device(kind, file)).collect(),
            );
        }
        if let Some(files) = self.value("MultipleFiles") {
            return Some(vec![device(kind, &expand(files, MAX_LISTED)?.join(","))]);
        }
        let count: usize = self.value("Count").unwrap_or("0").parse().ok()?;
        (count <= MAX_LISTED).then(|| vec![device(kind, ""); count])
    }
}

pub(super) fn device(kind: Option<&str>, files: &str) -> ListedDevice {
    ListedDevice { kind: kind.map(sanitize_name), files: sanitize_shared(files, MAX_FILES_LENGTH) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the detection and the types and files of the devices that lines have for a node.
    fn parsed(lines: &[&str], node: Option<&str>) -> Option<String> {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        let config = parse(&lines, node)?;
        let text = |device: &ListedDevice| {
            format!("{}:{}", device.kind.as_deref().unwrap_or("-"), device.files)
        };
        let devices: Vec<String> = config.devices.iter().map(text).collect();
        Some(format!("{} {}", config.detection.as_deref().unwrap_or("none"), devices.join(" ")))
    }

    #[test]
    fn lines_count_if_they_are_of_the_node() {
        let lines = [
            "AutoDetect=nvml",
            "NodeName=gpu[01-04],big Name=gpu Type=a100 File=/dev/nvidia[2-3]",
            "nodename=gpu[05-08] name=gpu type=h100 file=/dev/nvidia[0-7]",
            "NodeName=gpu02 Name=gpu File=\"/dev/nvidia0\" Cores=0-3",
            "NodeName=gpu02 AutoDetect=Off Name=gpu MultipleFiles=/dev/nvidia1,/dev/nvidia-caps/nvidia-cap[12,21]",
            "NodeName=gpu02 Name=shard Count=9",
            "NodeName=big AutoDetect=rsmi",
            "NodeName=other Name=gpu Count=2 Type=x",
            "NodeName=third Name=gpu Type=x",
        ];
        for (node, expected) in [
            ("gpu01", "nvml a100:/dev/nvidia2 a100:/dev/nvidia3"),
            ("big", "rsmi a100:/dev/nvidia2 a100:/dev/nvidia3"),
            (
                "gpu02",
                "none a100:/dev/nvidia2 a100:/dev/nvidia3 -:/dev/nvidia0 \
                 -:/dev/nvidia1,/dev/nvidia-caps/nvidia-cap12,/dev/nvidia-caps/nvidia-cap21",
            ),
            ("other", "nvml x: x:"),
            ("third", "nvml "),
            ("login", "nvml "),
        ] {
            assert_eq!(parsed(&lines, Some(node)).as_deref(), Some(expected), "{node}");
        }
        assert_eq!(parsed(&lines, None), None);
        assert_eq!(
            parsed(&["Name=gpu File=/dev/nvidia0"], None).as_deref(),
            Some("none -:/dev/nvidia0")
        );
    }

    #[test]
    fn a_hostile_line_leaves_no_configuration() {
        for line in [
            "Name=gpu File=/dev/nvidia[0-4294967295]",
            "Name=gpu Count=-3",
            "Name=gpu Count=4294967295",
            "Name=gpu MultipleFiles=/dev/n[0-999999],/dev/m",
        ] {
            assert_eq!(parsed(&["AutoDetect=nvml", line], Some("n")), None, "{line}");
        }
        assert_eq!(
            parsed(&["NodeName=n[0-99999999] Name=gpu File=/x"], Some("n7")).as_deref(),
            Some("none -:/x")
        );
        assert!(parsed(&["Name=gpu Count=1024"; 2], Some("n")).is_none());
        assert_eq!(
            parsed(&["=", "===", "Name==gpu", "autodetect="], Some("n")).as_deref(),
            Some(" ")
        );
    }
}
