//! Parses the devices of jobs in the output of `scontrol show job -d`.
//!
//! The output can be forged: a job's name, comment or command may contain newlines and lines of a fake
//! record. A record counts only if its name is the one that `squeue` printed, and only up to the first
//! line that the user controls; contradicting records of a job are dropped.

use std::collections::BTreeMap;

use super::gres::{
    ParsedAllocation, allocated_memory, names_accelerators, parse_device_allocation,
};
use super::job_state::outcome;
use super::queue;
use super::records::RecordSplitter;
use gtop_model::{Bytes, DeviceAllocation, Job, JobId, JobOutcome, NodeName};

/// Details of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JobDetail {
    pub(super) sluid: Option<JobId>,
    /// Empty if not known.
    pub(super) devices: BTreeMap<NodeName, ParsedAllocation>,
    /// Memory on all nodes.
    pub(super) memory: Option<Bytes>,
    /// How it ended; `None` while it runs.
    pub(super) outcome: Option<JobOutcome>,
}

impl JobDetail {
    /// Returns the details of a job that is known to have no device.
    pub(super) fn without_devices(job: &Job) -> Self {
        let nodes = job.allocations.iter().map(|allocation| allocation.node.clone());
        let devices = nodes.map(|node| (node, DeviceAllocation::None.into())).collect();
        Self { devices, ..Self::default() }
    }
}

/// Reads the records of the requested jobs while they arrive.
#[derive(Debug)]
pub(super) struct DetailReader<'a> {
    splitter: RecordSplitter,
    /// The requested jobs, by id and unescaped name.
    names: &'a BTreeMap<JobId, String>,
    /// `None` for a job with contradicting records.
    details: BTreeMap<JobId, Option<JobDetail>>,
}

impl<'a> DetailReader<'a> {
    pub(super) fn new(names: &'a BTreeMap<JobId, String>) -> Self {
        Self { splitter: RecordSplitter::new("JobId="), names, details: BTreeMap::new() }
    }

    /// Returns true if there was a record, of whatever job.
    pub(super) fn has_records(&self) -> bool {
        self.splitter.count > 0
    }

    /// Returns the beginning of the output.
    pub(super) fn start(&self) -> String {
        self.splitter.start()
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let Self { splitter, names, details } = self;
        splitter.push(bytes, &mut |record| add_record(details, names, record));
    }

    /// Returns the details, and whether the output ends inside a record.
    pub(super) fn finish(mut self) -> (BTreeMap<JobId, JobDetail>, bool) {
        let Self { splitter, names, details } = &mut self;
        let mut is_cut = false;
        splitter.finish(&mut |record| {
            is_cut = !record.lines().any(ends_details);
            add_record(details, names, record);
        });
        let details = self.details.into_iter();
        (details.filter_map(|(id, detail)| Some((id, detail?))).collect(), is_cut)
    }
}

fn add_record(
    details: &mut BTreeMap<JobId, Option<JobDetail>>,
    names: &BTreeMap<JobId, String>,
    record: &str,
) {
    let Some((id, rest)) = match_header(record, names) else { return };
    // A truncated record is dropped: missing lines would look like missing devices.
    let Some(detail) = parse_record(rest) else { return };
    let known = details.entry(id).or_insert_with(|| Some(detail.clone()));
    if known.as_ref() != Some(&detail) {
        *known = None;
    }
}

/// Strips the header, such as `11 ArrayJobId=2 ArrayTaskId=0 JobName=sweep`, from a requested job's record.
fn match_header<'a>(record: &'a str, names: &BTreeMap<JobId, String>) -> Option<(JobId, &'a str)> {
    let (id, rest) = record.split_once(' ')?;
    let id = JobId::new(id)?;
    let name = names.get(&id)?;
    let (between, rest) = rest.split_once("JobName=")?;
    if between.contains('\n') {
        return None;
    }
    let rest = rest.strip_prefix(name.as_str())?;
    rest.starts_with('\n').then_some((id, rest))
}

fn parse_record(text: &str) -> Option<JobDetail> {
    let mut is_complete = false;
    let mut detail = JobDetail::default();
    let mut requested = None;
    let mut is_ending = false;
    for line in text.lines() {
        let line = line.trim_start();
        if let Some(id) = line.strip_prefix("SLUID=") {
            detail.sluid = JobId::new(id.trim());
        } else if let Some(gres) = line.strip_prefix("JOB_GRES=") {
            requested = names_accelerators(gres).then(|| gres.trim());
        } else if let Some(rest) = line.strip_prefix("Nodes=") {
            parse_node_line(rest, &mut detail.devices);
        } else if let Some(resources) =
            line.strip_prefix("TRES=").or_else(|| line.strip_prefix("AllocTRES="))
        {
            detail.memory = allocated_memory(resources);
        } else if let Some(rest) = line.strip_prefix("JobState=") {
            detail.outcome = outcome(rest);
            is_ending = rest.starts_with("COMPLETING");
        } else if ends_details(line) {
            is_complete = true;
            break;
        }
    }
    // A job that has ended, or is starting, has resources but no device indices. One that is ending still has its devices:
    // on its only node, that is all that it was given.
    let none = ParsedAllocation::from(DeviceAllocation::None);
    let has_no_device = detail.devices.values().all(|devices| *devices == none);
    if let Some(requested) = requested.filter(|_| has_no_device) {
        let mut nodes = std::mem::take(&mut detail.devices).into_keys();
        if let (Some(node), None, true) = (nodes.next(), nodes.next(), is_ending) {
            detail.devices = [(node, parse_device_allocation(requested))].into();
        }
    }
    is_complete.then_some(detail)
}

/// Returns true for a line that follows everything that is read.
fn ends_details(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("Command=") || line.starts_with("MinCPUsNode=")
}

/// Parses `gpu[01-02] CPU_IDs=0-7 Mem=0 GRES=gpu:h100:8(IDX:0-7)`.
fn parse_node_line(line: &str, devices: &mut BTreeMap<NodeName, ParsedAllocation>) {
    let Some((list, rest)) = line.split_once(' ') else { return };
    let Some((_, gres)) = rest.split_once("GRES=") else { return };
    let Ok(nodes) = queue::parse_nodelist(list) else { return };
    if devices.len().saturating_add(nodes.len()) > queue::MAX_NODES {
        return;
    }
    let allocation = parse_device_allocation(gres.trim());
    devices.extend(nodes.into_iter().map(|node| (node, allocation.clone())));
}

/// Parses the records of the requested jobs in a whole output.
#[cfg(test)]
pub(super) fn parse(output: &str, names: &BTreeMap<JobId, String>) -> BTreeMap<JobId, JobDetail> {
    let mut reader = DetailReader::new(names);
    reader.push(output.as_bytes());
    reader.finish().0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[(&str, &str)]) -> BTreeMap<JobId, String> {
        list.iter().map(|(id, name)| (JobId::new(id).unwrap(), (*name).to_owned())).collect()
    }

    fn text(id: &str, name: &str, gres: &str) -> String {
        format!(
            "JobId={id} JobName={name}\n   UserId=alice(2001)\n   JOB_GRES=gpu:h100:12\n     Nodes=gpu01 CPU_IDs=1,4 \
             Mem=4096 GRES={gres}\n   MinCPUsNode=1\n   Command=x\n   Comment=\n     Nodes=gpu01 CPU_IDs=0 Mem=0 \
             GRES=gpu:1(IDX:7)\n\n"
        )
    }

    fn devices(details: &BTreeMap<JobId, JobDetail>, id: &str) -> Option<DeviceAllocation> {
        let detail = details.get(&JobId::new(id).unwrap())?;
        let devices = detail.devices.get(&NodeName::new("gpu01").unwrap())?;
        Some(devices.on_node(Some(8)))
    }

    #[test]
    fn devices_are_read_up_to_the_first_line_that_the_user_controls() {
        let output = "scontrol: show job 5\n".to_owned() + &text("5", "a b", "gpu:h100:2(IDX:1,4)");
        let details = parse(&output, &names(&[("5", "a b")]));
        assert_eq!(devices(&details, "5"), Some(DeviceAllocation::Indices([1, 4].into())));
    }

    #[test]
    fn nodes_of_one_job_may_have_different_numbers_of_devices() {
        let more = "gpu:2(IDX:0-1)\n     Nodes=gpu02 CPU_IDs=0 Mem=0 GRES=gpu:3\n     Nodes=gpu[03-04] \
                    CPU_IDs=0 Mem=0 GRES=gpu:1";
        let details = parse(&text("5", "a", more), &names(&[("5", "a")]));
        let detail = details.get(&JobId::new("5").unwrap()).unwrap();
        let allocations: Vec<_> = detail
            .devices
            .iter()
            .map(|(node, devices)| (node.as_str(), devices.on_node(None)))
            .collect();
        let indices = DeviceAllocation::Indices([0, 1].into());
        let one = DeviceAllocation::Count(1);
        assert_eq!(
            allocations,
            [
                ("gpu01", indices),
                ("gpu02", DeviceAllocation::Count(3)),
                ("gpu03", one.clone()),
                ("gpu04", one)
            ]
        );
    }

    #[test]
    fn records_that_were_not_requested_or_contradict_each_other_are_dropped() {
        let name = "x\nJobId=6 JobName=y\n     Nodes=gpu01 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:3)";
        let both = text("5", name, "gpu:1(IDX:1)") + &text("6", "y", "gpu:1(IDX:2)");
        let details = parse(&both, &names(&[("5", name), ("6", "y")]));
        assert_eq!(devices(&details, "5"), None, "the name contains a fake record");
        assert_eq!(devices(&details, "6"), None, "two different records");
        for name in ["other", "x2", "x y"] {
            let wrong = parse(&text("5", name, "gpu:1(IDX:1)"), &names(&[("5", "x")]));
            assert!(wrong.is_empty(), "{name}");
        }
        let twice = text("5", "x", "gpu:1(IDX:1)").repeat(2);
        assert!(devices(&parse(&twice, &names(&[("5", "x")])), "5").is_some());
    }

    #[test]
    fn a_truncated_record_is_dropped_wherever_it_ends() {
        let two = "gpu:h100:2(IDX:1,4)\n     Nodes=gpu02 CPU_IDs=0 Mem=0 GRES=gpu:h100:2(IDX:0-1)";
        let whole = text("5", "x", two);
        let parse_text = |text: &str| parse(text, &names(&[("5", "x")]));
        let all = parse_text(&whole)[&JobId::new("5").unwrap()].devices.len();
        assert_eq!(all, 2);
        let end = whole.find("MinCPUsNode=").unwrap() + "MinCPUsNode=".len();
        for cut in 0..end {
            assert!(parse_text(whole.split_at(cut).0).is_empty(), "{cut}");
        }
        assert_eq!(parse_text(whole.split_at(end).0).len(), 1);
        let is_cut = |output: &str| {
            let names = names(&[("5", "x")]);
            let mut reader = DetailReader::new(&names);
            reader.push(output.as_bytes());
            reader.finish().1
        };
        let other = text("6", "y", "gpu:1(IDX:0)") + &whole;
        assert!(is_cut(other.split_at(other.len() - whole.len() + 40).0));
        assert!(!is_cut(&other) && !is_cut(&(other.clone() + "scontrol: ")) && !is_cut(""));
    }

    #[test]
    fn the_outcome_is_read_from_the_job_s_own_record() {
        for (state, outcome) in [
            ("CANCELLED Reason=None", Some(JobOutcome::Cancelled)),
            ("TIMEOUT Reason=TimeLimit", Some(JobOutcome::TimeLimit)),
            ("COMPLETED Reason=None", Some(JobOutcome::Completed)),
            ("FAILED Reason=NonZeroExitCode", Some(JobOutcome::Failed)),
            ("NODE_FAIL Reason=NodeDown", Some(JobOutcome::NodeFailed)),
            ("OUT_OF_MEMORY Reason=OutOfMemory", Some(JobOutcome::OutOfMemory)),
            ("PREEMPTED Reason=None", Some(JobOutcome::Preempted)),
            ("COMPLETING Reason=None", None),
            ("RUNNING Reason=None", None),
        ] {
            let record = text("5", "x", "")
                .replace("   JOB_GRES", &format!("   JobState={state}\n   JOB_GRES"));
            let record = record.replace("Comment=", "Comment=\n   JobState=BOOT_FAIL");
            let details = parse(&record, &names(&[("5", "x")]));
            assert_eq!(details[&JobId::new("5").unwrap()].outcome, outcome, "{state}");
        }
    }

    #[test]
    fn missing_device_indices_do_not_mean_no_devices() {
        let details = parse(&text("5", "x", ""), &names(&[("5", "x")]));
        assert_eq!(devices(&details, "5"), None);
        let none = text("5", "x", "").replace("JOB_GRES=gpu:h100:12", "JOB_GRES=(null)");
        assert_eq!(
            devices(&parse(&none, &names(&[("5", "x")])), "5"),
            Some(DeviceAllocation::None)
        );
    }

    #[test]
    fn an_ending_job_has_its_devices_although_their_indices_are_gone() {
        let ending = |record: String| {
            let states = "   JobState=COMPLETING Reason=None\n   JOB_GRES";
            let details = parse(&record.replace("   JOB_GRES", states), &names(&[("5", "x")]));
            let devices = details[&JobId::new("5").unwrap()].devices.values();
            devices.map(|devices| devices.on_node(None)).collect::<Vec<_>>()
        };
        assert_eq!(ending(text("5", "x", "")), [DeviceAllocation::Count(12)]);
        let indices = DeviceAllocation::Indices([1, 4].into());
        assert_eq!(ending(text("5", "x", "gpu:h100:2(IDX:1,4)")), [indices]);
        // Of several nodes, only the sum is told.
        let two = "\n     Nodes=gpu02 CPU_IDs=0 Mem=0 GRES=";
        assert_eq!(ending(text("5", "x", two)), []);
        let none = text("5", "x", "").replace("JOB_GRES=gpu:h100:12", "JOB_GRES=(null)");
        assert_eq!(ending(none), [DeviceAllocation::None]);
    }

    #[test]
    fn malformed_output_never_panics() {
        for text in [
            "",
            "JobId=",
            "JobId=5 JobName=",
            "JobId=5 JobName=x",
            "\nJobId=5 JobName=x\n   Nodes=\n Nodes=a GRES=",
        ] {
            parse(text, &names(&[("5", "x")]));
        }
    }
}
