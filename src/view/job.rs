//! One job: what it is, how its devices do, and its nodes.

use std::sync::Arc;

use crate::model::{JobId, JobList};
use crate::view::input::Click;
use crate::view::line::{Line, Tone};
use crate::view::navigation::{Chosen, Navigation, Step, View, Window};
use crate::view::number::Units;
use crate::view::outcome::{Command, Outcome};
use crate::view::{Scene, node};

mod finding;
mod head;
mod roll;
mod sheet;
mod spread;
mod table;
mod track;
pub(crate) mod waiting;

pub(crate) use roll::Roll;

use sheet::{Measure, Sheet};
use track::Track;

/// A panel of the selected node wants so many lines.
const PANEL: usize = 14;
/// The most lines for jobs that wait, below a job that runs.
const WAITING: usize = 4;

/// Where one is in a job.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// Arrows move among its nodes.
    is_in_table: bool,
    list: Window,
    measure: Measure,
    /// The job in numbers, and of which picture.
    sheet: Option<(Arc<Roll>, Arc<Sheet>)>,
    track: Track,
}

impl Place {
    /// Says whether the cursor is in the table of nodes.
    pub(crate) const fn is_in_table(&self) -> bool {
        self.is_in_table
    }
}

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
    /// Show another number of each device.
    Measure,
}

/// Does what was asked.
pub(crate) fn act(scene: Scene<'_>, navigation: &mut Navigation, command: &Command) -> Outcome {
    match command {
        Command::Move(step) => turn(scene, navigation, *step),
        Command::Open if navigation.job_place.is_in_table => return Outcome::Show(View::Node),
        Command::Open => navigation.job_place.is_in_table = true,
        Command::Back if std::mem::take(&mut navigation.job_place.is_in_table) => {}
        Command::Click(Click::Row(place)) => {
            let Some(sheet) = settle(scene, navigation) else { return Outcome::Nothing };
            let is_again = at(&sheet, navigation, scene) == *place;
            select(&sheet, navigation, *place);
            if is_again {
                return Outcome::Show(View::Node);
            }
        }
        Command::Back
        | Command::Click(_)
        | Command::SortMenu
        | Command::SortBy(_)
        | Command::SortNext
        | Command::SortPrevious
        | Command::Invert => return Outcome::Unused,
    }
    Outcome::Nothing
}

/// Does what only the job view understands.
pub(crate) fn act_own(scene: Scene<'_>, navigation: &mut Navigation, own: Own) -> Outcome {
    match own {
        Own::PreviousJob => turn(scene, navigation, Step::Up),
        Own::NextJob => turn(scene, navigation, Step::Down),
        Own::PreviousNode => step_row(scene, navigation, Step::Up),
        Own::NextNode => step_row(scene, navigation, Step::Down),
        Own::Processes => navigation.shows_processes = !navigation.shows_processes,
        Own::Measure => navigation.job_place.measure = navigation.job_place.measure.next(),
    }
    Outcome::Nothing
}

/// Moves among nodes with the cursor in the table, else among jobs.
fn turn(scene: Scene<'_>, navigation: &mut Navigation, step: Step) {
    if navigation.job_place.is_in_table {
        step_row(scene, navigation, step);
    } else {
        navigation.step_job(scene.picture, step);
    }
}

fn step_row(scene: Scene<'_>, navigation: &mut Navigation, step: Step) {
    let Some(sheet) = settle(scene, navigation) else { return };
    let page = navigation.job_place.list.rows;
    let to = step.from(at(&sheet, navigation, scene), sheet.rows.len(), page);
    select(&sheet, navigation, to);
}

fn select(sheet: &Sheet, navigation: &mut Navigation, place: usize) {
    if let Some(row) = sheet.rows.get(place) {
        navigation.select(row.name.clone());
    }
}

/// Returns the row of the selected node; the first when it is none of the job's.
fn at(sheet: &Sheet, navigation: &Navigation, scene: Scene<'_>) -> usize {
    let Some(node) = navigation.node(scene.picture) else { return 0 };
    sheet.rows.iter().position(|row| row.name == node.name).unwrap_or(0)
}

/// Returns the selected job in numbers, worked out once for a picture.
fn settle(scene: Scene<'_>, navigation: &mut Navigation) -> Option<Arc<Sheet>> {
    let picture = scene.picture;
    navigation.settle_job(picture);
    let id: JobId = match navigation.job(picture)? {
        Chosen::Listed { job, .. } => job.id.clone(),
        Chosen::Hidden(_) | Chosen::Ended(_) => return None,
    };
    let roll = picture.roll();
    let units = Units::of(scene.taste);
    let place = &mut navigation.job_place;
    if let Some((known, sheet)) = &place.sheet
        && Arc::ptr_eq(known, roll)
        && sheet.job.id == id
        && sheet.units == units
    {
        return Some(Arc::clone(sheet));
    }
    let sheet = Arc::new(Sheet::of(picture, roll.entry(&id)?, units));
    place.track.follow(&picture.fleet, &sheet, picture.now);
    place.sheet = Some((Arc::clone(roll), Arc::clone(&sheet)));
    Some(sheet)
}

/// Returns the job's head and its nodes; jobs that wait and the selected node where there is room.
pub(crate) fn lines(
    scene: Scene<'_>,
    navigation: &mut Navigation,
    width: u16,
    height: usize,
) -> Vec<Line> {
    let picture = scene.picture;
    let Some(sheet) = settle(scene, navigation) else {
        return without(scene, navigation, width, height);
    };
    let count = picture.roll().shown().count();
    let place = match navigation.job(picture) {
        Some(Chosen::Listed { place, .. }) => place,
        Some(Chosen::Hidden(_) | Chosen::Ended(_)) | None => 0,
    };
    let position = head::Position { place, count };
    let track = &navigation.job_place.track;
    let size = (width, height);
    let mut lines = head::lines(picture, scene.taste, &sheet, track, position, size);
    if height >= 24 {
        lines.push(Line::new());
    }
    if height >= 8 {
        lines.push(table::caption(navigation.job_place.measure, sheet.units, width));
    }
    let room = height.saturating_sub(lines.len());
    let share = Share::of(&sheet, waiting(scene), room);
    let place = at(&sheet, navigation, scene);
    let look = table::Look {
        picture,
        taste: scene.taste,
        sheet: &sheet,
        measure: navigation.job_place.measure,
        place,
        has_cursor: navigation.job_place.is_in_table,
    };
    lines.extend(table::lines(look, &mut navigation.job_place.list, width, share.table));
    if share.panel > 0
        && let Some(node) = navigation.node(picture).cloned()
    {
        lines.push(Line::new().rule(width));
        lines.extend(node::panel::lines(scene, &node, navigation, width, share.panel));
    }
    if share.waiting > 0
        && let Some(list) = &picture.fleet.jobs
    {
        lines.resize(height.saturating_sub(share.waiting), Line::new());
        lines.extend(waiting::lines(picture, list, scene.zone, width, share.waiting));
    }
    lines.truncate(height);
    lines
}

/// How the lines below the head are shared out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    /// Lines of the table, its titles included.
    table: usize,
    /// Lines of the panel, the rule above it not counted.
    panel: usize,
    /// Lines of the jobs that wait, their titles included.
    waiting: usize,
}

impl Share {
    fn of(sheet: &Sheet, waiting: usize, room: usize) -> Self {
        let wanted = sheet.rows.len() + 1;
        let least = wanted.min(room / 2);
        let waiting = if waiting > 0 { (waiting + 1).min(WAITING) } else { 0 };
        // One more for the gap above them.
        let waiting = if room > least + waiting && room >= 8 { waiting } else { 0 };
        let rest = room - waiting;
        let table = wanted.min(rest.saturating_sub(usize::from(waiting > 0)));
        let left = rest.saturating_sub(table + 2);
        let panel = if left >= PANEL { left } else { 0 };
        Self { table, panel, waiting }
    }
}

/// Returns how many jobs wait.
fn waiting(scene: Scene<'_>) -> usize {
    scene.picture.fleet.jobs.as_ref().map_or(0, |list| list.waiting().count())
}

/// Stands where there is no job to look at.
fn without(scene: Scene<'_>, navigation: &Navigation, width: u16, height: usize) -> Vec<Line> {
    let picture = scene.picture;
    let list = picture.fleet.jobs.as_deref();
    let mut lines = match navigation.job(picture) {
        Some(Chosen::Ended(job)) => {
            let outcome = list.map(|list| list.outcome(&job.id)).unwrap_or_default();
            head::ended(job, outcome, width)
        }
        Some(Chosen::Hidden(job)) => head::hidden(job, width),
        Some(Chosen::Listed { .. }) | None if !picture.roll().entries.is_empty() => {
            vec![Line::of("the filter takes no node of any job", Tone::Warn).cut(width)]
        }
        Some(Chosen::Listed { .. }) | None => match list {
            Some(list) => return empty(scene, list, width, height),
            None => NO_JOBS.iter().map(|line| Line::of(*line, Tone::Faint).cut(width)).collect(),
        },
    };
    if let Some(list) = list {
        lines.push(Line::new());
        let room = height.saturating_sub(lines.len());
        lines.extend(waiting::lines(picture, list, scene.zone, width, room));
    }
    lines
}

/// Said where there are no jobs.
const NO_JOBS: [&str; 2] = [
    "no process here belongs to a job, and no scheduler is asked",
    "gtop --slurm shows your jobs and their nodes",
];

/// Stands in place of the list while no job has nodes: why, what to do, and the jobs that wait.
pub(crate) fn empty(scene: Scene<'_>, list: &JobList, width: u16, height: usize) -> Vec<Line> {
    waiting::empty(scene.picture, list, scene.zone, width, height)
}
