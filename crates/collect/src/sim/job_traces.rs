//! What simulated nodes show of a scheduler: control groups, variables and processes of its jobs, and its daemon's list.

/// The process that starts a step.
pub(super) const STEP_DAEMON: &str = "slurmstepd";

/// Returns the control group of a job's process.
pub(super) fn control_group(uid: u32, job: u32) -> String {
    format!("/slurm/uid_{uid}/job_{job}/step_0")
}

/// Returns the variables of a job's process that name the job.
pub(super) fn variables(job: u32) -> [String; 2] {
    [format!("SLURM_JOB_ID={job}"), "SLURM_STEP_ID=0".to_owned()]
}

/// Returns the line of a device in the list of the daemon.
pub(super) fn listed_device(host: &str, index: usize, file: &str) -> String {
    format!(
        "slurmd-{host}: Gres Name=gpu Type=(null) Count=1 Index={index} ID=7696487 File={file} (null)"
    )
}
