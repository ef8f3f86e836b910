//! Which jobs are listed.

use std::fmt::Write as _;
use std::time::Duration;

use crate::scheduler::user_name::{own_uid, own_user_name, user_name};
use gtop_local::text::sanitize;
use gtop_model::{JobList, RequestedJobs, SchedulerProfile};

/// Which jobs to list; an empty field matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Users, by name or uid.
    pub users: Vec<String>,
    /// Job ids as users write them, such as `12_3`.
    pub jobs: Vec<String>,
    pub partitions: Vec<String>,
    pub accounts: Vec<String>,
    /// Nodes that jobs run on.
    pub nodes: Vec<String>,
    /// Qualities of service.
    pub qos: Vec<String>,
    pub reservations: Vec<String>,
}

impl JobFilter {
    /// Returns a list of these jobs before the first answer.
    pub(super) fn unanswered_list(
        &self,
        scheduler: &'static SchedulerProfile,
        interval: Duration,
    ) -> JobList {
        JobList {
            scheduler,
            filter_text: self.describe().into(),
            narrowed_by: self.narrowing_options().into(),
            requested: self.requested(),
            awaits_nodes: true,
            interval,
            ..JobList::default()
        }
    }

    /// Returns how it selects jobs.
    fn requested(&self) -> RequestedJobs {
        match self {
            _ if *self == Self::default() => RequestedJobs::All,
            Self { jobs, .. } if jobs.is_empty() => RequestedJobs::Selected,
            Self { .. } => RequestedJobs::ById,
        }
    }

    /// Returns true if the controller itself picks the jobs, which costs it less than a list of all.
    pub(super) fn is_narrow(&self) -> bool {
        self.users.len() == 1 || !self.jobs.is_empty()
    }

    /// Returns the options that leave out jobs of the users, such as `--qos high`.
    fn narrowing_options(&self) -> String {
        let options = [
            ("partition", &self.partitions),
            ("account", &self.accounts),
            ("qos", &self.qos),
            ("reservation", &self.reservations),
            ("nodelist", &self.nodes),
        ];
        let given = options.into_iter().filter(|(_, names)| !names.is_empty());
        let given = given.map(|(option, names)| format!("--{option} {}", join(names)));
        given.collect::<Vec<_>>().join(" ")
    }

    /// Returns the words that follow `jobs` on the screen, such as `of ada in gpu`.
    pub fn describe(&self) -> String {
        let users = match self.users.as_slice() {
            users if *users == [own_uid()] => own_user_name(),
            users => join(&users.iter().map(|user| user_name(user)).collect::<Vec<_>>()),
        };
        let mut words = match (self.jobs.as_slice(), users.as_str()) {
            ([], "") => "of any user".to_owned(),
            ([], users) => format!("of {users}"),
            (jobs, "") => format!("numbered {}", join(jobs)),
            (jobs, users) => format!("numbered {} of {users}", join(jobs)),
        };
        for (before, of) in [
            ("in", &self.partitions),
            ("of account", &self.accounts),
            ("of QOS", &self.qos),
            ("in reservation", &self.reservations),
            ("on", &self.nodes),
        ] {
            if !of.is_empty() {
                _ = write!(words, " {before} {}", join(of));
            }
        }
        words
    }
}

fn join(names: &[String]) -> String {
    names.iter().map(|name| sanitize(name, 40)).collect::<Vec<_>>().join(",")
}
