//! What to do about the scheduler, and about finding nodes.

use std::collections::BTreeSet;

use crate::advice::known::shell_quoted;
use crate::advice::steps::{Advice, Step};
use gtop_model::nodeset;
use gtop_model::{JobListError, NodeCommand, SchedulerErrorKind, SchedulerWords};

/// The scheduler reported a node that cannot be reached.
pub(crate) const REPORTED: &str =
    "where a node lets in only users with a job on it, a job of yours there lets gtop in";
/// A node has fewer devices than the scheduler gives to jobs.
pub(crate) const BELOW_SCHEDULER: &str =
    "ask the administrator to drain the node until all its devices are back";
/// `SLURM_CONF` names a file that does not exist.
pub const BAD_SLURM_CONF: &str = "unset SLURM_CONF, or correct it";
/// There is no `slurm.conf`, and no server provides one.
pub const NO_SLURM_CONF: &str =
    "start gtop on a login node, set SLURM_CONF, or ask the administrator for slurm.conf";
/// munge does not authenticate.
pub const MUNGE: &str = "as root on this machine: systemctl restart munge";
/// `scontrol ping` printed something else.
pub const ODD_PING: &str = "run scontrol ping by hand; another program may have its name";
/// The controller accepts connections and does not answer.
pub const CONTROLLER_HANGS: &str = "ask the administrator to check and restart slurmctld";
/// Nothing listens at the controller's address.
pub const CONTROLLER_DOWN: &str = "ask the administrator to start slurmctld";
/// There is no usable srun.
pub const NO_SRUN: &str = "without srun, nodes are reached by ssh only; load the Slurm module";
/// No step starts, and only steps are allowed.
pub const NO_STEP: &str = "omit --transport srun, so that nodes are reached by ssh";
/// No step starts, and ssh may work.
pub const NO_STEP_BESIDE_SSH: &str =
    "not needed where nodes allow ssh; if both are forbidden, ask the administrator";
/// A TPU pod has more slices than this one.
pub const OTHER_SLICES: &str = "run gtop on a worker of each other slice";

/// Returns what to do where no job runs.
pub fn of_no_jobs(words: &SchedulerWords) -> String {
    format!("{}; {} shows the nodes of running jobs", words.submit, words.watch)
}

/// Returns what to do where the scheduler lists none of the nodes.
pub fn of_unlisted_nodes(words: &SchedulerWords) -> String {
    format!("run {} by hand", words.list_nodes)
}

/// Returns what to do where no pod is found; `is_elsewhere` if something else than its metadata server answers.
pub const fn of_pod(is_elsewhere: bool) -> &'static str {
    if is_elsewhere { NO_METADATA } else { NO_POD }
}

const NO_POD: &str =
    "run gtop on a worker of the pod, or give the workers' addresses in a file: --pod-ips=FILE";
const NO_METADATA: &str = "run gtop on a worker of the pod (and correct GCE_METADATA_HOST if it is set), or give the workers' addresses in a file: --pod-ips=FILE";

/// Returns what to do where the scheduler starts no new job on a node.
pub(crate) fn of_closed(words: &SchedulerWords) -> Advice {
    Advice::words(format!("{} shows who set the state, and why", words.explain_node))
}

/// Returns why the scheduler does not list its jobs, and what to do about it.
pub fn explained(words: &SchedulerWords, error: &JobListError) -> String {
    format!("{}; {}", error.message, of_scheduler(words, error.kind, &error.message))
}

/// Returns what to do about an error of the scheduler, and of what it printed.
pub fn of_scheduler(words: &SchedulerWords, kind: SchedulerErrorKind, message: &str) -> String {
    use SchedulerErrorKind as Kind;
    let SchedulerWords { name, ping, list_jobs, list_nodes, .. } = words;
    match kind {
        Kind::NotInstalled => {
            format!("start gtop on a login node of the cluster, or load its {name} module")
        }
        Kind::NoConfiguration => {
            format!("check {}, or ask the administrator", words.configuration)
        }
        Kind::BadConfiguration => format!(
            "tell the administrator; an older {name} here may not know a new key of {}",
            words.configuration_file
        ),
        Kind::ControllerDown => format!("run {ping}, and ask the administrator"),
        Kind::TimedOut => format!("the controller may be overloaded: run {ping}"),
        Kind::NoSuchJob => {
            format!("it has ended, or the id is wrong: {list_jobs} lists the current jobs")
        }
        Kind::InvalidArgument if message.to_ascii_lowercase().contains("node name") => {
            format!("correct the options; {list_nodes} lists the nodes that {name} knows")
        }
        Kind::ControllerUnresponsive => "it is overloaded or hangs: ask the administrator".into(),
        Kind::Munge => {
            "check whether munge -n works, and ask the administrator to restart munged".into()
        }
        Kind::UnexpectedOutput => "run it by hand to see its output".into(),
        Kind::TooLong => "narrow the list down with --partition or --account".into(),
        Kind::InvalidArgument => "correct the options".into(),
        Kind::PermissionDenied => "ask the administrator what you may see".into(),
        Kind::Other => "run it by hand".into(),
    }
}

/// Returns the command that lets nodes take jobs again; `stopped` are those that stay out until then.
pub fn resume(words: &SchedulerWords, stopped: &BTreeSet<&str>) -> String {
    let Some(command) = words.resume.filter(|_| !stopped.is_empty()) else {
        return "no new jobs start there; ask the administrator for how long".to_owned();
    };
    format!(
        "no new jobs start there, even once the reason is gone, until an administrator runs: {}",
        about_nodes(command, stopped)
    )
}

/// Returns the command by which an administrator keeps new jobs from nodes, with why; `None` without nodes, or if the
/// scheduler has no such command.
pub(crate) fn drain(
    words: &SchedulerWords,
    nodes: &BTreeSet<&str>,
    reason: &str,
) -> Option<String> {
    let command = words.drain.filter(|_| !nodes.is_empty())?;
    Some(about_nodes(command, nodes) + &shell_quoted(&format!("gtop: {reason}")))
}

/// Returns the step that keeps new jobs from nodes, by its command.
pub(crate) fn until_repaired(drain: &str) -> Step {
    Step::run("until that is done, let no new jobs start there", drain).and()
}

fn about_nodes(command: NodeCommand, nodes: &BTreeSet<&str>) -> String {
    let names = if command.is_folded {
        shell_quoted(&nodeset::fold(nodes)).into_owned()
    } else {
        nodes.iter().map(|name| shell_quoted(name)).collect::<Vec<_>>().join(" ")
    };
    format!("{}{names}{}", command.before, command.after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::UNNAMED_SCHEDULER;

    #[test]
    fn who_names_a_node_that_the_scheduler_lacks_learns_how_to_list_them() {
        let kind = SchedulerErrorKind::InvalidArgument;
        let advice = |message| of_scheduler(&UNNAMED_SCHEDULER.words, kind, message);
        assert_eq!(
            advice("Invalid node name gpu99"),
            "correct the options; its own command lists the nodes that the scheduler knows"
        );
        assert_eq!(advice("Invalid user: x"), "correct the options");
    }
}
