//! What is known of Slurm beforehand.

use gtop_model::{
    ClaimRules, DetectedOrder, DeviceOrder, GroupRule, IdForm, NodeCommand, NumberingRule,
    PartPattern, SchedulerProfile, SchedulerWords, StateSigns, VariableRule,
};

/// Slurm.
pub static PROFILE: SchedulerProfile = SchedulerProfile {
    id: "slurm",
    words: SchedulerWords {
        name: "Slurm",
        queue: "partition",
        watch: "gtop --slurm",
        submit: "submit one with sbatch or salloc",
        job_ids: "12, 12_3 or 12+1",
        daemon: "slurmd",
        list_jobs: "squeue",
        list_nodes: "sinfo -N",
        explain_node: "scontrol show node",
        ping: "scontrol ping",
        hiding: "PrivateData=jobs",
        resume: Some(NodeCommand {
            before: "scontrol update NodeName=",
            after: " State=RESUME",
            is_folded: true,
        }),
        drain: Some(NodeCommand {
            before: "scontrol update NodeName=",
            after: " State=DRAIN Reason=",
            is_folded: true,
        }),
        configuration: "/etc/slurm/slurm.conf and SLURM_CONF",
        configuration_file: "slurm.conf",
    },
    program: "squeue",
    configured_by: None,
    node_variable: Some("SLURMD_NODENAME"),
    states: StateSigns {
        bad: &["drain", "down", "fail", "maint", "*", "inval"],
        stopped: &["drain", "down", "fail"],
        down: &["down"],
    },
    claims: ClaimRules {
        mark: "slurm",
        groups: GROUPS,
        variables: Some(VariableRule {
            job: "SLURM_JOB_ID",
            form: IdForm::Number,
            step: Some("SLURM_STEP_ID"),
        }),
        // The environment has numbers for some steps.
        step_names: &[
            ("4294967291", "batch"),
            ("-5", "batch"),
            ("4294967292", "extern"),
            ("-4", "extern"),
            ("4294967290", "interactive"),
            ("-6", "interactive"),
        ],
    },
    numbering: NUMBERING,
};

/// Version 1 of control groups has `/slurm/uid_1000/job_8421/step_0/task_0`, or `/slurm_node/…` with several daemons per
/// machine; version 2 has `…/slurmstepd.scope/job_8421/step_batch/user/task_0` or `…/node_slurmstepd.scope/…`, and since
/// 26.05 `…/slurmstepd.scope/sFMSM7Y1PA2900/step_0/…`, with the SLUID: `s` and 13 digits in base 32.
const GROUPS: &[GroupRule] = &[
    group(PartPattern::EndsWith("slurmstepd.scope"), "job_", IdForm::Word),
    group(PartPattern::EndsWith("slurmstepd.scope"), "", IdForm::Alias { letter: 's', length: 13 }),
    group(PartPattern::Is("slurm"), "job_", IdForm::Word),
    group(PartPattern::StartsWith("slurm_"), "job_", IdForm::Word),
];

const fn group(folder: PartPattern, job: &'static str, form: IdForm) -> GroupRule {
    GroupRule { folder, skipped: "uid_", job, form, step: Some("step_") }
}

/// The index is the position in the list of the daemon. Without autodetection, that is the order of `gres.conf`: by type as
/// `Gres=` of `slurm.conf` names them, then by line, then by file. With `AutoDetect=nvml`, it is the driver's order among
/// the configured devices since 21.08, and the order of the device files before; with `AutoDetect=nvidia`, that of the
/// device files. Slices come after whole devices since 23.02.7, by the minor number of their device and that of their
/// capability file.
const NUMBERING: NumberingRule = NumberingRule {
    detected: &[
        detected(Some("nvidia"), None, (0, 0, 0), DeviceOrder::DeviceFile),
        detected(Some("nvml"), Some(false), (0, 0, 0), DeviceOrder::DeviceFile),
        detected(Some("nvml"), Some(false), (21, 8, 0), DeviceOrder::Driver),
        detected(Some("nvml"), Some(true), (0, 0, 0), DeviceOrder::PlaceOnCard),
        detected(Some("nvml"), Some(true), (23, 2, 7), DeviceOrder::SlicesLast),
        detected(None, Some(false), (0, 0, 0), DeviceOrder::Driver),
    ],
};

const fn detected(
    detection: Option<&'static str>,
    has_slices: Option<bool>,
    since: (u32, u32, u32),
    order: DeviceOrder,
) -> DetectedOrder {
    DetectedOrder { detection, has_slices, since, order }
}

/// Returns the control group of a process of a job, in its first step.
#[cfg(test)]
pub(crate) fn example_group(job: &str) -> String {
    format!("/slurm/uid_1/job_{job}/step_0")
}

#[cfg(test)]
mod tests {
    use crate::scheduler::claim;
    use gtop_model::JobId;

    #[test]
    fn a_job_is_parsed_from_every_form_of_control_group() {
        for (cgroup, job, step) in [
            ("/slurm/uid_1000/job_8421/step_0/task_0", Some("8421"), Some("0")),
            ("/slurm_node05/uid_2001/job_12/step_batch", Some("12"), Some("batch")),
            ("/slurm_gpu-node-05/uid_2001/job_10/step_extern", Some("10"), Some("extern")),
            ("/system.slice/n1_slurmstepd.scope/job_1/step_0/user", Some("1"), Some("0")),
            (
                "/system.slice/slurmstepd.scope/job_7/step_interactive/user/task_special",
                Some("7"),
                Some("interactive"),
            ),
            ("/../../slurm/uid_0/job_5", Some("5"), None),
            ("/user.slice/user-1000.slice/job_5", None, None),
            ("/user.slice/myslurm/job_5", None, None),
            ("/system.slice/slurmd.service", None, None),
            ("/slurm/uid_1/job_$(x)/step_0", None, Some("0")),
            ("/slurm/uid_1/job_5/step_$(x)", Some("5"), None),
        ] {
            let found = claim::of_group(cgroup).unwrap_or_default();
            assert_eq!(found.job.as_ref().map(JobId::as_str), job, "{cgroup}");
            assert_eq!(found.step.as_deref(), step, "{cgroup}");
            assert_eq!(found.alias, None, "{cgroup}");
        }
    }

    #[test]
    fn a_job_without_a_number_has_its_sluid() {
        let group = "/system.slice/gpu-node-01_slurmstepd.scope/sFMSM7Y1PA2900/step_0/user";
        let found = claim::of_group(group).unwrap();
        assert_eq!((found.job, found.alias.as_deref()), (None, Some("sFMSM7Y1PA2900")));
        assert_eq!(found.step.as_deref(), Some("0"));
        for other in ["/slurm/sFMSM7Y1PA2900/step_0", "/x/slurmstepd.scope/system/step_0"] {
            assert_eq!(claim::of_group(other), None, "{other}");
        }
    }

    #[test]
    fn the_environment_has_numbers_for_some_steps() {
        let step = |step| claim::of_variables("99", Some(step)).unwrap().step.unwrap().to_string();
        assert_eq!(
            (step("-5"), step("4294967292"), step("3")),
            ("batch".into(), "extern".into(), "3".into())
        );
        assert_eq!(claim::of_variables("1;id", None), None);
    }
}
