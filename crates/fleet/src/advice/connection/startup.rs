//! What to do about a probe that does not start: login shells, commands of `--exec`, steps.

use crate::advice::known::Known;
use crate::advice::reader::Reader;
use crate::advice::steps::{Advice, Step};
use gtop_local::fault::{LoaderCause, StepCause};

/// Returns what to do about a login shell that starts the probe late.
pub fn of_slow_shell(known: &Known) -> Advice {
    known.slow_shell().into()
}

/// Returns what to do about a command of `--exec` that does not start the probe.
pub(super) fn of_command(cause: LoaderCause, reader: Reader) -> Advice {
    let words = match cause {
        LoaderCause::Waiting | LoaderCause::Slow if !reader.is_served() => {
            "run the command of --exec by hand, to see what it is waiting for"
        }
        LoaderCause::Waiting | LoaderCause::Slow => {
            "run the command of --exec by hand, to see what it is waiting for; gtop keeps waiting"
        }
        LoaderCause::CannotRun => "install what the message names on the node",
        LoaderCause::ReadsInput
        | LoaderCause::OtherProgram
        | LoaderCause::Restricted
        | LoaderCause::NoShell
        | LoaderCause::PasswordExpired
        | LoaderCause::Ended
        | LoaderCause::EndedWithOutput => {
            "run the command of --exec by hand: it must start /bin/sh on the node and pass its input on"
        }
    };
    words.into()
}

/// Returns what to do about a step of srun that failed or has ended.
pub fn of_step(cause: StepCause, reader: Reader) -> Advice {
    const NO_ACTION: &str = "no action is needed";
    const BY_HAND: &str = "try srun --overlap --jobid=JOB hostname by hand";
    const RETRIES: &str = "gtop retries; or try srun --overlap --jobid=JOB hostname by hand";
    const RESTART: &str =
        "gtop does not interrupt the other nodes of the job; restart gtop to start a new step";
    let words = match cause {
        StepCause::TooOld => "use ssh; srun must be of release 22.05 or later",
        StepCause::NoJob => "--transport srun reaches only nodes of your own running jobs",
        StepCause::Refused => "is the job yours? try srun --overlap --jobid=JOB hostname by hand",
        StepCause::Cancelled | StepCause::NodeFailed if !reader.is_served() => {
            "see sinfo -R, and run gtop again"
        }
        StepCause::NotJoined if !reader.is_served() => "run gtop again once its task has started",
        StepCause::Cancelled => "a new step starts if the job is still running",
        StepCause::NotRunning
        | StepCause::JobCancelled
        | StepCause::Preempted
        | StepCause::TimeLimit => NO_ACTION,
        StepCause::NodeFailed => "see sinfo -R; a new step starts for the other nodes",
        StepCause::Busy | StepCause::Other if !reader.is_served() => BY_HAND,
        StepCause::Busy | StepCause::Other => RETRIES,
        StepCause::ControllerUnreachable if !reader.is_served() => "see scontrol ping",
        StepCause::ControllerUnreachable => "gtop retries; see scontrol ping",
        StepCause::TaskEnded | StepCause::NotInStep => RESTART,
        StepCause::TryingOtherJob | StepCause::Restarted => reader.reconnects(),
        StepCause::NotJoined => "it appears once its task has started; otherwise restart gtop",
    };
    words.into()
}

impl Known {
    /// Returns what to do about a login shell that does not start the probe.
    pub(super) fn of_loader(&self, cause: LoaderCause) -> Advice {
        let destination = &self.destination;
        let try_it = Step::run("try it", format!("ssh {destination} /bin/sh -c true"));
        match cause {
            LoaderCause::Waiting => Advice::words(format!(
                "{}the login shell is slow, or a login file such as ~/.bashrc waits for something to be typed (let it do so \
                 only when interactive: case $- in *i*) ... ;; esac)",
                if self.reader.is_served() { "gtop keeps waiting: " } else { "" }
            ))
            .then([Step::run("see how long it takes", format!("time ssh {destination} true"))]),
            LoaderCause::Slow => self.slow_shell().into(),
            LoaderCause::ReadsInput => {
                "a login file such as ~/.bashrc waits for something to be typed; let it do so only when \
                 interactive: case $- in *i*) ... ;; esac"
                    .into()
            }
            LoaderCause::OtherProgram | LoaderCause::EndedWithOutput => Advice::words(
                "another program runs in place of gtop's command: a login file that exits or starts a program \
                 (~/.bashrc, ~/.profile: restrict that to interactive shells), or a forced command",
            )
            .then([try_it]),
            LoaderCause::Restricted => {
                "the login shell is a restricted one and may not run /bin/sh: ask the administrator for another \
                 (chsh -s /bin/bash), or watch this node by srun or --exec"
                    .into()
            }
            LoaderCause::NoShell => self.set_shell("").map_or_else(
                || "ask the administrator for a login shell on the node".into(),
                Advice::from,
            ),
            LoaderCause::PasswordExpired => self.renew_password().into(),
            LoaderCause::Ended => Advice::words(
                "the login shell must run /bin/sh; look for exit or exec in ~/.bashrc and for a forced command",
            )
            .then([try_it])
            .then(self.set_shell("").map(|step| step.when("the login shell is /bin/false"))),
            LoaderCause::CannotRun => "install what the message names on the node".into(),
        }
    }

    pub(super) fn slow_shell(&self) -> Step {
        let words = "the login shell is slow: see how long it takes, and what the login files there are waiting for";
        Step::run(words, format!("time ssh {} true", self.destination))
    }

    pub(super) fn set_shell(&self, user: &str) -> Option<Step> {
        Some(self.as_root(format!("usermod -s /bin/sh {}", self.user(user)?)))
    }
}
