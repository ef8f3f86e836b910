//! The node view: one node in full, with chart and detail line.

use crate::ui::RenderContext;
use crate::ui::action::{CommonAction, ViewEffect};
use crate::ui::chart_metric::ChartMetric;
use crate::ui::dialog::Dialog;
use crate::ui::display_options::{Density, DisplayOptions};
use crate::ui::navigation::Navigation;
use crate::ui::node_panel::chart::ChartState;
use crate::ui::node_panel::panel;
use crate::ui::node_panel::series::NodeSeries;
use crate::ui::widgets::line::{Line, Tone};
use crate::ui::widgets::list::Movement;

pub(crate) use crate::ui::node_panel::device_table::column_specs;

/// State of the node view that lasts between frames.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Density chosen with a key, `None` for that of the settings.
    pub(crate) density: Option<Density>,
    pub(crate) charts: ChartState,
    pub(crate) series: NodeSeries,
}

impl State {
    pub(crate) const fn has_chart(&self) -> bool {
        self.charts.is_shown
    }

    /// Returns the charted metrics as the value of the setting.
    pub(crate) fn charted_metrics(&self, display: &DisplayOptions) -> String {
        self.charts.setting_value(display)
    }

    /// Drops the metrics chosen with keys, so that those of the settings are charted.
    pub(crate) fn reset_charts(&mut self) {
        self.charts.metrics = None;
    }

    pub(crate) const fn show_chart(&mut self, is_shown: bool) {
        self.charts.is_shown = is_shown;
    }
}

/// Actions that only the node view has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Previous,
    Next,
    Processes,
    /// Set the density of devices, host and chart.
    Density(Density),
    Chart,
    /// Open the menu of chart metrics.
    Metrics,
    /// Add a metric to the chart, or remove it.
    ToggleMetric(ChartMetric),
}

/// Performs an action that all views share.
pub(crate) fn update(
    context: RenderContext<'_>,
    navigation: &mut Navigation,
    action: &CommonAction,
) -> ViewEffect {
    let node =
        navigation.node(context.view).map(|node| context.options.selection.filter_node(node));
    match action {
        CommonAction::Move(step) => {
            if let Some(node) = node {
                navigation.step_table(&node, *step);
            }
        }
        CommonAction::Open => {
            if let Some(node) = node {
                navigation.enter_table(&node);
            }
        }
        CommonAction::Back if navigation.leave_table() => {}
        CommonAction::Back
        | CommonAction::Click(_)
        | CommonAction::SortMenu
        | CommonAction::SortBy(_)
        | CommonAction::SortNext
        | CommonAction::SortPrevious
        | CommonAction::Reverse => return ViewEffect::Ignored,
    }
    ViewEffect::Handled
}

/// Performs an action that only the node view has.
pub(crate) fn update_view(
    context: RenderContext<'_>,
    navigation: &mut Navigation,
    action: Action,
) -> ViewEffect {
    let state = &mut navigation.node_state;
    match action {
        Action::Previous => navigation.step_node(context.view, Movement::Up),
        Action::Next => navigation.step_node(context.view, Movement::Down),
        Action::Processes => navigation.shows_processes = !navigation.shows_processes,
        Action::Density(density) => {
            state.density = Some(density);
            return ViewEffect::Message(density_message(density).to_owned());
        }
        Action::Chart => state.charts.is_shown = !state.charts.is_shown,
        Action::Metrics => {
            return ViewEffect::OpenDialog(Dialog::Charts(
                state.charts.menu(context.options, None),
            ));
        }
        Action::ToggleMetric(metric) => {
            state.charts.is_shown = true;
            state.charts.toggle(context.options, metric);
            return ViewEffect::OpenDialog(Dialog::Charts(
                state.charts.menu(context.options, Some(metric)),
            ));
        }
    }
    ViewEffect::Handled
}

const fn density_message(density: Density) -> &'static str {
    match density {
        Density::Auto => "density: auto",
        Density::Full => "density: full",
        Density::Compact => "density: compact",
    }
}

/// Draws the panel of the selected node, with details of the row under the cursor below it.
pub(crate) fn lines(
    context: RenderContext<'_>,
    navigation: &mut Navigation,
    width: u16,
    height: usize,
) -> Vec<Line> {
    let Some(node) = navigation.node(context.view) else {
        return vec![Line::styled("no nodes to watch", Tone::Faint).truncated(width)];
    };
    navigation.keep_selected(&node.name);
    let node = context.options.selection.filter_node(node);
    navigation.node_state.series.record(&node, context.view.now);
    let has_detail = height >= 8;
    let room = height - usize::from(has_detail);
    let mut lines = panel::lines(context, &node, navigation, width, room);
    if let Some(detail) = panel::detail(context, &node, navigation, width).filter(|_| has_detail) {
        lines.resize(room, Line::new());
        lines.push(detail);
    }
    lines
}
