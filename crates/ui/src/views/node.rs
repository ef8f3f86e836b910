//! The node view: one node in full, with chart and detail line.

use crate::action::{NodeAction, RowAction};
use crate::clipboard::{self, Clip};
use crate::display_options::Density;
use crate::drawn_view::DrawnView;
use crate::effect::Effect;
use crate::node_panel::{explain, panel};
use crate::render_context::{RenderContext, Size};
use crate::view_state::{Explained, Shared, ViewState};
use crate::widgets::column_spec::ColumnGroup;
use crate::widgets::line::{Line, Tone};
use crate::widgets::list::Movement;

pub use crate::node_panel::device_table::column_specs;

/// From this height on, the line of details is kept free for the cursor.
const MIN_HEIGHT_WITHOUT_CURSOR: usize = 16;

/// The node view has no state besides the panel.
#[derive(Clone, Debug, Default)]
pub struct State;

impl ViewState for State {
    fn refresh(&mut self, context: RenderContext<'_>, Shared { selection, panel }: &mut Shared) {
        let Some(node) = selection.node(context.view) else { return };
        selection.keep_selected(&node.name);
        if context.options.key_scheme.always_selects() {
            panel.follow(selection);
            panel.select_any_process(&context.options.selection.filter_node(node));
        }
    }

    fn update(
        &mut self,
        context: RenderContext<'_>,
        Shared { selection, panel }: &mut Shared,
        action: &RowAction,
    ) -> Effect {
        let node = selection.node(context.view);
        let node = node.map(|node| context.options.selection.filter_node(node));
        match (action, node) {
            (RowAction::Move(step), Some(node)) => panel.step(&node, *step),
            (RowAction::Move(_), None) => {}
            (RowAction::Back, _)
                if !context.options.key_scheme.always_selects() && panel.leave() => {}
            // Opening a row leads to another view.
            (RowAction::Back | RowAction::Open | RowAction::Click(_), _) => return Effect::Ignored,
        }
        Effect::Handled
    }

    fn columns(&self) -> Vec<ColumnGroup> {
        panel::column_groups()
    }

    fn clips(&self, context: RenderContext<'_>, shared: &Shared) -> Vec<Clip> {
        let node = shared.selection.node(context.view);
        node.map_or_else(Vec::new, |node| clipboard::of_node(context.view, node))
    }

    /// Explains the row under the cursor of the tables, or else the node.
    fn explain(&mut self, context: RenderContext<'_>, shared: &Shared) -> Explained {
        let Shared { selection, panel } = shared;
        let node = selection.node(context.view).ok_or("no nodes to watch")?;
        let node = context.options.selection.filter_node(node);
        Ok(match panel.cursor(&node) {
            Some(row_id) => explain::row(context, &node, &row_id),
            None => explain::node_alone(context, &node),
        })
    }

    /// Draws the panel of the selected node, with details of the row under the cursor below it.
    fn lines(&self, context: RenderContext<'_>, shared: &Shared, size: Size) -> DrawnView {
        let Shared { selection, panel } = shared;
        let (width, height) = size;
        let Some(node) = selection.node(context.view) else {
            return vec![Line::styled("no nodes to watch", Tone::Faint).truncated(width)].into();
        };
        let node = context.options.selection.filter_node(node);
        let has_cursor = panel.cursor(&node).is_some();
        let has_detail = height >= if has_cursor { 8 } else { MIN_HEIGHT_WITHOUT_CURSOR };
        let room = height - usize::from(has_detail);
        let mut drawn = panel::lines(context, &node, panel, (width, room));
        if let Some(detail) = panel::detail(context, &node, panel, width).filter(|_| has_detail) {
            drawn.lines.resize(room, Line::new());
            drawn.lines.push(detail);
        }
        drawn
    }
}

/// Performs an action that only the node view has.
pub(crate) fn update_panel(
    context: RenderContext<'_>,
    Shared { selection, panel }: &mut Shared,
    action: NodeAction,
) -> Effect {
    let charts = &mut panel.charts;
    match action {
        NodeAction::Previous => selection.step_node(context.view, Movement::Up),
        NodeAction::Next => selection.step_node(context.view, Movement::Down),
        NodeAction::Processes => panel.hides_processes = !panel.hides_processes,
        NodeAction::Density(density) => {
            panel.density = Some(density);
            return Effect::Message(density_message(density).to_owned());
        }
        NodeAction::Chart => charts.is_shown = !charts.is_shown,
        NodeAction::Metrics => return Effect::OpenDialog(charts.menu(context.options, None)),
        NodeAction::ToggleMetric(metric) => {
            charts.is_shown = true;
            charts.toggle(context.options, metric);
            return Effect::OpenDialog(charts.menu(context.options, Some(metric)));
        }
    }
    Effect::Handled
}

const fn density_message(density: Density) -> &'static str {
    match density {
        Density::Auto => "density: auto",
        Density::Full => "density: full",
        Density::Compact => "density: compact",
    }
}
