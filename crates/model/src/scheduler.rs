//! What is known beforehand of a kind of scheduler: its terms, the names it has for things, and how it numbers devices.

use std::fmt;

/// One kind of scheduler, as plain data.
#[derive(PartialEq, Eq)]
pub struct SchedulerProfile {
    /// Its name in options, recordings and files.
    pub id: &'static str,
    /// What texts call it and its things.
    pub words: SchedulerWords,
    /// The program that lists its jobs: where it is on the `PATH`, the scheduler is.
    pub program: &'static str,
    /// What shows that a program of this name is its own: a variable that is set, or a file; `None` if no other scheduler has
    /// such a program.
    pub configured_by: Option<(&'static str, &'static str)>,
    /// The environment variable in which it tells a job's processes the name of their node.
    pub node_variable: Option<&'static str>,
    /// What the states of its nodes mean.
    pub states: StateSigns,
    /// By what processes show the job that they belong to.
    pub claims: ClaimRules,
    /// What the index of a device means.
    pub numbering: NumberingRule,
}

impl fmt::Debug for SchedulerProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

/// The terms of a scheduler for texts.
#[derive(Debug, PartialEq, Eq)]
pub struct SchedulerWords {
    /// Its name in a sentence.
    pub name: &'static str,
    /// What it calls a queue.
    pub queue: &'static str,
    /// The command of gtop that watches its jobs.
    pub watch: &'static str,
    /// How a job is submitted.
    pub submit: &'static str,
    /// The forms of its ids: a job, a task of an array, and what else there is.
    pub job_ids: &'static str,
    /// Its daemon on a node.
    pub daemon: &'static str,
    /// The command that lists jobs.
    pub list_jobs: &'static str,
    /// The command that lists nodes.
    pub list_nodes: &'static str,
    /// The command that explains a node, whose name follows.
    pub explain_node: &'static str,
    /// The command that tells whether its controller answers.
    pub ping: &'static str,
    /// The line of its configuration that hides jobs of others.
    pub hiding: &'static str,
    /// The command by which an administrator lets nodes take jobs again; `None` if there is none.
    pub resume: Option<NodeCommand>,
    /// The command by which an administrator keeps new jobs from nodes; why follows. `None` if there is none.
    pub drain: Option<NodeCommand>,
    /// Where its configuration is.
    pub configuration: &'static str,
    /// Its file of configuration.
    pub configuration_file: &'static str,
}

impl SchedulerWords {
    /// Returns the program that lists nodes.
    pub fn node_program(&self) -> &'static str {
        self.list_nodes.split(' ').next().unwrap_or_default()
    }
}

/// A command about nodes, whose names stand between two parts of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeCommand {
    /// What precedes the names.
    pub before: &'static str,
    /// What follows them.
    pub after: &'static str,
    /// The names are one word, such as `gpu[01-02]`; else each is a word.
    pub is_folded: bool,
}

/// The native states of nodes that explain why jobs do not run; each is a part of the state's name.
#[derive(Debug, PartialEq, Eq)]
pub struct StateSigns {
    /// Nothing runs there, or may soon not.
    pub bad: &'static [&'static str],
    /// Of these, those that last until an administrator ends them.
    pub stopped: &'static [&'static str],
    /// Of those of nothing that runs there, those of a node that does not answer or has lost its jobs.
    pub down: &'static [&'static str],
}

/// By what processes show the job that they belong to. Each rule describes a form, and no program is run.
#[derive(Debug, PartialEq, Eq)]
pub struct ClaimRules {
    /// What the paths of all control groups of its jobs contain.
    pub mark: &'static str,
    /// By their control groups.
    pub groups: &'static [GroupRule],
    /// By their environment.
    pub variables: Option<VariableRule>,
    /// Steps that have a number in one place and a name in another.
    pub step_names: &'static [(&'static str, &'static str)],
}

/// How the path of a control group names a job: `…/FOLDER/SKIPPED/JOB/STEP/…`.
#[derive(Debug, PartialEq, Eq)]
pub struct GroupRule {
    /// The part of the path that is the scheduler's.
    pub folder: PartPattern,
    /// Parts that begin so come between it and the job.
    pub skipped: &'static str,
    /// How the part of a job begins; its id follows.
    pub job: &'static str,
    /// What the id is.
    pub form: IdForm,
    /// How the part of a step begins, if there are any.
    pub step: Option<&'static str>,
}

/// The environment variables of a job's processes.
#[derive(Debug, PartialEq, Eq)]
pub struct VariableRule {
    /// That of the job.
    pub job: &'static str,
    /// What its value is.
    pub form: IdForm,
    /// That of the step.
    pub step: Option<&'static str>,
}

/// What a part of a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartPattern {
    /// This.
    Is(&'static str),
    /// Anything that begins so.
    StartsWith(&'static str),
    /// Anything that ends so.
    EndsWith(&'static str),
}

impl PartPattern {
    /// Returns true if a part of a path is meant.
    pub fn matches(self, part: &str) -> bool {
        match self {
            Self::Is(name) => part == name,
            Self::StartsWith(start) => part.starts_with(start),
            Self::EndsWith(end) => part.ends_with(end),
        }
    }
}

/// What the id of a job looks like, so that nothing else is taken for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdForm {
    /// A number.
    Number,
    /// Letters, digits, `_`, `+` and `.`, at most 32.
    Word,
    /// A number, an index in brackets if there is one, and the name of a server: `8421[3].server`.
    AtServer,
    /// Another name of the job than its id: a letter, and this many capitals and digits.
    Alias {
        /// The letter.
        letter: char,
        /// How many follow.
        length: usize,
    },
}

impl IdForm {
    /// Returns true if a text has the form.
    pub fn matches(self, text: &str) -> bool {
        match self {
            Self::Number => !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()),
            Self::Word => text.len() <= 32 && is_word(text, b"_+."),
            Self::AtServer => text.split_once('.').is_some_and(|(job, server)| {
                let (number, index) = job.split_once('[').unwrap_or((job, "]"));
                let index = index.strip_suffix(']');
                Self::Number.matches(number)
                    && index.is_some_and(|index| index.is_empty() || Self::Number.matches(index))
                    && is_word(server, b"._-")
            }),
            Self::Alias { letter, length } => text.strip_prefix(letter).is_some_and(|rest| {
                let mut bytes = rest.bytes();
                rest.len() == length
                    && bytes.all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
            }),
        }
    }
}

/// Returns true for a word of letters, digits and these marks.
fn is_word(text: &str, marks: &[u8]) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || marks.contains(&byte))
}

/// What the index of a device means: its position in a list that the scheduler's daemon makes on the node, in the order of
/// its configuration or, where the daemon detects devices, in one of these.
#[derive(Debug, PartialEq, Eq)]
pub struct NumberingRule {
    /// The orders, by the way of detection; of several for one, the newest that the daemon's version has.
    pub detected: &'static [DetectedOrder],
}

/// In which order a daemon lists the devices that it detects.
#[derive(Debug, PartialEq, Eq)]
pub struct DetectedOrder {
    /// The way of detection, as its configuration names it; `None` for any other.
    pub detection: Option<&'static str>,
    /// Whether the rule is for nodes with slices; `None` for both.
    pub has_slices: Option<bool>,
    /// The first version that does so.
    pub since: (u32, u32, u32),
    /// The order.
    pub order: DeviceOrder,
}

/// An order of devices and slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceOrder {
    /// That of the driver.
    Driver,
    /// By the number of the device file.
    DeviceFile,
    /// Devices as the driver has them, then slices by the files of their device and of their capability.
    SlicesLast,
    /// By the position among the slices of the device.
    PlaceOnCard,
}

impl NumberingRule {
    /// The rule of a scheduler that gives no indices.
    pub const NONE: Self = Self { detected: &[] };

    /// Returns the order of a way of detection; `None` if it is not known, or the version that it depends on.
    pub fn order(
        &self,
        detection: &str,
        has_slices: bool,
        version: Option<(u32, u32, u32)>,
    ) -> Option<DeviceOrder> {
        let is_named = self.detected.iter().any(|rule| rule.detection == Some(detection));
        let detection = is_named.then_some(detection);
        let mut rules = self.detected.iter().filter(|rule| {
            rule.detection == detection
                && rule.has_slices.is_none_or(|of_slices| of_slices == has_slices)
        });
        let first = rules.next()?;
        let Some(second) = rules.next() else { return Some(first.order) };
        let version = version?;
        let known = [first, second].into_iter().chain(rules);
        known
            .filter(|rule| rule.since <= version)
            .max_by_key(|rule| rule.since)
            .map(|rule| rule.order)
    }
}

/// The profile of a scheduler that is not named: of lists that no scheduler made.
pub static UNNAMED_SCHEDULER: SchedulerProfile = UNNAMED;

const UNNAMED: SchedulerProfile = SchedulerProfile {
    id: "",
    words: SchedulerWords {
        name: "the scheduler",
        queue: "queue",
        watch: "gtop --job ID",
        submit: "submit one",
        job_ids: "12",
        daemon: "daemon of a scheduler",
        list_jobs: "its own command",
        list_nodes: "its own command",
        explain_node: "its own command",
        ping: "its own command",
        hiding: "its configuration",
        resume: None,
        drain: None,
        configuration: "its configuration",
        configuration_file: "its configuration",
    },
    program: "",
    configured_by: None,
    node_variable: None,
    states: StateSigns { bad: &[], stopped: &[], down: &[] },
    claims: ClaimRules { mark: "", groups: &[], variables: None, step_names: &[] },
    numbering: NumberingRule::NONE,
};

impl Default for &SchedulerProfile {
    fn default() -> Self {
        &UNNAMED_SCHEDULER
    }
}

#[cfg(any(test, feature = "testing"))]
impl SchedulerProfile {
    /// Returns a made-up scheduler for tests, whose rules of numbering are of all kinds.
    pub fn example() -> &'static Self {
        const fn detected(
            detection: Option<&'static str>,
            has_slices: Option<bool>,
            since: (u32, u32, u32),
            order: DeviceOrder,
        ) -> DetectedOrder {
            DetectedOrder { detection, has_slices, since, order }
        }
        static EXAMPLE: SchedulerProfile = SchedulerProfile {
            id: "example",
            words: SchedulerWords {
                name: "Example",
                drain: Some(NodeCommand {
                    before: "drain nodes=",
                    after: " why=",
                    is_folded: true,
                }),
                ..UNNAMED.words
            },
            numbering: NumberingRule {
                detected: &[
                    detected(Some("nvidia"), None, (0, 0, 0), DeviceOrder::DeviceFile),
                    detected(Some("nvml"), Some(false), (0, 0, 0), DeviceOrder::DeviceFile),
                    detected(Some("nvml"), Some(false), (21, 8, 0), DeviceOrder::Driver),
                    detected(Some("nvml"), Some(true), (0, 0, 0), DeviceOrder::PlaceOnCard),
                    detected(Some("nvml"), Some(true), (23, 2, 7), DeviceOrder::SlicesLast),
                    detected(None, Some(false), (0, 0, 0), DeviceOrder::Driver),
                ],
            },
            ..UNNAMED
        };
        &EXAMPLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_the_form_of_its_scheduler_or_is_none() {
        let sluid = IdForm::Alias { letter: 's', length: 13 };
        for (form, good, bad) in [
            (IdForm::Number, &["1", "8421"][..], &["", "1a", "-1"][..]),
            (IdForm::Word, &["8421", "12_3", "4+1"], &["", "$(x)", "a b", "1[2].server"]),
            (
                IdForm::AtServer,
                &["0.a-server", "8421[3].server", "1[].a-b.c"],
                &["8421", "1[2.s", "1[x].s", ".s", "1.", "1.$(x)", "x.s"],
            ),
            (sluid, &["sFMSM7Y1PA2900"], &["system", "sFMSM7Y1PA290", "sFMSM7Y1PA290x"]),
        ] {
            for text in good {
                assert!(form.matches(text), "{form:?} {text}");
            }
            for text in bad {
                assert!(!form.matches(text), "{form:?} {text}");
            }
        }
    }

    #[test]
    fn an_order_that_depends_on_the_version_is_unknown_without_one() {
        let order = |detection, since, order| DetectedOrder {
            detection,
            has_slices: None,
            since: (since, 0, 0),
            order,
        };
        assert_eq!(NumberingRule::NONE.order("x", false, None), None);
        let rules = Box::leak(Box::new([
            order(Some("new"), 0, DeviceOrder::DeviceFile),
            order(Some("new"), 2, DeviceOrder::Driver),
            order(None, 0, DeviceOrder::PlaceOnCard),
        ]));
        let rule = NumberingRule { detected: rules };
        assert_eq!(rule.order("new", false, None), None);
        assert_eq!(rule.order("new", false, Some((1, 9, 9))), Some(DeviceOrder::DeviceFile));
        assert_eq!(rule.order("new", false, Some((2, 0, 0))), Some(DeviceOrder::Driver));
        assert_eq!(rule.order("other", false, None), Some(DeviceOrder::PlaceOnCard));
    }
}
