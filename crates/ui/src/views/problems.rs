//! The problems view: each kind once, with its nodes, since when, what shows it and what to do about it; a row unfolds into
//! nodes.

use crate::action::RowAction;
use crate::clipboard::Clip;
use crate::drawn_view::DrawnView;
use crate::effect::Effect;
use crate::input::Click;
use crate::node_panel::explain;
use crate::render_context::{RenderContext, Size};
use crate::timeline::time_or_date;
use crate::view_state::{Explained, Shared, UnfoldingList, ViewState};
use crate::widgets::column_spec::ColumnGroup;
use crate::widgets::explanation::{Explanation, Remark};
use crate::widgets::line::{Line, Tone, severity_sign, wrap};
use crate::widgets::list::{ListCursor, Movement, Viewport};
use crate::widgets::table::{self, Cell, Fade, Table, TableColumn, TableRoom};
use gtop_fleet::Node;
use gtop_fleet::insight::{
    FleetProblem, FleetView, ProblemKind, ProblemNode, RowId, Severity, Since, no_problem_text,
};
use gtop_local::text::{counted, width_of};
use gtop_model::NodeName;

use std::collections::BTreeSet;
use std::sync::Arc;

/// The lines of the detail below the rows, its rule included.
const DETAIL_HEIGHT: usize = 6;
/// With fewer lines there is no detail.
const MIN_HEIGHT_WITH_DETAIL: usize = 12;

/// The view's cursor, scroll position and unfolded problem.
#[derive(Clone, Debug, Default)]
pub struct State {
    unfolded: Option<ProblemKind>,
    cursor: ListCursor<ProblemIdentity>,
    /// The number of rows.
    count: usize,
}

/// Identifies a row independently of its position: a problem, or a node that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProblemIdentity {
    kind: ProblemKind,
    node: Option<NodeName>,
}

/// A row: a problem, or a node that has it.
#[derive(Clone, Copy)]
struct ProblemRow<'a> {
    problem: &'a FleetProblem,
    member: Option<(&'a ProblemNode, &'a Arc<Node>)>,
}

impl ProblemRow<'_> {
    fn identity(self) -> ProblemIdentity {
        let node = self.member.map(|(_, node)| node.name.clone());
        ProblemIdentity { kind: self.problem.kind.clone(), node }
    }

    fn since(self) -> Option<Since> {
        self.member.map_or_else(|| self.problem.since(), |(member, _)| Some(member.since))
    }

    /// Returns what shows the problem, on the node of the row or an example.
    fn evidence(self, fleet_view: &FleetView) -> Option<String> {
        match self.member {
            Some((_, node)) => Some(self.problem.kind.evidence(node, fleet_view.now)),
            None => self.problem.evidence(&fleet_view.fleet, fleet_view.now),
        }
    }
}

impl ViewState for State {
    fn refresh(&mut self, context: RenderContext<'_>, _: &mut Shared) {
        self.count = self.row_count(context.view);
    }

    fn update(&mut self, context: RenderContext<'_>, _: &mut Shared, action: &RowAction) -> Effect {
        self.update_rows(context, action)
    }

    fn lines(&self, context: RenderContext<'_>, _: &Shared, (width, height): Size) -> DrawnView {
        let fleet_view = context.view;
        if fleet_view.shown_problems().is_empty() {
            return empty_lines(fleet_view, width, height).into();
        }
        let at = self.row_index(fleet_view);
        let has_detail = height >= MIN_HEIGHT_WITH_DETAIL;
        let detail = self.row(fleet_view, at).filter(|_| has_detail);
        let detail = detail.map(|row| detail_lines(context, row, width)).unwrap_or_default();
        let table = ProblemTable::laid_out(context, self.unfolded.as_ref(), width);
        let mut lines = vec![summary_line(fleet_view).truncated(width)];
        let room = height.saturating_sub(detail.len() + lines.len());
        let drawn = |at| {
            let row = self.row(fleet_view, at)?;
            Some(table.row(sign(row), &row, Fade::None).clickable_line(Click::Row(at)))
        };
        let list = self.cursor.viewport.draw_below(
            &mut lines,
            Some(table.titles()),
            (self.count, Some(at)),
            (width, room),
            drawn,
        );
        lines.resize(height.saturating_sub(detail.len()), Line::new());
        lines.extend(detail);
        lines.truncate(height);
        DrawnView { lines, list: Some(list), ..DrawnView::default() }
    }

    fn viewport(&mut self) -> Option<&mut Viewport> {
        Some(&mut self.cursor.viewport)
    }

    /// Explains the problem of the row, and its node as it is now.
    fn explain(&mut self, context: RenderContext<'_>, _: &Shared) -> Explained {
        let fleet_view = context.view;
        let at = self.row_index(fleet_view);
        let row = self.row(fleet_view, at).ok_or_else(|| no_problem_text(fleet_view))?;
        let problem = row.problem;
        let node = row.member.map(|(_, node)| node);
        let first = node.or_else(|| problem.nodes_of(&fleet_view.fleet).next());
        let meaning = first.map(|node| problem.kind.meaning(node, fleet_view.now));
        let remark = Remark {
            note: format!("on {}", problem.nodes),
            tone: problem.severity.into(),
            meaning: meaning.unwrap_or_default(),
            remedy: problem.advice.text(),
        };
        let example = Remark {
            note: row.evidence(fleet_view).unwrap_or_default(),
            tone: Tone::Plain,
            meaning: String::new(),
            remedy: String::new(),
        };
        let table = ProblemTable::laid_out(context, None, u16::MAX);
        let explanation = Explanation::new(format!("problem: {}", problem.sentence()))
            .with_remarks([remark, example])
            .with_numbers("numbers of the row", None, table.facts(&row));
        let explanation = match node {
            Some(node) => explanation.followed_by(explain::node_alone(context, node)),
            None => explanation,
        };
        let identity = row.identity();
        // Another order of the problems must not explain another one.
        self.cursor.select(at, Some(identity));
        Ok(explanation)
    }

    fn clips(&self, context: RenderContext<'_>, _: &Shared) -> Vec<Clip> {
        let fleet_view = context.view;
        let Some(row) = self.row(fleet_view, self.row_index(fleet_view)) else { return Vec::new() };
        let ProblemRow { problem, member } = row;
        let (nodes, devices): (&str, Vec<String>) = match member {
            Some((_, node)) => (node.name.label(), problem.kind.device_lines(node).collect()),
            None => (&problem.nodes, problem.device_lines(&fleet_view.fleet)),
        };
        let drain = problem.drain.as_deref().unwrap_or_default();
        let clips = [
            Clip::new('n', "the nodes", nodes),
            Clip::new('d', "the devices", &devices.join("\n")),
            Clip::new('r', "the remedy", &problem.advice.text()),
            Clip::new('c', "the command that drains the nodes", drain),
        ];
        clips.into_iter().flatten().collect()
    }

    fn columns(&self) -> Vec<ColumnGroup> {
        vec![("Columns of problems", table::specs(&ProblemTable::COLUMNS).to_vec())]
    }
}

impl UnfoldingList for State {
    fn count(&self) -> usize {
        self.count
    }

    fn position(&self, context: RenderContext<'_>) -> usize {
        self.row_index(context.view)
    }

    fn select(&mut self, context: RenderContext<'_>, row: usize) {
        let identity = self.row(context.view, row).map(ProblemRow::identity);
        self.cursor.select(row, identity);
    }

    /// Opens the node of the row, at its device, or unfolds the problem.
    fn open(&mut self, context: RenderContext<'_>) -> Effect {
        let at = self.row_index(context.view);
        let Some(row) = self.row(context.view, at) else { return Effect::Ignored };
        if let Some((_, node)) = row.member {
            let mut devices = row.problem.kind.devices(node);
            let device = devices.next().map(|(device, _)| RowId::Device(Arc::clone(&device.uuid)));
            return Effect::OpenNode(node.name.clone(), device);
        }
        let kind = &row.problem.kind;
        let identity = row.identity();
        self.unfolded = (self.unfolded.as_ref() != Some(kind)).then(|| kind.clone());
        self.cursor.select(at, Some(identity));
        Effect::Handled
    }

    fn fold(&mut self) -> bool {
        let Some(kind) = self.unfolded.take() else { return false };
        self.cursor.select(0, Some(ProblemIdentity { kind, node: None }));
        true
    }

    fn moved(&self, movement: Movement, count: usize, selected: usize) -> usize {
        self.cursor.moved(movement, count, Some(selected))
    }
}

impl State {
    /// Returns the unfolded problem with its position.
    fn open_problem<'a>(&self, fleet_view: &'a FleetView) -> Option<(usize, &'a FleetProblem)> {
        let unfolded = self.unfolded.as_ref()?;
        let mut problems = fleet_view.shown_problems().iter().enumerate();
        problems.find(|(_, problem)| problem.kind == *unfolded)
    }

    fn row_count(&self, fleet_view: &FleetView) -> usize {
        let unfolded = self.open_problem(fleet_view).map_or(0, |(_, problem)| problem.count());
        fleet_view.shown_problems().len() + unfolded
    }

    /// Returns the row at a position: the nodes of the unfolded problem come after it.
    fn row<'a>(&self, fleet_view: &'a FleetView, at: usize) -> Option<ProblemRow<'a>> {
        let problems = fleet_view.shown_problems();
        let position = match self.open_problem(fleet_view) {
            Some((open, problem)) if at > open => {
                if let Some(member) = problem.members.get(at - open - 1) {
                    let node = fleet_view.fleet.nodes.get(member.index)?;
                    return Some(ProblemRow { problem, member: Some((member, node)) });
                }
                at - problem.count()
            }
            Some(_) | None => at,
        };
        Some(ProblemRow { problem: problems.get(position)?, member: None })
    }

    /// Returns the position of the selected row, of its problem if the node has it no more, or else of the row in its place.
    fn row_index(&self, fleet_view: &FleetView) -> usize {
        let last = || self.cursor.last_index(self.row_count(fleet_view));
        let Some(ProblemIdentity { kind, node }) = self.cursor.key() else { return 0 };
        let mut problems = fleet_view.shown_problems().iter();
        let Some(position) = problems.position(|problem| problem.kind == *kind) else {
            return last();
        };
        match self.open_problem(fleet_view) {
            Some((open, problem)) if open == position => {
                let mut nodes = problem.nodes_of(&fleet_view.fleet);
                let of_node =
                    node.as_ref().and_then(|name| nodes.position(|node| node.name == *name));
                of_node.map_or(position, |member| position + 1 + member)
            }
            Some((open, problem)) if open < position => position + problem.count(),
            Some(_) | None => position,
        }
    }
}

fn empty_lines(fleet_view: &FleetView, width: u16, height: usize) -> Vec<Line> {
    let shown = "shown here: nodes down or stale, failing sources, faulty or degraded devices";
    let lines = [no_problem_text(fleet_view), shown.to_owned()];
    lines
        .into_iter()
        .map(|line| Line::styled(line, Tone::Faint).truncated(width))
        .take(height)
        .collect()
}

/// Says how many nodes have problems.
fn summary_line(fleet_view: &FleetView) -> Line {
    let nodes_of = |wanted: fn(Severity) -> bool| {
        let problems = fleet_view.shown_problems().iter();
        let problems = problems.filter(move |problem| wanted(problem.severity));
        let members = problems.flat_map(|problem| &problem.members);
        members.map(|member| member.index).collect::<BTreeSet<usize>>()
    };
    let failing = nodes_of(|severity| severity == Severity::Error);
    let others = nodes_of(|severity| severity != Severity::Error);
    let others = others.difference(&failing).count();
    let problems = counted(fleet_view.shown_problems().len(), "problem");
    let all = counted(fleet_view.count(), "node");
    let tone = if failing.is_empty() { Tone::Faint } else { Tone::Bad };
    let line = Line::styled(format!("{problems} · "), Tone::Faint)
        .text(format!("{} of {all} with failures", failing.len()), tone);
    if others == 0 {
        return line;
    }
    line.text(" · ", Tone::Faint).text(format!("{others} more with warnings"), Tone::Warn)
}

/// Draws what shows the problem of a row, and what to do about it.
fn detail_lines(context: RenderContext<'_>, row: ProblemRow<'_>, width: u16) -> Vec<Line> {
    let evidence = row.evidence(context.view).unwrap_or_default();
    let room = DETAIL_HEIGHT - 1;
    let mut lines = vec![Line::new().rule(width)];
    lines
        .extend(wrap(&evidence, width, 2).into_iter().map(|line| Line::styled(line, Tone::Strong)));
    for step in row.problem.advice.text().lines() {
        let mut mark = "→ ";
        for part in wrap(step, width.saturating_sub(2), room) {
            lines.push(Line::styled(mark, Tone::Faint).text(part, Tone::Plain));
            mark = "  ";
        }
    }
    lines.resize(DETAIL_HEIGHT, Line::new());
    lines.into_iter().map(|line| line.truncated(width)).collect()
}

/// Draws how serious a problem is, in front of its row.
fn sign(row: ProblemRow<'_>) -> Line {
    let severity = row.problem.severity;
    let sign = if row.member.is_some() { " " } else { severity_sign(severity) };
    Line::styled(sign, severity).gap(1)
}

/// The width of the columns beside the problem and its node set.
const OTHER_COLUMNS_WIDTH: u16 = 28;

/// What cells are drawn from, apart from their row.
struct ProblemTable<'a> {
    context: RenderContext<'a>,
    unfolded: Option<&'a ProblemKind>,
    /// The width of what is wrong.
    problem_width: u16,
}

type Column<'a> = TableColumn<ProblemTable<'a>, ProblemRow<'a>>;

impl<'a> ProblemTable<'a> {
    const COLUMNS: [Column<'a>; 5] = [
        Column::left("PROBLEM", 0, |table, row, place| {
            Cell::Line(table.problem(*row, place.width))
        })
        .named("problem", "", "what is wrong; + unfolds its nodes, each with what shows it")
        .sized(|table, _| table.problem_width),
        Column::right("NODES", 5, |_, row, _| match row.member {
            None => row.problem.count().to_string().into(),
            Some(_) => "".into(),
        })
        .named("nodes", "", "how many nodes have it"),
        Column::right("SINCE", 9, |table, row, _| {
            Cell::of(row.since(), |since| table.begin(since))
        })
        .named("since", "", "when it began on the first of them; < if it was there before")
        .rank(2),
        Column::right("FOR", 7, |table, row, _| {
            Cell::of(row.since(), |since| since.age_text(table.context.view.now))
        })
        .named("for", "", "for how long it has lasted; > if it was there before")
        .rank(1),
        Column::rest("NODE SET", 8, |_, row, _| {
            let nodes = row.member.map_or(&*row.problem.nodes, |(_, node)| node.name.label());
            Cell::toned(nodes.to_owned(), Tone::Strong)
        })
        .named("set", "", "the nodes that have it, as a node set"),
    ];

    fn laid_out(
        context: RenderContext<'a>,
        unfolded: Option<&'a ProblemKind>,
        width: u16,
    ) -> Table<'a, Self, ProblemRow<'a>> {
        let problems = context.view.shown_problems();
        let widest = |text_of: fn(&FleetProblem) -> u16| problems.iter().map(text_of).max();
        let sentence = widest(|problem| width_of(&problem.sentence())).unwrap_or(0) + 3;
        let set = widest(|problem| width_of(&problem.nodes)).unwrap_or(0);
        // Both have what they need, or else what they can share; what shows a problem on its nodes needs more.
        let room = width.saturating_sub(OTHER_COLUMNS_WIDTH);
        let least = if unfolded.is_some() { width / 3 } else { 20 };
        let problem_width = sentence.max(least).min(room.saturating_sub(set.min(room / 3))).max(20);
        let table = Self { context, unfolded, problem_width };
        Table::fit(&Self::COLUMNS, table, &[], TableRoom::new(width, 2, 1))
    }

    /// Draws what is wrong, or what shows it on a node.
    fn problem(&self, row: ProblemRow<'_>, width: u16) -> Line {
        if row.member.is_some() {
            let evidence = row.evidence(self.context.view).unwrap_or_default();
            return Line::new().gap(2).text(evidence, Tone::Faint).truncated(width);
        }
        let is_unfolded = self.unfolded == Some(&row.problem.kind);
        let fold = if is_unfolded { " -" } else { " +" };
        Line::styled(row.problem.sentence(), row.problem.severity)
            .truncated(width.saturating_sub(2))
            .text(fold, Tone::Faint)
    }

    /// Returns when something began.
    fn begin(&self, since: Since) -> String {
        let time = time_or_date(since.at, self.context.view.now, self.context.zone);
        if since.is_lower_bound { format!("<{time}") } else { time }
    }
}
