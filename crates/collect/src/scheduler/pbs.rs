//! PBS (`OpenPBS`, PBS Professional): `qstat` lists the jobs and `pbsnodes` the nodes. PBS reports how many devices a job has
//! on each node, and never which.

use serde::de::DeserializeOwned;

use crate::scheduler::examination::ServerState;
use crate::scheduler::list_poller::{ListBackend, ListedJobs, ListedNodes, Outcomes};
use crate::scheduler::programs::{ErrorPatterns, PROGRAM_TIMEOUT, Programs};
use crate::scheduler::{JobFilter, OwnJob, SchedulerError};
use gtop_local::process::ProgramOutput;
use gtop_local::text::sanitize;
use gtop_model::{
    ClaimRules, GroupRule, IdForm, Job, JobId, NodeCommand, NumberingRule, PartPattern,
    SchedulerErrorKind as Kind, SchedulerProfile, SchedulerWords, StateSigns, VariableRule,
};

mod jobs;
mod json;
mod nodes;
mod outcomes;
mod resources;
mod server;

/// PBS.
pub(super) static PROFILE: SchedulerProfile = SchedulerProfile {
    id: "pbs",
    words: SchedulerWords {
        name: "PBS",
        queue: "queue",
        watch: "gtop --scheduler pbs",
        submit: "submit one with qsub",
        job_ids: "12, 12[3] or 12[]",
        daemon: "pbs_mom",
        list_jobs: "qstat",
        list_nodes: "pbsnodes -a",
        explain_node: "pbsnodes",
        ping: "qstat -B",
        hiding: "query_other_jobs=False",
        resume: Some(NodeCommand { before: "pbsnodes -r ", after: "", is_folded: false }),
        drain: None,
        configuration: "/etc/pbs.conf and PBS_CONF_FILE",
        configuration_file: "pbs.conf",
    },
    program: "qstat",
    // Other schedulers have a program of this name, too.
    configured_by: Some(("PBS_CONF_FILE", "/etc/pbs.conf")),
    node_variable: None,
    states: StateSigns {
        bad: &["offline", "down", "unknown", "unresolvable", "stale", "maintenance"],
        stopped: &["offline"],
        down: &["down"],
    },
    claims: ClaimRules {
        mark: "pbs_jobs",
        // Where its hook for control groups runs: `/pbs_jobs.service/jobid/1[2].server`.
        groups: &[GroupRule {
            folder: PartPattern::StartsWith("pbs_jobs"),
            skipped: "jobid",
            job: "",
            form: IdForm::AtServer,
            step: None,
        }],
        variables: Some(VariableRule { job: "PBS_JOBID", form: IdForm::AtServer, step: None }),
        step_names: &[],
    },
    numbering: NumberingRule::NONE,
};

/// Times are in UTC: the programs themselves write them in their own time zone.
static PROGRAMS: Programs = Programs {
    words: &PROFILE.words,
    patterns: PATTERNS,
    env: &[("LC_ALL", "C"), ("TZ", "UTC")],
    hides: |_| false,
    max_stdout: 64 << 20,
};

/// Texts in messages and the kind they mean.
const PATTERNS: ErrorPatterns = &[
    ("pbs.conf", Kind::NoConfiguration),
    ("pbs_conf_file", Kind::NoConfiguration),
    ("connection refused", Kind::ControllerDown),
    ("cannot connect to server", Kind::ControllerDown),
    ("no server", Kind::ControllerDown),
    ("timed out", Kind::ControllerUnresponsive),
    ("unknown job id", Kind::NoSuchJob),
    ("unauthorized", Kind::PermissionDenied),
    ("munge", Kind::Munge),
];

/// Returns the job of an environment; its nodes are those of its list.
pub(super) fn own_job(variable: &dyn Fn(&str) -> Option<String>) -> Option<OwnJob> {
    let id = variable("PBS_JOBID").filter(|id| IdForm::AtServer.matches(id))?;
    Some(OwnJob { ids: JobId::new(&id).into_iter().collect(), shown_id: id, nodes: Vec::new() })
}

/// PBS, as it is polled.
#[derive(Debug)]
pub struct Pbs;

impl ListBackend for Pbs {
    const PROFILE: &'static SchedulerProfile = &PROFILE;

    async fn fetch_jobs() -> Result<ListedJobs, SchedulerError> {
        jobs::parse(&run("qstat", &["-t", "-f", "-F", "json"]).await?)
    }

    async fn fetch_nodes() -> Result<ListedNodes, SchedulerError> {
        nodes::parse(&run("pbsnodes", &["-a", "-F", "json"]).await?)
    }

    async fn fetch_outcomes(jobs: Vec<JobId>) -> Result<Outcomes, SchedulerError> {
        let mut words = vec!["-x", "-f", "-F", "json"];
        words.extend(jobs.iter().map(JobId::as_str));
        let answer = run_to_end("qstat", &words).await?;
        if answer.succeeded || !answer.stdout.trim().is_empty() {
            return outcomes::parse(&answer.stdout);
        }
        let error = PROGRAMS.stderr_error("qstat", &answer.stderr);
        if error.kind == Kind::NoSuchJob { Ok(Outcomes::new()) } else { Err(error) }
    }

    fn is_named(job: &Job, wanted: &str) -> bool {
        jobs::is_named(job, wanted)
    }

    fn unsupported_options(filter: &JobFilter) -> Option<&'static str> {
        let is_used = !filter.qos.is_empty() || !filter.reservations.is_empty();
        is_used
            .then_some("PBS has no QOS and no reservations; --qos and --reservation have no effect")
    }
}

/// Asks the server whether it answers.
pub(super) async fn fetch_server_state() -> Result<ServerState, SchedulerError> {
    server::parse(&run("qstat", &["-B", "-f", "-F", "json"]).await?)
}

/// Runs a command and returns what it prints.
async fn run(program: &str, words: &[&str]) -> Result<String, SchedulerError> {
    let answer = run_to_end(program, words).await?;
    // Part of an answer is none: what is missing would look as if it did not exist.
    if answer.succeeded {
        Ok(answer.stdout)
    } else {
        Err(PROGRAMS.stderr_error(program, &answer.stderr))
    }
}

/// Runs a command to its end, whether it succeeds or not.
async fn run_to_end(program: &str, words: &[&str]) -> Result<ProgramOutput, SchedulerError> {
    let answer = PROGRAMS.run(PROGRAM_TIMEOUT, program, words, "").await?;
    if answer.is_truncated { Err(PROGRAMS.error(Kind::TooLong, program, "")) } else { Ok(answer) }
}

/// Reads the JSON that a program has printed.
fn read_json<T: DeserializeOwned>(program: &str, output: &str) -> Result<T, SchedulerError> {
    let json = if output.trim_start().starts_with('{') {
        json::read(output)
            .map_err(|place| format!("{program} printed JSON that cannot be read: {place}"))
    } else {
        Err(instead_of_json(program, output))
    };
    json.and_then(|json| T::deserialize(json).map_err(|_other| instead_of_json(program, output)))
        .map_err(|message| PROGRAMS.error(Kind::UnexpectedOutput, program, &message))
}

/// Returns a sentence with what was printed instead of JSON.
fn instead_of_json(program: &str, output: &str) -> String {
    let lines = output.lines().map(|line| sanitize(line.trim(), 80));
    match lines.into_iter().find(|line| !line.is_empty()) {
        Some(line) => format!("{program} printed {line:?} instead of JSON"),
        None => format!("{program} printed nothing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::claim;

    #[test]
    fn processes_belong_to_the_job_of_their_group_or_their_environment() {
        for group in [
            "/pbs_jobs.service/jobid/1[2].server",
            "/system.slice/pbs_jobs.service/jobid/1[2].server/x",
        ] {
            let found = claim::of_group(group).unwrap();
            assert_eq!((found.job.unwrap().as_str(), found.step), ("1[2].server", None), "{group}");
        }
        assert_eq!(claim::of_group("/pbs_jobs.service/jobid"), None);
        assert_eq!(claim::of_group("/pbs.service"), None);
        let found = claim::of_variables("0.pbsserver", None).unwrap();
        assert_eq!(found.job.unwrap().as_str(), "0.pbsserver");
        assert!(claim::probe_word().split(',').any(|rule| rule == "pbs_jobs:PBS_JOBID:"));
    }

    #[test]
    fn options_that_mean_nothing_are_told() {
        let filter = JobFilter { qos: vec!["high".to_owned()], ..JobFilter::default() };
        assert!(Pbs::unsupported_options(&filter).unwrap().contains("--qos"));
        assert_eq!(Pbs::unsupported_options(&JobFilter::default()), None);
    }

    #[test]
    fn in_a_job_s_environment_that_job_is_watched() {
        let of = |id: &str| own_job(&|name: &str| (name == "PBS_JOBID").then(|| id.to_owned()));
        assert_eq!(of("1[1].pbsserver").unwrap().shown_id, "1[1].pbsserver");
        assert_eq!(of("$(x)"), None);
    }
}
