//! Decodes the evidence of a node for how its scheduler numbers its devices.

use std::sync::Arc;
use std::time::Duration;

use crate::scheduler::SchedulerKind;
use crate::wire::body::{self, Raw};
use crate::wire::checked::sanitize_name;
use gtop_local::text::sanitize_shared;
use gtop_local::time::Timestamp;
use gtop_model::{
    ConfigurationState, DaemonDevices, DeviceEvidence, DriverDevice, JobDeviceFiles, JobId,
    SliceCapability,
};

mod config;
mod list;
mod name_ranges;

/// Maximum number of devices of a list: 8 cards of 7 slices are 56.
const MAX_LISTED: usize = 1024;
/// Maximum length of the device files of one device.
const MAX_FILES_LENGTH: usize = 512;
/// Maximum number of devices of the driver, and of a job.
const MAX_DEVICES: usize = 256;
/// Maximum number of slices, and of jobs.
const MAX_PARTS: usize = 1024;
/// Maximum length of an error.
const MAX_ERROR_LENGTH: usize = 200;
/// A later time of a start, in seconds since 1970, is wrong.
const MAX_TIME: f64 = 1e11;

pub(super) fn evidence(sent: &body::Evidence) -> DeviceEvidence {
    let config = sent.config.as_deref();
    let (files, jobs) = (sent.files.iter().take(MAX_DEVICES), sent.jobs.iter().take(MAX_PARTS));
    let devices = sent.devices.iter().take(MAX_DEVICES);
    let slices = sent.slices.iter().take(MAX_PARTS);
    DeviceEvidence {
        is_complete: sent.complete,
        daemon: sent.daemon.as_ref().map(daemon).unwrap_or_default(),
        configuration: sent.configuration.as_ref().map(configuration).unwrap_or_default(),
        config: config.and_then(|lines| config::parse(lines, sent.node.as_deref())).map(Arc::new),
        file_minors: files
            .map(|(file, minor)| (sanitize_shared(file, MAX_FILES_LENGTH), *minor))
            .collect(),
        driver_devices: devices
            .map(|(minor, address, uuid)| DriverDevice {
                minor: *minor,
                address: sanitize_name(address),
                uuid: uuid.as_deref().map(sanitize_name),
            })
            .collect(),
        capabilities: slices
            .map(|&(number, minor, gpu_instance, compute_instance)| SliceCapability {
                number,
                minor,
                gpu_instance,
                compute_instance,
            })
            .collect(),
        job_devices: jobs
            .filter_map(|(job, sent)| {
                let minors = sent.as_deref().map(minors);
                Some(JobDeviceFiles { job: JobId::new(job)?, minors })
            })
            .collect(),
        openable: sent.openable.as_deref().map(minors),
    }
}

fn daemon(sent: &body::Daemon) -> DaemonDevices {
    let (list, unreadable) = match sent.list.as_deref().map(list::parse) {
        Some(Ok(list)) => (Some(list.into()), None),
        Some(Err(why)) => (None, Some(why)),
        None => (None, None),
    };
    DaemonDevices {
        // The probe asks the daemon of no other.
        scheduler: SchedulerKind::default().profile(),
        error: sent.error.as_deref().or(unreadable).filter(|_| list.is_none()).map(error_text),
        list,
        started_at: time(&sent.started),
        version: sent.version.as_deref().map(sanitize_name),
    }
}

fn configuration(sent: &body::Configuration) -> ConfigurationState {
    ConfigurationState {
        changed_at: time(&sent.changed),
        checked_at: time(&sent.checked),
        is_cached: sent.cached,
        confines_jobs: sent.constrained,
        confinement_changed_at: time(&sent.constrained_changed),
    }
}

/// Returns a time that can be one.
fn time(sent: &Raw<f64>) -> Option<Timestamp> {
    let seconds = sent.value().filter(|seconds| (1.0..MAX_TIME).contains(seconds))?;
    let since_1970 = Duration::try_from_secs_f64(seconds).ok()?;
    Some(Timestamp::default().plus(since_1970))
}

fn error_text(text: &str) -> Arc<str> {
    sanitize_shared(text, MAX_ERROR_LENGTH)
}

fn minors(sent: &[u32]) -> Arc<[u32]> {
    sent.iter().copied().take(MAX_DEVICES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(sent: &str) -> DeviceEvidence {
        evidence(&serde_json::from_str(sent).unwrap())
    }

    #[test]
    fn nothing_is_known_of_what_is_not_sent() {
        assert_eq!(decoded("{}"), DeviceEvidence::default());
        let empty = decoded(r#"{"daemon":{"list":[]},"config":[],"openable":[]}"#);
        assert_eq!(empty.daemon.list.as_deref(), Some(&[][..]));
        assert_eq!(empty.config.as_deref(), Some(&gtop_model::DeviceConfig::default()));
        assert_eq!(empty.openable.as_deref(), Some(&[][..]));
    }

    #[test]
    fn each_part_is_decoded() {
        let decoded = decoded(
            r#"{"node":"n1","daemon":{"started":1700000050,"version":"22.05.8","list":[
                  "daemon-n1: Gres Name=gpu Type=h100 Count=2 Index=0 ID=7696487 File=/dev/nvidia[1-2] (null)"]},
                "configuration":{"changed":1700000040.5,"checked":1700000060,"cached":true,"constrained":false,
                  "constrained_changed":1700000030},"files":{"/dev/gpu-a":3,"/dev/nvidia0":null},
                "config":["AutoDetect=nvml"],"devices":[[1,"0000:17:00.0","GPU-a"],[0,"0000:3d:00.0",null]],
                "slices":[[66,0,7,null],[67,0,7,1]],"jobs":{"42":[0,2],"43":[],"44":null},"openable":[0]}"#,
        );
        let daemon = &decoded.daemon;
        assert_eq!(
            (daemon.started_at, daemon.version.as_deref()),
            (Some(Timestamp::from_micros(1_700_000_050_000_000)), Some("22.05.8"))
        );
        let configuration = ConfigurationState {
            changed_at: Some(Timestamp::from_micros(1_700_000_040_500_000)),
            checked_at: Some(Timestamp::from_micros(1_700_000_060_000_000)),
            is_cached: true,
            confines_jobs: Some(false),
            confinement_changed_at: Some(Timestamp::from_micros(1_700_000_030_000_000)),
        };
        assert_eq!(decoded.configuration, configuration);
        let minors = ["/dev/gpu-a", "/dev/nvidia0", "/dev/nvidia1", "/dev/other/nvidia1"];
        let minors = minors.map(|file| decoded.minor_of(file));
        assert_eq!(minors, [Some(3), None, Some(1), None]);
        let files: Vec<&str> =
            daemon.list.iter().flat_map(|list| list.iter()).map(|device| &*device.files).collect();
        assert_eq!((files, &daemon.error), (vec!["/dev/nvidia1", "/dev/nvidia2"], &None));
        assert_eq!(decoded.config.unwrap().detection.as_deref(), Some("nvml"));
        let devices: Vec<_> = decoded
            .driver_devices
            .iter()
            .map(|device| (device.minor, &*device.address, device.uuid.as_deref()))
            .collect();
        assert_eq!(devices, [(1, "0000:17:00.0", Some("GPU-a")), (0, "0000:3d:00.0", None)]);
        let slices: Vec<_> = decoded
            .capabilities
            .iter()
            .map(|slice| (slice.number, slice.minor, slice.gpu_instance, slice.compute_instance))
            .collect();
        assert_eq!(slices, [(66, 0, 7, None), (67, 0, 7, Some(1))]);
        let jobs: Vec<_> = decoded
            .job_devices
            .iter()
            .map(|job| (job.job.as_str(), job.minors.as_deref()))
            .collect();
        assert_eq!(jobs, [("42", Some(&[0, 2][..])), ("43", Some(&[])), ("44", None)]);
        assert_eq!(decoded.openable.as_deref(), Some(&[0][..]));
    }

    #[test]
    fn a_hostile_node_is_bounded_and_sanitized() {
        let found = decoded(
            r#"{"daemon":{"started":-5,"version":"a\u001b[2Jb","error":"x\ny"},"jobs":{"1\u001b[2J":[1],"7":[2]},
                "devices":[[1,"\u001b[31m","GPU-\n"]]}"#,
        );
        assert_eq!(
            (found.daemon.started_at, found.daemon.version.as_deref()),
            (None, Some("a [2Jb"))
        );
        assert!(!found.daemon.error.unwrap().contains('\n'));
        assert_eq!(found.job_devices.len(), 1);
        assert!(!found.driver_devices[0].address.contains('\u{1b}'));
        let unreadable = decoded(
            r#"{"daemon":{"list":["Gres Name=gpu Count=1 File=/dev/nvidia[0-4294967295]"]}}"#,
        );
        assert_eq!((unreadable.daemon.list, unreadable.daemon.error.is_some()), (None, true));
        let many: Vec<_> = (0..5000).map(|minor| (minor, String::new(), None)).collect();
        let sent = body::Evidence {
            devices: many,
            openable: Some((0..5000).collect()),
            ..body::Evidence::default()
        };
        let found = evidence(&sent);
        assert_eq!(
            (found.driver_devices.len(), found.openable.unwrap().len()),
            (MAX_DEVICES, MAX_DEVICES)
        );
    }
}
