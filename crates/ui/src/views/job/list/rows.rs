//! The rows of the list of jobs, and their order.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::views::job::load::JobLoad;
use crate::widgets::line::Line;
use crate::widgets::list::compare_known;
use crate::widgets::number_format::or_unknown;
use gtop_fleet::insight::FleetView;
use gtop_fleet::insight::jobs::JobIndex;
use gtop_fleet::insight::users::shown_device_time;
use gtop_fleet::query::SortOrder;
use gtop_local::text::width_of;
use gtop_local::time::Timestamp;
use gtop_model::{FinishedJob, Job, JobId, JobState};

/// Maximum number of devices that the sparkline of a row is made of.
const MAX_SAMPLED_DEVICES: usize = 64;
/// A job keeps its worst grade for this long, so that rows do not swap while loads merely vary.
const HELD_GRADE: Duration = Duration::from_secs(30);

/// Where the job of a row stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobPlace {
    /// Among the jobs that have nodes.
    Entry(usize),
    /// Among the jobs of the scheduler's list.
    Listed(usize),
    /// Among those that have ended.
    Finished(usize),
}

/// One job of the list.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JobRow {
    place: JobPlace,
    /// The job belongs to the user as whom gtop reaches the nodes.
    pub(super) is_own: bool,
    /// What its devices do; `None` while it has no nodes, and after its end.
    pub(super) load: Option<JobLoad>,
    grade: HeldGrade,
}

/// How bad the load of a job is, in coarse steps; a worse one is greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Grade {
    has_bad_devices: bool,
    has_old_nodes: bool,
    /// Binary orders of magnitude.
    idle: u32,
    outliers: u32,
    /// The quarters of utilization that are missing.
    slack: u32,
}

/// A grade, and when the job had it last.
type HeldGrade = (Grade, Timestamp);

impl Grade {
    fn of(load: &JobLoad) -> Self {
        let [idle, outliers] = [load.idle(), load.outliers()]
            .map(|count| count.and_then(usize::checked_ilog2).map_or(0, |magnitude| magnitude + 1));
        Self {
            has_bad_devices: load.has_bad_devices(),
            has_old_nodes: load.has_old_nodes(),
            idle,
            outliers,
            slack: load.mean().map_or(0, |mean| percent_steps(100.0 - mean, 25.0)),
        }
    }

    /// Returns the grade of the job before if that is worse and not long ago.
    fn held(self, before: Option<&HeldGrade>, now: Timestamp) -> HeldGrade {
        let before = before.filter(|(grade, at)| *grade > self && now.since(*at) < HELD_GRADE);
        before.copied().unwrap_or((self, now))
    }
}

/// Returns how many whole steps a percentage has.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a percentage is not negative, and small"
)]
fn percent_steps(percent: f32, step: f32) -> u32 {
    (percent.max(0.0) / step) as u32
}

/// All rows, in the order of the list.
#[derive(Debug, Default)]
pub(super) struct JobRows {
    pub(super) list: Vec<JobRow>,
    index: Arc<JobIndex>,
    /// The text of the filter.
    filter: String,
    /// Columns of the widest id, name and user, and of the widest text about problems, 0 if no job has any.
    pub(super) widths: [u16; 4],
    /// Jobs without nodes that do not match the filter, each task of an array counted.
    pub(super) hidden: usize,
    pub(super) counts: ListCounts,
}

/// What the line above the list counts, once for all frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ListCounts {
    /// Jobs of the user.
    pub(super) own: usize,
    pub(super) with_nodes: usize,
    /// Jobs without nodes, each task of an array counted.
    pub(super) pending: usize,
    /// An array has more tasks than the scheduler lists.
    pub(super) has_more_tasks: bool,
    /// Devices that jobs leave idle.
    pub(super) idle: usize,
    pub(super) outliers: usize,
    /// Jobs that have ended.
    pub(super) finished: usize,
}

impl JobRows {
    /// Builds the rows; grades are held from those `before`. Too slow for each frame: a fleet may have thousands of
    /// jobs.
    pub(super) fn of(fleet_view: &FleetView, order: SortOrder, before: Option<&Self>) -> Self {
        let index = Arc::clone(fleet_view.job_index());
        let filter = fleet_view.filter.text();
        let held = before.filter(|before| before.filter == filter).map(Self::grades);
        let own = fleet_view.own_users();
        let entries = index.entries.iter().enumerate().filter(|(_, entry)| entry.is_shown);
        let mut list: Vec<JobRow> = entries
            .map(|(at, entry)| {
                let load = JobLoad::of(fleet_view, entry);
                let before = held.as_ref().and_then(|held| held.get(&entry.job.id));
                JobRow {
                    place: JobPlace::Entry(at),
                    is_own: own.contains(&*entry.job.user),
                    grade: Grade::of(&load).held(before, fleet_view.now),
                    load: Some(load),
                }
            })
            .collect();
        let listed = fleet_view.fleet.jobs.iter().flat_map(|jobs| jobs.jobs.iter().enumerate());
        let without_nodes = listed.filter(|(_, job)| job.allocations.is_empty());
        let is_filtered = !fleet_view.filter.is_empty();
        let mut hidden: usize = 0;
        for (at, job) in without_nodes {
            if is_filtered && !fleet_view.filter.matches_waiting_job(job, fleet_view.now) {
                hidden = hidden.saturating_add(task_count(job));
                continue;
            }
            let (place, grade) = (JobPlace::Listed(at), HeldGrade::default());
            let is_own = own.contains(&*job.user);
            list.push(JobRow { place, is_own, load: None, grade });
        }
        let mut rows = Self {
            list,
            index,
            filter: filter.to_owned(),
            widths: [2, 4, 4, 0],
            hidden,
            counts: ListCounts::default(),
        };
        rows.sort(fleet_view, order);
        rows.add_finished(fleet_view);
        rows.widths = rows.widest(fleet_view);
        rows.counts = rows.count(fleet_view);
        rows
    }

    /// Appends the jobs that have ended and match, the last end first, whatever the order of the others.
    fn add_finished(&mut self, fleet_view: &FleetView) {
        let Some(jobs) = &fleet_view.fleet.jobs else { return };
        let (filter, own) = (&fleet_view.filter, fleet_view.own_users());
        for (at, FinishedJob { job, .. }) in jobs.finished.list.iter().enumerate() {
            if filter.is_empty() || filter.matches_waiting_job(job, fleet_view.now) {
                let (place, grade) = (JobPlace::Finished(at), HeldGrade::default());
                let is_own = own.contains(&*job.user);
                self.list.push(JobRow { place, is_own, load: None, grade });
            }
        }
    }

    fn count(&self, fleet_view: &FleetView) -> ListCounts {
        let mut counts = ListCounts::default();
        for row in &self.list {
            if matches!(row.place, JobPlace::Finished(_)) {
                counts.finished += 1;
                continue;
            }
            counts.own += usize::from(row.is_own);
            if let Some(load) = &row.load {
                counts.with_nodes += 1;
                counts.idle += load.idle().unwrap_or_default();
                counts.outliers += load.outliers().unwrap_or_default();
                continue;
            }
            let Some(job) = self.job(fleet_view, row) else { continue };
            counts.has_more_tasks |= job.tasks.is_none();
            counts.pending = counts.pending.saturating_add(task_count(job));
        }
        counts
    }

    fn widest(&self, fleet_view: &FleetView) -> [u16; 4] {
        let [mut id, mut name, mut user, mut problems] = self.widths;
        for row in &self.list {
            let Some(job) = self.job(fleet_view, row) else { continue };
            id = width_of(&job.shown_id).max(id);
            name = width_of(&job.name).max(name);
            user = width_of(&job.user).max(user);
            problems = row.problems().width().max(problems);
        }
        [id, name, user, problems]
    }

    fn grades(&self) -> BTreeMap<&JobId, HeldGrade> {
        let grades = self.list.iter().filter_map(|row| {
            let JobPlace::Entry(at) = row.place else { return None };
            Some((&self.index.entries.get(at)?.job.id, row.grade))
        });
        grades.collect()
    }

    /// Returns true if the same jobs have nodes that match as in `index`.
    pub(super) fn has_jobs_of(&self, index: &JobIndex) -> bool {
        self.index.shown().map(|entry| &entry.job.id).eq(index.shown().map(|entry| &entry.job.id))
    }

    pub(super) fn job<'a>(&'a self, fleet_view: &'a FleetView, row: &JobRow) -> Option<&'a Job> {
        match row.place {
            JobPlace::Entry(at) => self.index.entries.get(at).map(|entry| &entry.job),
            JobPlace::Listed(at) => fleet_view.fleet.jobs.as_ref()?.jobs.get(at),
            JobPlace::Finished(_) => Some(&row.finished_job(fleet_view)?.job),
        }
    }

    pub(super) fn has_id(&self, fleet_view: &FleetView, row: &JobRow, id: &Arc<str>) -> bool {
        self.job(fleet_view, row).is_some_and(|job| job.shown_id == *id)
    }

    /// Returns the jobs that have nodes, in the order of the rows.
    pub(super) fn with_nodes<'a>(
        &'a self,
        fleet_view: &'a FleetView,
    ) -> impl Iterator<Item = &'a Job> + Clone {
        let rows = self.list.iter().filter(|row| row.load.is_some());
        rows.filter_map(|row| self.job(fleet_view, row))
    }

    /// Returns some devices of a job by the indices of their node and of the device, evenly spread over all of them.
    pub(super) fn sampled_devices(&self, row: &JobRow) -> Vec<(usize, usize)> {
        let JobPlace::Entry(at) = row.place else { return Vec::new() };
        let Some(entry) = self.index.entries.get(at) else { return Vec::new() };
        let nodes =
            entry.nodes.iter().filter_map(|known| Some((known.node_index?, &known.positions)));
        let count: usize = nodes.clone().map(|(_, positions)| positions.len()).sum();
        let all = nodes.flat_map(|(node, positions)| positions.iter().map(move |at| (node, *at)));
        all.step_by(count.div_ceil(MAX_SAMPLED_DEVICES).max(1)).collect()
    }

    /// Sorts the rows; those that are equal stay in the order of their default, the worst first.
    fn sort(&mut self, fleet_view: &FleetView, order: SortOrder) {
        let mut list = std::mem::take(&mut self.list);
        list.sort_by_cached_key(|row| row.rank(self.job(fleet_view, row)));
        if order.column != "worst" {
            list.sort_by(|one, other| {
                let jobs = self.job(fleet_view, one).zip(self.job(fleet_view, other));
                jobs.map_or(Ordering::Equal, |jobs| one.compare(jobs, other, order, fleet_view.now))
            });
        } else if order.is_reversed {
            list.reverse();
            list.sort_by_key(|row| row.load.is_none());
        }
        self.list = list;
    }
}

/// Returns the number of tasks of an entry, at least 1.
fn task_count(job: &Job) -> usize {
    job.tasks.and_then(|tasks| usize::try_from(tasks).ok()).unwrap_or(1)
}

/// Returns true if the values of a sort column rise from row to row unless reversed, as texts do.
pub(super) fn rises(column: &str) -> bool {
    matches!(column, "job" | "jobname" | "jobuser" | "partition" | "jobstate")
}

/// The default order: own jobs before others, those with nodes before those that wait, and the worst first.
type Rank = (bool, bool, Reverse<Grade>, Option<u64>, String);

impl JobRow {
    fn rank(&self, job: Option<&Job>) -> Rank {
        (
            !self.is_own,
            self.load.is_none(),
            Reverse(self.grade.0),
            job.and_then(|job| job.id.as_str().parse().ok()),
            job.map(|job| job.shown_id.to_string()).unwrap_or_default(),
        )
    }

    /// Compares by a column: numbers largest first, texts in rising order, or reversed; unknown values always last.
    fn compare(
        &self,
        (job, other_job): (&Job, &Job),
        other: &Self,
        order: SortOrder,
        now: Timestamp,
    ) -> Ordering {
        let is_reversed = order.is_reversed;
        let rows = [(self, job), (other, other_job)];
        match order.column {
            "job" => compare_by(rows, is_reversed, |_, job| {
                let number: u64 = job.id.as_str().parse().unwrap_or(u64::MAX);
                Some((number, job.shown_id.to_string()))
            }),
            "jobname" => compare_by(rows, is_reversed, |_, job| known_text(&job.name)),
            "jobuser" => compare_by(rows, is_reversed, |_, job| known_text(&job.user)),
            "partition" => compare_by(rows, is_reversed, |_, job| known_text(&job.partition)),
            "jobstate" => compare_by(rows, is_reversed, |_, job| Some(job.state)),
            "idle" => compare_by(rows, is_reversed, |row, _| row.load()?.idle().map(Reverse)),
            "wasted" => compare_by(rows, is_reversed, |row, _| {
                Some(Reverse(shown_device_time(row.load()?.wasted)))
            }),
            "outliers" => {
                compare_by(rows, is_reversed, |row, _| row.load()?.outliers().map(Reverse))
            }
            "util" => compare_by(rows, is_reversed, |row, _| {
                Some(Reverse(percent_steps(row.load()?.mean()?, 0.001)))
            }),
            "used" => compare_by(rows, is_reversed, |row, job| {
                row.load().and(job.elapsed(now)).map(Reverse)
            }),
            _ => compare_by(rows, is_reversed, |row, job| row.device_count(job).map(Reverse)),
        }
    }

    fn load(&self) -> Option<&JobLoad> {
        self.load.as_ref()
    }

    /// Returns the number of devices it has or, while it waits, has requested.
    fn device_count(&self, job: &Job) -> Option<usize> {
        if let Some(load) = &self.load {
            return load.matching;
        }
        let asked = u64::from(job.devices_per_node?) * u64::from(job.node_count.max(1));
        usize::try_from(asked).ok()
    }

    /// Returns nodes × devices of each: `3×8`; `3n 20` if nodes differ, `3n` if the devices are unknown.
    pub(super) fn size_text(&self, job: &Job) -> String {
        let Some(load) = &self.load else {
            let nodes = job.node_count.max(1);
            return match job.devices_per_node {
                Some(devices) => format!("{nodes}×{devices}"),
                None => format!("{nodes}n"),
            };
        };
        match load.devices.as_deref() {
            Some([first, others @ ..]) if others.iter().all(|other| other == first) => {
                format!("{}×{first}", load.nodes)
            }
            Some(devices) => format!("{}n {}", load.nodes, devices.iter().sum::<usize>()),
            None => format!("{}n", load.nodes),
        }
    }

    /// Returns the number of devices that match, of all: `8/24`; `None` while the job waits.
    pub(super) fn matching_text(&self) -> Option<String> {
        let load = self.load.as_ref()?;
        let all = or_unknown(load.device_total(), |all| all.to_string());
        Some(format!("{}/{all}", or_unknown(load.matching, |count| count.to_string())))
    }

    /// Returns what is wrong with its devices and nodes.
    pub(super) fn problems(&self) -> Line {
        let problems = self.load.iter().flat_map(JobLoad::problems);
        let notes = problems.map(|(count, word, severity)| (format!("{count} {word}"), severity));
        Line::of_notes(&notes.collect::<Vec<_>>())
    }

    /// Returns the job if it has ended.
    pub(super) fn finished_job<'a>(&self, fleet_view: &'a FleetView) -> Option<&'a FinishedJob> {
        let JobPlace::Finished(at) = self.place else { return None };
        fleet_view.fleet.jobs.as_ref()?.finished.list.get(at)
    }

    /// Returns true while the job waits for nodes.
    pub(super) fn is_pending(&self, job: &Job) -> bool {
        self.load.is_none() && job.state == JobState::Pending
    }
}

/// Compares rows by a key that is read from each.
fn compare_by<'a, K: Ord>(
    rows: [(&'a JobRow, &'a Job); 2],
    is_reversed: bool,
    key: impl Fn(&'a JobRow, &'a Job) -> Option<K>,
) -> Ordering {
    compare_known(rows.map(|(row, job)| key(row, job)), is_reversed)
}

fn known_text(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_fleet::query::Filter;
    use gtop_fleet::{Fleet, Node, SourceState};
    use gtop_model::{
        Allocation, Device, DeviceActivity, DeviceAllocation, DeviceFault, Fault, FaultKind,
        FinishedJobs, Hello, HostFacts, JobList, JobOutcome, Link, NodeName, Percent, Reading,
        Reason, Source,
    };

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    /// A fresh node that ada reaches, with devices of these loads.
    fn node(name: &str, loads: &[f32]) -> Arc<Node> {
        let mut node = Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
        node.link = Link::Up;
        let host = HostFacts { user: "ada".into(), ..HostFacts::default() };
        node.hello = Some(Arc::new(Hello { host, ..Hello::default() }));
        node.devices = (0..)
            .zip(loads)
            .map(|(index, load)| Device {
                uuid: format!("GPU-{name}-{index}").into(),
                index: Reading::Known(index),
                utilization: Reading::checked(Percent::new(*load)),
                ..Device::default()
            })
            .collect();
        node.device_sources = vec![Source::host(); loads.len()].into();
        node.sources.push(SourceState {
            source: Source::host(),
            taken_at: Some(NOW),
            interval: Duration::from_secs(1),
            fault: None,
            absent: None,
        });
        Arc::new(node)
    }

    fn job(id: &str, user: &str, nodes: &[(&str, &[u32])]) -> Job {
        let allocation = |(node, indices): &(&str, &[u32])| Allocation {
            node: NodeName::new(node).unwrap(),
            devices: DeviceAllocation::Indices((*indices).into()),
        };
        let allocations = nodes.iter().map(allocation).collect();
        Job { user: user.into(), allocations, ..Job::example(id) }
    }

    fn pending(id: &str, user: &str) -> Job {
        Job { state: JobState::Pending, node_count: 4, ..job(id, user, &[]) }
    }

    fn view_of(nodes: Vec<Arc<Node>>, jobs: Vec<Job>, filter: &str) -> FleetView {
        let list = JobList { jobs, ..JobList::default() };
        let fleet = Fleet::new(nodes.into()).with_jobs(Some(Arc::new(list)));
        FleetView::filtered(fleet, NOW, Filter::new(filter).unwrap())
    }

    fn view(jobs: Vec<Job>, filter: &str) -> FleetView {
        let nodes = vec![
            node("a", &[90.0, 91.0, 92.0, 30.0]),
            node("b", &[0.0, 95.0]),
            node("c", &[50.0, 60.0]),
        ];
        view_of(nodes, jobs, filter)
    }

    /// The same with fresh nodes, some seconds later.
    fn later(mut fleet_view: FleetView, seconds: u64) -> FleetView {
        let now = NOW.plus(Duration::from_secs(seconds));
        let fresh = |node: &Arc<Node>| changed(node, |node| node.sources[0].taken_at = Some(now));
        fleet_view.fleet.nodes = fleet_view.fleet.nodes.iter().map(fresh).collect();
        fleet_view.now = now;
        fleet_view
    }

    fn changed(node: &Arc<Node>, change: impl FnOnce(&mut Node)) -> Arc<Node> {
        let mut node = Node::clone(node);
        change(&mut node);
        Arc::new(node)
    }

    fn ids(fleet_view: &FleetView, order: SortOrder) -> Vec<String> {
        ids_of(fleet_view, &JobRows::of(fleet_view, order, None))
    }

    fn ids_of(fleet_view: &FleetView, rows: &JobRows) -> Vec<String> {
        rows.list.iter().map(|row| rows.job(fleet_view, row).unwrap().id.to_string()).collect()
    }

    fn some_jobs() -> Vec<Job> {
        vec![
            job("1", "bob", &[("b", &[0, 1])]),
            job("2", "ada", &[("c", &[1])]),
            job("3", "ada", &[("a", &[0, 1, 2, 3])]),
            job("4", "ada", &[("c", &[0])]),
            pending("5", "ada"),
            pending("6", "bob"),
        ]
    }

    #[test]
    fn own_jobs_come_first_and_of_these_the_worst() {
        let fleet_view = view(some_jobs(), "");
        // Job 3 has an outlier; 4 has a lower utilization than 2; 1 has an idle device, but is not ada's.
        assert_eq!(ids(&fleet_view, SortOrder::by("worst")), ["3", "4", "2", "5", "1", "6"]);
        let reversed = SortOrder { is_reversed: true, ..SortOrder::by("worst") };
        assert_eq!(ids(&fleet_view, reversed), ["1", "2", "4", "3", "6", "5"]);
    }

    #[test]
    fn jobs_that_have_ended_come_last_in_any_order_and_match_by_what_is_known_of_them() {
        let finished = |id: &str, user| FinishedJob {
            job: Job { state: JobState::Ended, ..job(id, user, &[("a", &[])]) },
            outcome: JobOutcome::Completed,
            exit_code: Some(0),
            signal: None,
            cancelled_by: None,
            devices: None,
        };
        let list = vec![finished("9", "bob"), finished("8", "ada")];
        for (filter, expected, counted) in [
            ("", &["3", "4", "2", "5", "1", "6", "9", "8"][..], 2),
            ("jobuser=ada", &["3", "4", "2", "5", "8"], 1),
            ("jobstate=ended", &["9", "8"], 2),
        ] {
            let mut fleet_view = view(some_jobs(), filter);
            let jobs = JobList::clone(fleet_view.fleet.jobs.as_ref().unwrap());
            let finished = Arc::new(FinishedJobs { list: list.clone(), ..FinishedJobs::default() });
            fleet_view.fleet.jobs = Some(Arc::new(JobList { finished, ..jobs }));
            let rows = JobRows::of(&fleet_view, SortOrder::by("worst"), None);
            assert_eq!(ids_of(&fleet_view, &rows), expected, "{filter}");
            assert_eq!(rows.counts.finished, counted, "{filter}");
            let reversed = SortOrder { is_reversed: true, ..SortOrder::by("job") };
            assert!(ids(&fleet_view, reversed).ends_with(&["8".to_owned()]), "{filter}");
        }
    }

    #[test]
    fn jobs_with_bad_devices_come_first_then_those_with_old_nodes() {
        let errors = node("errors", &[99.0]);
        let errors = changed(&errors, |node| node.devices[0].ecc_uncorrected = Reading::Known(2));
        let lost = changed(&node("lost", &[99.0, 99.0]), |node| {
            node.devices[1].fault = Some(DeviceFault::Lost);
            node.devices[1].utilization = Reading::default();
        });
        let old = Some(NOW.minus(Duration::from_secs(99)));
        let stale = changed(&node("stale", &[99.0]), |node| node.sources[0].taken_at = old);
        let fault = Fault::new(FaultKind::Refused, "");
        let down = changed(&node("down", &[99.0]), |node| {
            node.link = Link::Down { fault, retry_at: None };
        });
        let jobs = vec![
            job("1", "ada", &[("idle", &[0, 1])]),
            job("2", "ada", &[("busy", &[0]), ("stale", &[0])]),
            job("3", "ada", &[("busy", &[0]), ("down", &[0]), ("stale", &[0])]),
            job("4", "ada", &[("lost", &[0, 1]), ("stale", &[0])]),
            job("5", "ada", &[("errors", &[0])]),
            job("6", "bob", &[("lost", &[1])]),
        ];
        let (idle, busy) = (node("idle", &[0.0, 0.0]), node("busy", &[99.0]));
        let fleet_view = view_of(vec![errors, lost, stale, down, idle, busy], jobs, "");
        let rows = JobRows::of(&fleet_view, SortOrder::by("worst"), None);
        assert_eq!(ids_of(&fleet_view, &rows), ["4", "5", "2", "3", "1", "6"]);
        let problems: Vec<String> =
            rows.list.iter().map(|row| row.problems().plain_text()).collect();
        let expected = ["1 lost · 1 stale", "1 ECC", "1 stale", "1 down · 1 stale", "", "1 lost"];
        assert_eq!(problems, expected);
    }

    #[test]
    fn rows_do_not_swap_while_loads_merely_vary() {
        let jobs = || {
            ["1", "2", "3", "4"].map(|id| job(id, "ada", &[(&*format!("n{id}"), &[0, 1])])).to_vec()
        };
        let of = |loads: [[f32; 2]; 4]| {
            let nodes = loads.iter().zip(1..).map(|(loads, at)| node(&format!("n{at}"), loads));
            view_of(nodes.collect(), jobs(), "")
        };
        let first = of([[76.0, 74.0], [90.0, 90.0], [4.0, 30.0], [60.0, 60.0]]);
        let mut rows = JobRows::of(&first, SortOrder::by("worst"), None);
        let order = ["3", "1", "4", "2"];
        assert_eq!(ids_of(&first, &rows), order);
        // Job 1 has 75 % on the mean, where a step begins; a device of job 3 is idle in some samples.
        for (second, change) in (1..=60).zip([3.0, -3.0].into_iter().cycle()) {
            let loads = [
                [76.0 + change, 74.0],
                [90.0 - change, 90.0],
                [4.0 + change, 30.0],
                [60.0, 60.0 + change],
            ];
            let next = later(of(loads), second);
            rows = JobRows::of(&next, SortOrder::by("worst"), Some(&rows));
            assert_eq!(ids_of(&next, &rows), order, "{second}");
        }
    }

    #[test]
    fn a_job_that_gets_worse_rises_at_once_and_one_that_recovers_sinks_later() {
        let jobs = || vec![job("1", "ada", &[("n1", &[0])]), job("2", "ada", &[("n2", &[0])])];
        let mut before = None;
        for (second, loads, order) in [
            (0, [90.0, 90.0], ["1", "2"]),
            (1, [90.0, 0.0], ["2", "1"]),
            (2, [90.0, 90.0], ["2", "1"]),
            (30, [90.0, 90.0], ["2", "1"]),
            (31, [90.0, 90.0], ["1", "2"]),
        ] {
            let nodes = vec![node("n1", &loads[..1]), node("n2", &loads[1..])];
            let fleet_view = later(view_of(nodes, jobs(), ""), second);
            let rows = JobRows::of(&fleet_view, SortOrder::by("worst"), before.as_ref());
            assert_eq!(ids_of(&fleet_view, &rows), order, "{second}");
            before = Some(rows);
        }
    }

    #[test]
    fn each_column_sorts_and_unknown_values_come_last() {
        let fleet_view = view(some_jobs(), "");
        for (column, expected) in [
            ("job", ["1", "2", "3", "4", "5", "6"]),
            ("idle", ["1", "3", "4", "2", "5", "6"]),
            ("util", ["3", "2", "4", "1", "5", "6"]),
            ("devices", ["3", "1", "4", "2", "5", "6"]),
            ("jobuser", ["3", "4", "2", "5", "1", "6"]),
        ] {
            assert_eq!(ids(&fleet_view, SortOrder::by(column)), expected, "{column}");
        }
        for (column, expected) in [
            ("job", ["6", "5", "4", "3", "2", "1"]),
            ("idle", ["3", "4", "2", "1", "5", "6"]),
            ("util", ["1", "4", "2", "3", "5", "6"]),
            ("devices", ["4", "2", "1", "3", "5", "6"]),
        ] {
            let reversed = SortOrder { is_reversed: true, ..SortOrder::by(column) };
            assert_eq!(ids(&fleet_view, reversed), expected, "{column}, reversed");
        }
    }

    #[test]
    fn with_a_filter_only_matching_devices_count_and_the_size_tells_of_how_many() {
        let jobs = vec![
            job("1", "ada", &[("a", &[0, 1, 2, 3]), ("b", &[0, 1])]),
            job("2", "ada", &[("c", &[0, 1])]),
        ];
        for (filter, expected) in [
            ("node=b", vec![("1", "2/6", 47.5, 1)]),
            ("util<40", vec![("1", "2/6", 15.0, 1)]),
            ("util>=50", vec![("1", "4/6", 92.0, 0), ("2", "2/2", 55.0, 0)]),
        ] {
            let fleet_view = view(jobs.clone(), filter);
            let rows = JobRows::of(&fleet_view, SortOrder::by("job"), None);
            let told: Vec<_> = rows
                .list
                .iter()
                .map(|row| {
                    let load = row.load.as_ref().unwrap();
                    (row.matching_text().unwrap(), load.mean().unwrap(), load.idle().unwrap())
                })
                .collect();
            let id = |row: &JobRow| rows.job(&fleet_view, row).unwrap().id.to_string();
            let ids: Vec<String> = rows.list.iter().map(id).collect();
            let expected_ids: Vec<&str> = expected.iter().map(|(id, ..)| *id).collect();
            assert_eq!(ids, expected_ids, "{filter}");
            for ((size, mean, idle), (_, expected, share, count)) in told.into_iter().zip(expected)
            {
                assert_eq!((&*size, idle), (expected, count), "{filter}");
                assert!((mean - share).abs() < 0.01, "{filter}: {mean}");
            }
        }
    }

    #[test]
    fn a_filter_of_nodes_hides_jobs_without_nodes_and_counts_them() {
        let fleet_view = view(some_jobs(), "node=b");
        assert_eq!(ids(&fleet_view, SortOrder::by("worst")), ["1"]);
        assert_eq!(JobRows::of(&fleet_view, SortOrder::by("worst"), None).hidden, 2);
    }

    #[test]
    fn jobs_that_wait_obey_a_filter_of_jobs_and_each_task_counts() {
        let array = Job { tasks: Some(3), ..pending("7", "bob") };
        let cut = Job { tasks: None, ..pending("8", "carol") };
        let jobs = || vec![pending("5", "ada"), array.clone(), cut.clone()];
        for (filter, shown, counts, hidden) in [
            ("", vec!["5", "7", "8"], (5, true), 0),
            ("jobuser=bob", vec!["7"], (3, false), 2),
            ("not jobuser=bob", vec!["5", "8"], (2, true), 3),
        ] {
            let fleet_view = view(jobs(), filter);
            assert_eq!(ids(&fleet_view, SortOrder::by("job")), shown, "{filter}");
            let rows = JobRows::of(&fleet_view, SortOrder::by("job"), None);
            let ListCounts { pending, has_more_tasks, .. } = rows.counts;
            assert_eq!(((pending, has_more_tasks), rows.hidden), (counts, hidden), "{filter}");
        }
    }

    #[test]
    fn the_size_is_nodes_times_devices_if_all_nodes_are_alike() {
        let asked = Job { devices_per_node: Some(8), ..pending("5", "ada") };
        let jobs = vec![
            job("1", "ada", &[("b", &[0, 1]), ("c", &[0, 1])]),
            job("2", "ada", &[("a", &[0]), ("gone", &[0, 1, 2])]),
            Job {
                allocations: [Allocation {
                    node: NodeName::new("c").unwrap(),
                    devices: DeviceAllocation::Unknown,
                }]
                .into(),
                ..Job::example("3")
            },
            asked,
            pending("6", "ada"),
        ];
        let fleet_view = view(jobs, "");
        let rows = JobRows::of(&fleet_view, SortOrder::by("job"), None);
        let size = |row: &JobRow| row.size_text(rows.job(&fleet_view, row).unwrap());
        let sizes: Vec<String> = rows.list.iter().map(size).collect();
        assert_eq!(sizes, ["2×2", "2n 4", "1n", "4×8", "4n"]);
    }

    #[test]
    fn a_slice_has_the_utilization_that_the_node_shows() {
        let activity = DeviceActivity {
            graphics_active: Reading::checked(Percent::new(31.0)),
            ..DeviceActivity::default()
        };
        let mut sliced = Node::clone(&node("b", &[0.0]));
        sliced.devices[0].utilization = Reading::Unknown(Reason::NotSupported);
        sliced.devices[0].activity = activity.shared();
        let list = JobList { jobs: vec![job("1", "ada", &[("b", &[0])])], ..JobList::default() };
        let fleet = Fleet::new([Arc::new(sliced)].into()).with_jobs(Some(Arc::new(list)));
        let rows = JobRows::of(&FleetView::new(fleet, NOW), SortOrder::by("job"), None);
        let load = rows.list[0].load.as_ref().unwrap();
        assert_eq!((load.mean(), load.idle()), (Some(31.0), Some(0)));
    }

    #[test]
    fn a_stale_node_gives_no_values() {
        let mut old = Node::clone(&node("b", &[0.0, 0.0]));
        old.sources[0].taken_at = Some(Timestamp::default());
        let list = JobList { jobs: some_jobs(), ..JobList::default() };
        let fleet = Fleet::new([Arc::new(old)].into()).with_jobs(Some(Arc::new(list)));
        let fleet_view = FleetView::new(fleet, NOW);
        let rows = JobRows::of(&fleet_view, SortOrder::by("job"), None);
        let load = rows.list[0].load.as_ref().unwrap();
        assert_eq!((load.idle(), load.outliers(), load.mean(), load.fresh), (None, None, None, 0));
        assert_eq!(load.devices.as_deref(), Some(&[2][..]));
    }
}
