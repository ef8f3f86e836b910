//! One node in full.

use crate::view::Scene;
use crate::view::dialog::Dialog;
use crate::view::line::{Line, Tone};
use crate::view::navigation::{Navigation, Step};
use crate::view::node::chart::Charts;
use crate::view::node::tracks::Tracks;
use crate::view::outcome::{Command, Outcome};
use crate::view::taste::{Density, Taste};

mod chart;
mod devices;
mod facts;
mod host;
pub(crate) mod panel;
mod processes;
mod tracks;

pub use chart::Metric;
pub(crate) use devices::HEADINGS;

/// Where one is in a node.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// How much is said of each thing, where that was chosen here.
    pub(crate) density: Option<Density>,
    charts: Charts,
    tracks: Tracks,
}

impl Place {
    pub(crate) const fn has_chart(&self) -> bool {
        self.charts.is_shown
    }

    /// Returns what is charted, as a setting says it.
    pub(crate) fn charted(&self, taste: &Taste) -> String {
        self.charts.words(taste)
    }

    /// Charts what the settings say, whatever was chosen by keys.
    pub(crate) fn charts_as_set(&mut self) {
        self.charts.metrics = None;
    }

    pub(crate) const fn show_chart(&mut self, is_shown: bool) {
        self.charts.is_shown = is_shown;
    }
}

/// What only the node view understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// Go to the node before.
    Previous,
    /// Go to the node after.
    Next,
    /// Show or hide the process table.
    Processes,
    /// Say so much of each thing.
    Density(Density),
    /// Show or hide the chart.
    Chart,
    /// Choose what is charted.
    Metrics,
    /// Put this on the chart, or take it off.
    Metric(Metric),
}

/// Does what was asked.
pub(crate) fn act(scene: Scene<'_>, navigation: &mut Navigation, command: &Command) -> Outcome {
    let node = navigation.node(scene.picture).map(|node| scene.taste.narrowed(node));
    match command {
        Command::Move(step) => {
            if let Some(node) = node {
                navigation.step_table(&node, *step);
            }
        }
        Command::Open => {
            if let Some(node) = node {
                navigation.enter_table(&node);
            }
        }
        Command::Back if navigation.leave_table() => {}
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

/// Does what only the node view understands.
pub(crate) fn act_own(scene: Scene<'_>, navigation: &mut Navigation, own: Own) -> Outcome {
    let place = &mut navigation.node_place;
    match own {
        Own::Previous => navigation.step_node(scene.picture, Step::Up),
        Own::Next => navigation.step_node(scene.picture, Step::Down),
        Own::Processes => navigation.shows_processes = !navigation.shows_processes,
        Own::Density(density) => {
            place.density = Some(density);
            return Outcome::Say(told(density).to_owned());
        }
        Own::Chart => place.charts.is_shown = !place.charts.is_shown,
        Own::Metrics => return Outcome::Open(Dialog::Charts(place.charts.menu(scene.taste, None))),
        Own::Metric(metric) => {
            place.charts.is_shown = true;
            place.charts.toggle(scene.taste, metric);
            return Outcome::Open(Dialog::Charts(place.charts.menu(scene.taste, Some(metric))));
        }
    }
    Outcome::Nothing
}

const fn told(density: Density) -> &'static str {
    match density {
        Density::Auto => "density: auto",
        Density::Full => "density: full",
        Density::Compact => "density: compact",
    }
}

/// Returns the selected node's panel, and more of the row under the cursor below it.
pub(crate) fn lines(
    scene: Scene<'_>,
    navigation: &mut Navigation,
    width: u16,
    height: usize,
) -> Vec<Line> {
    let Some(node) = navigation.node(scene.picture) else {
        return vec![Line::of("no nodes to watch", Tone::Faint).cut(width)];
    };
    navigation.stay(&node.name);
    let node = scene.taste.narrowed(node);
    navigation.node_place.tracks.record(&node, scene.picture.now);
    let has_detail = height >= 8;
    let room = height - usize::from(has_detail);
    let mut lines = panel::lines(scene, &node, navigation, width, room);
    if let Some(detail) = panel::detail(scene, &node, navigation, width).filter(|_| has_detail) {
        lines.resize(room, Line::new());
        lines.push(detail);
    }
    lines
}
