//! Turns the messages of srun and slurmstepd into faults.

use gtop_local::fault::{Fault, StepCause};
use gtop_local::process::{Exit, NotStarted};
use gtop_local::text;
use gtop_model::{NodeName, nodeset};

/// Selects the environment variables hidden from srun: inside an allocation it would take them for options. It
/// still needs those for the controller's address and authentication.
pub(crate) const HIDDEN_VARIABLES: fn(&str) -> bool = |name| {
    let from_slurm = ["SLURM_", "SLURMD_", "SRUN_"].iter().any(|start| name.starts_with(start));
    let kept = ["SLURM_CONF", "SLURM_JWT", "SLURM_SACK_"];
    from_slurm && !kept.iter().any(|start| name.starts_with(start))
};

/// Parts of messages and their causes; the first match counts.
const CAUSES: [(&str, StepCause); 18] = [
    ("DUE TO TIME LIMIT", StepCause::TimeLimit),
    ("DUE TO NODE FAILURE", StepCause::NodeFailed),
    ("Node failure on", StepCause::NodeFailed),
    ("DUE TO", StepCause::Cancelled),
    ("CANCELLED AT", StepCause::Cancelled),
    ("Access/permission denied", StepCause::Refused),
    ("Job is pending execution", StepCause::NotRunning),
    ("Invalid job id specified", StepCause::NotRunning),
    ("has expired", StepCause::NotRunning),
    ("already completing or completed", StepCause::NotRunning),
    ("Requested nodes are busy", StepCause::Busy),
    ("Immediate execution impossible", StepCause::Busy),
    ("Unable to create step", StepCause::Busy),
    ("Unable to contact slurm controller", StepCause::ControllerUnreachable),
    ("Socket timed out", StepCause::ControllerUnreachable),
    ("unrecognized option", StepCause::TooOld),
    ("not responding", StepCause::NodeFailed),
    ("force-terminating", StepCause::Cancelled),
];

/// Returns the fault of an srun that has exited.
pub(crate) fn srun_fault(exit: &Exit, stderr: &str) -> Fault {
    for (pattern, cause) in CAUSES {
        if let Some(line) = stderr.lines().find(|line| line.contains(pattern)) {
            return Fault::job_step(cause, &text::excerpt_line(line));
        }
    }
    if let Some(error) = NotStarted::from_stderr(stderr) {
        return error.into();
    }
    let line = stderr.lines().rfind(|line| !line.trim().is_empty());
    let how = line.map_or_else(|| exit.to_string(), text::excerpt_line);
    Fault::job_step(StepCause::Other, &how)
}

/// Returns the nodes whose tasks have ended, from complete lines.
pub(crate) fn ended_tasks(stderr: &str) -> Vec<(Vec<NodeName>, Fault)> {
    let complete = stderr.rsplit_once('\n').map_or("", |(complete, _)| complete);
    complete.lines().filter_map(ended_task).collect()
}

fn ended_task(line: &str) -> Option<(Vec<NodeName>, Fault)> {
    let rest = line.strip_prefix("srun: error: ")?;
    let (nodes, rest) = rest.split_once(": task")?;
    let (_, how) = rest.split_once(": ")?;
    let names = nodeset::expand(nodes).ok()?;
    let nodes = names.iter().filter_map(|name| NodeName::new(name).ok()).collect();
    Some((nodes, Fault::job_step(StepCause::TaskEnded, &text::excerpt_line(how))))
}

/// Returns true if the output of `srun --version` is 22.05 or later: there a step with `--overlap` shares all its
/// resources.
pub(crate) fn is_supported(version: &str) -> bool {
    let number = version.split_whitespace().next_back().unwrap_or_default();
    let mut parts = number.split('.').map(|part| part.parse::<u32>().ok());
    let (Some(Some(year)), Some(Some(month))) = (parts.next(), parts.next()) else { return false };
    (year, month) >= (22, 5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_of_srun_maps_to_its_cause() {
        for (stderr, cause) in [
            (
                "srun: error: Unable to create step for job 10: Access/permission denied",
                StepCause::Refused,
            ),
            (
                "srun: error: Unable to confirm allocation for job 5: Job is pending execution",
                StepCause::NotRunning,
            ),
            ("srun: error: Slurm job 10 has expired", StepCause::NotRunning),
            (
                "srun: Job step aborted: Waiting up to 3 seconds for job step to finish.\n\
                 slurmstepd-gpu01: error: *** STEP 12.3 ON gpu01 CANCELLED AT 2026-11-21T14:47:25 ***",
                StepCause::Cancelled,
            ),
            (
                "slurmstepd: error: *** STEP 1.0 ON a CANCELLED AT 2026-11-21T14:47:25 DUE TO TIME LIMIT ***",
                StepCause::TimeLimit,
            ),
            ("srun: error: Node failure on gpu02", StepCause::NodeFailed),
            (
                "srun: Job 2 step creation temporarily disabled, retrying (Requested nodes are busy)",
                StepCause::Busy,
            ),
            ("anything else", StepCause::Other),
            ("", StepCause::Other),
        ] {
            let Fault::JobStep { cause: got, .. } = srun_fault(&Exit::Status(1), stderr) else {
                panic!()
            };
            assert_eq!(got, cause, "{stderr}");
        }
    }

    #[test]
    fn ended_tasks_are_read_from_complete_lines() {
        let text = "srun: error: gpu[01-02]: tasks 0-1: Killed\nsrun: error: gpu03: task 2: Exited with exit code 3\n\
                    srun: error: gpu04: task 3: Exi";
        let ended = ended_tasks(text);
        let names: Vec<Vec<_>> =
            ended.iter().map(|(nodes, _)| nodes.iter().map(NodeName::as_str).collect()).collect();
        assert_eq!(names, [vec!["gpu01", "gpu02"], vec!["gpu03"]]);
        assert!(
            ended_tasks("srun: error: : task\nsrun: error: a[1-99999999]: task 1: x\n").is_empty()
        );
    }

    #[test]
    fn steps_share_resources_from_slurm_22_05_on() {
        for (version, safe) in [
            ("slurm-wlm 20.11.4", false),
            ("slurm 21.08.8-2", false),
            ("slurm-wlm 22.05.8", true),
            ("slurm 23.02.7", true),
            ("slurm 26.05.0-0rc1", true),
            ("slurm", false),
            ("", false),
        ] {
            assert_eq!(is_supported(version), safe, "{version}");
        }
    }

    #[test]
    fn options_of_an_enclosing_allocation_are_hidden_from_srun() {
        for (name, hidden) in [
            ("SLURM_JOB_ID", true),
            ("SLURM_NTASKS", true),
            ("SRUN_DEBUG", true),
            ("SLURM_CONF", false),
            ("SLURM_JWT", false),
            ("PATH", false),
        ] {
            assert_eq!(HIDDEN_VARIABLES(name), hidden, "{name}");
        }
    }
}
