//! One job: what it is, and its nodes.

use crate::model::JobList;
use crate::view::line::{Line, Tone};
use crate::view::navigation::{Chosen, Navigation, Step};
use crate::view::outcome::{Command, Outcome};
use crate::view::{Scene, node};

pub(crate) mod head;

/// Where one is in a job.
#[derive(Clone, Debug, Default)]
pub struct Place {}

/// What only the job view understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// Go to the job before.
    PreviousJob,
    /// Go to the job after.
    NextJob,
    /// Go to the job's node before.
    PreviousNode,
    /// Go to the job's node after.
    NextNode,
    /// Show or hide the process table.
    Processes,
}

/// Does what was asked.
pub(crate) fn act(scene: Scene<'_>, navigation: &mut Navigation, command: &Command) -> Outcome {
    node::act(scene, navigation, command)
}

/// Does what only the job view understands.
pub(crate) fn act_own(scene: Scene<'_>, navigation: &mut Navigation, own: Own) -> Outcome {
    let picture = scene.picture;
    let mut turn = |step: Step| {
        if navigation.is_in_table() {
            node::act(scene, navigation, &Command::Move(step));
        } else {
            navigation.step_job(picture, step);
        }
    };
    match own {
        Own::PreviousJob => turn(Step::Up),
        Own::NextJob => turn(Step::Down),
        Own::PreviousNode => navigation.step_job_node(picture, Step::Up),
        Own::NextNode => navigation.step_job_node(picture, Step::Down),
        Own::Processes => navigation.shows_processes = !navigation.shows_processes,
    }
    Outcome::Nothing
}

/// Returns the job's head and the panel of the selected node of it.
pub(crate) fn lines(
    scene: Scene<'_>,
    navigation: &mut Navigation,
    width: u16,
    height: usize,
) -> Vec<Line> {
    let picture = scene.picture;
    let Some(list) = picture.fleet.jobs.as_deref() else {
        return vec![Line::of(NO_JOBS, Tone::Faint).cut(width)];
    };
    navigation.settle_job(picture);
    let mut lines = match navigation.job(picture) {
        Some(Chosen::Ended(job)) => return head::ended(job, width),
        Some(Chosen::Listed { job, place }) => {
            let count = list.on_nodes().count();
            let node = navigation.node(picture);
            let head = |node: &crate::fleet::Node| {
                head::head(picture, job, (place, count), &node.name, width)
            };
            node.map(|node| head(node)).unwrap_or_default()
        }
        None => return empty(scene, list, width, height),
    };
    let rest = height.saturating_sub(lines.len());
    lines.extend(node::lines(scene, navigation, width, rest));
    lines
}

/// Said where no jobs are watched.
pub(crate) const NO_JOBS: &str = "no jobs are watched; start gtop with --slurm";

/// Stands in place of the list while no job has nodes: why, what to do, and the jobs that wait.
pub(crate) fn empty(scene: Scene<'_>, list: &JobList, width: u16, height: usize) -> Vec<Line> {
    head::empty(scene.picture, list, scene.zone, width, height)
}
