//! The fleet: all nodes as a list or as a map of devices, what is wrong with them, and the selected
//! one where there is room.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::view::RenderContext;
use crate::view::action::{CommonAction, ViewEffect};
use crate::view::dialog::Dialog;
use crate::view::fleet::cell::{Cells, Quantity};
use crate::view::fleet::claim::Roll;
pub(crate) use crate::view::fleet::column::COLUMNS;
use crate::view::fleet::grouping::Grouping;
pub(crate) use crate::view::fleet::layout::HEADINGS;
use crate::view::fleet::legend::Tally;
use crate::view::fleet::letters::Letters;
use crate::view::fleet::map::{Cursor, Grid};
use crate::view::fleet::plan::{Plan, Row, Wish};
use crate::view::fleet_view::FleetView;
use crate::view::input::Click;
use crate::view::line::{Line, Tone};
use crate::view::navigation::{self, Navigation, View, Viewport};
use crate::view::node::panel;
use crate::view::sort_order::SortOrder;

mod cell;
mod claim;
mod column;
mod cursor;
mod detail;
mod grouping;
mod head;
mod idle;
mod layout;
mod legend;
mod letters;
mod map;
mod plan;
mod remark;
mod table;
mod track;
mod trouble;

/// From this size on, the list and the selected node stand on one screen, however long the list is.
const SPLIT: (u16, usize) = (100, 34);
/// Lines of a panel besides its devices.
const PANEL: usize = 10;
/// Below this width, what is known of a device takes two lines.
const DETAIL: u16 = 110;
/// The most lines for what is wrong with the fleet.
const TROUBLES: usize = 4;

/// Where one is in the fleet.
#[derive(Clone, Debug)]
pub struct State {
    form: Form,
    pub(crate) order: SortOrder,
    grouping: Grouping,
    quantity: Quantity,
    /// The groups of which only the head is shown.
    folded: BTreeSet<Arc<str>>,
    /// Counts how often that changed.
    folds: u64,
    /// The group in which the selected node is meant, and whether its head is.
    group: Option<Arc<str>>,
    is_on_head: bool,
    /// The device under the cursor of the map.
    device: Option<Arc<str>>,
    /// The column of nodes and of cells that moves up and down keep to, while one is where they led.
    near: Option<(Cursor, (usize, usize))>,
    grid: Grid,
    window: Viewport,
    plan: Plan,
    roll: Roll,
    cells: Cells,
    letters: Letters,
    tally: Tally,
    tracks: track::Tracks,
    rows: table::Rows,
    /// The filter they were made for.
    filter: String,
}

/// The forms of the view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    /// One line a node.
    #[default]
    Table,
    /// One cell a device.
    Map,
}

/// What only the fleet understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The list, or the map.
    Form,
    /// Show another quantity in the map.
    Quantity,
    /// The one before.
    QuantityBefore,
    /// Let rows stand together by something else.
    Group,
    /// By what was before.
    GroupBefore,
    /// Fold or unfold the group one is in.
    Fold,
    /// Fold all groups.
    FoldAll,
    /// Unfold all groups.
    UnfoldAll,
    /// To the device at the left; in the list, fold.
    Left,
    /// To the device at the right; in the list, unfold.
    Right,
}

impl Default for State {
    fn default() -> Self {
        Self {
            form: Form::default(),
            order: SortOrder::by("node"),
            grouping: Grouping::default(),
            quantity: Quantity::default(),
            folded: BTreeSet::new(),
            folds: 0,
            group: None,
            is_on_head: false,
            device: None,
            near: None,
            grid: Grid::default(),
            window: Viewport::default(),
            plan: Plan::default(),
            roll: Roll::default(),
            cells: Cells::default(),
            letters: Letters::default(),
            tally: Tally::default(),
            tracks: track::Tracks::default(),
            rows: table::Rows::default(),
            filter: String::new(),
        }
    }
}

/// Does what was asked.
pub(crate) fn act(
    scene: RenderContext<'_>,
    navigation: &mut Navigation,
    command: &CommonAction,
) -> ViewEffect {
    let mut place = std::mem::take(&mut navigation.fleet);
    place.settle(scene.picture);
    let outcome = place.act(scene.picture, navigation, command);
    navigation.fleet = place;
    outcome
}

/// Does what only the fleet understands.
pub(crate) fn act_own(
    scene: RenderContext<'_>,
    navigation: &mut Navigation,
    own: Action,
) -> ViewEffect {
    let mut place = std::mem::take(&mut navigation.fleet);
    place.settle(scene.picture);
    let outcome = place.act_own(scene.picture, navigation, own);
    navigation.fleet = place;
    outcome
}

impl State {
    /// Says whether devices are shown as a map.
    pub(crate) fn is_map(&self) -> bool {
        self.form == Form::Map
    }

    /// Sees to it that groups, rows and letters are those of a picture.
    fn settle(&mut self, picture: &FleetView) {
        self.roll.settle(picture);
        let Self { order, grouping, folded, folds, .. } = self;
        let wish = Wish { order: *order, grouping: *grouping, folded, folds: *folds };
        self.plan.settle(picture, &self.roll, wish);
        let has_letters = matches!(self.quantity, Quantity::Owner | Quantity::Job);
        if self.form == Form::Map && has_letters {
            self.tally.settle(picture, &self.roll, self.quantity);
            self.letters.settle(self.tally.names());
        }
    }

    /// Returns its form, what the map shows and by what nodes stand together, as settings have it.
    pub(crate) const fn preferences(&self) -> (&'static str, &'static str, &'static str) {
        let form = match self.form {
            Form::Table => "table",
            Form::Map => "map",
        };
        (form, self.quantity.label(), self.grouping.name())
    }

    /// Takes over one of these.
    pub(crate) fn restore_preference(&mut self, name: &str, value: &str) {
        match (name, value) {
            ("fleet-form", "table") => self.form = Form::Table,
            ("fleet-form", "map") => self.form = Form::Map,
            ("fleet-map", label) => {
                let known = Quantity::ALL.into_iter().find(|one| one.label() == label);
                self.quantity = known.unwrap_or(self.quantity);
            }
            ("fleet-group", name) => {
                if let Some(grouping) = Grouping::named(name) {
                    self.group_by(grouping);
                }
            }
            _ => {}
        }
    }

    fn group_by(&mut self, grouping: Grouping) {
        self.grouping = grouping;
        self.folded.clear();
        self.group = None;
        self.is_on_head = false;
    }

    fn act(
        &mut self,
        picture: &FleetView,
        navigation: &mut Navigation,
        command: &CommonAction,
    ) -> ViewEffect {
        match command {
            CommonAction::Move(step) => self.step(picture, navigation, *step),
            CommonAction::Open => return self.open(picture, navigation),
            CommonAction::Click(click) => return self.clicked(picture, navigation, click),
            CommonAction::SortMenu => {
                return ViewEffect::OpenDialog(Dialog::Sort(self.order.menu(&COLUMNS)));
            }
            CommonAction::SortBy(column) => self.order.choose(column),
            CommonAction::SortNext => self.order.turn(&COLUMNS, true),
            CommonAction::SortPrevious => self.order.turn(&COLUMNS, false),
            CommonAction::Invert => self.order.is_inverted = !self.order.is_inverted,
            CommonAction::Back => return ViewEffect::Ignored,
        }
        ViewEffect::Handled
    }

    fn act_own(
        &mut self,
        picture: &FleetView,
        navigation: &mut Navigation,
        own: Action,
    ) -> ViewEffect {
        match own {
            Action::Form => {
                self.form = if self.form == Form::Table { Form::Map } else { Form::Table };
            }
            Action::Quantity | Action::QuantityBefore => {
                if self.form == Form::Table {
                    return ViewEffect::Message("the map shows that: m".to_owned());
                }
                self.quantity = self.quantity.turned(own == Action::Quantity);
            }
            Action::Group | Action::GroupBefore => {
                self.group_by(self.grouping.turned(picture, own == Action::Group));
                if self.form == Form::Table {
                    return ViewEffect::Message(format!("grouped by {}", self.grouping.label()));
                }
            }
            Action::Left | Action::Right if self.form == Form::Map && !self.is_on_head => {
                self.step_beside(picture, navigation, own == Action::Right);
            }
            Action::Fold | Action::Left | Action::Right | Action::FoldAll | Action::UnfoldAll
                if !self.plan.is_grouped =>
            {
                return ViewEffect::Message("g groups the nodes".to_owned());
            }
            Action::Fold => self.fold(picture, navigation, None),
            Action::Left => self.fold(picture, navigation, Some(true)),
            Action::Right => self.fold(picture, navigation, Some(false)),
            Action::FoldAll => {
                self.enter_head(picture, navigation);
                self.folded = self.plan.groups.iter().map(|group| Arc::clone(&group.key)).collect();
                self.folds += 1;
            }
            Action::UnfoldAll => {
                self.folded.clear();
                self.folds += 1;
            }
        }
        ViewEffect::Handled
    }

    fn open(&mut self, picture: &FleetView, navigation: &mut Navigation) -> ViewEffect {
        match (self.spot(picture, navigation), self.form) {
            (Some(Cursor::Head(_)), _) => {
                self.fold(picture, navigation, None);
                ViewEffect::Handled
            }
            (Some(Cursor::Cell(group, member, cell)), form) => {
                let found = self.plan.member(&picture.fleet, group, member);
                let Some((member, node)) = found else { return ViewEffect::SwitchView(View::Node) };
                let device = detail::position(node, member, cell)
                    .and_then(|position| node.devices.get(position))
                    .filter(|_| form == Form::Map);
                match device {
                    Some(device) => {
                        let spot = navigation::RowId::Device(Arc::clone(&device.uuid));
                        navigation.point_at(node.name.clone(), Some(spot));
                    }
                    None => navigation.select(node.name.clone()),
                }
                ViewEffect::SwitchView(View::Node)
            }
            (None, _) => ViewEffect::SwitchView(View::Node),
        }
    }

    fn clicked(
        &mut self,
        picture: &FleetView,
        navigation: &mut Navigation,
        click: &Click,
    ) -> ViewEffect {
        let to = match (click, self.form) {
            (Click::Row(row), Form::Table) => match self.plan.rows.get(*row).copied() {
                Some(Row::Head(group)) => Some(Cursor::Head(group)),
                Some(Row::Node(group, member)) => Some(Cursor::Cell(group, member, 0)),
                None => None,
            },
            (Click::Cell(row, column), Form::Map) => {
                let band = map::bands(&self.plan, self.grid).get(*row).copied();
                let near = self.grid.at(*column);
                band.map(|band| map::spot_on(&self.plan, &picture.fleet, band, self.grid, near))
            }
            (Click::Row(_) | Click::Cell(..) | Click::View(_) | Click::Column(_), _) => {
                return ViewEffect::Ignored;
            }
        };
        let Some(to) = to else { return ViewEffect::Handled };
        let before = self.spot(picture, navigation);
        let is_again = match (before, to, self.form) {
            (Some(Cursor::Cell(group, member, _)), Cursor::Cell(to, other, _), Form::Table) => {
                (group, member) == (to, other)
            }
            (before, to, _) => before == Some(to),
        };
        self.go(picture, navigation, to);
        if is_again { self.open(picture, navigation) } else { ViewEffect::Handled }
    }
}

/// The nodes, what is wrong below them, and the selected one where there is room.
pub(crate) fn lines(
    scene: RenderContext<'_>,
    navigation: &mut Navigation,
    width: u16,
    height: usize,
) -> Vec<Line> {
    let picture = scene.picture;
    let Some(node) = navigation.node(picture).cloned() else {
        return vec![nothing(picture).cut(width)];
    };
    let mut place = std::mem::take(&mut navigation.fleet);
    place.settle(picture);
    let mut lines = place.lines(scene, navigation, &node, (width, height));
    navigation.fleet = place;
    lines.truncate(height);
    lines
}

impl State {
    fn lines(
        &mut self,
        scene: RenderContext<'_>,
        navigation: &mut Navigation,
        node: &crate::fleet::Node,
        (width, height): (u16, usize),
    ) -> Vec<Line> {
        let picture = scene.picture;
        let most = if height < 10 { 0 } else { (height / 6).min(TROUBLES) };
        let troubles = trouble::lines(picture, width, most);
        let spot = self.spot(picture, navigation);
        let is_large = width >= SPLIT.0 && height >= SPLIT.1;
        let rows = self.plan.rows.len();
        let panel = 1 + PANEL + usize::from(picture.shape.devices.min(8));
        let is_split = match self.form {
            Form::Table => is_large || list_share(picture, rows, height) > rows,
            Form::Map => {
                let below = height.saturating_sub(panel + troubles.len() + 2);
                map::height(scene, self, (width, height)) <= below
            }
        };
        let details = match (is_split, self.form) {
            (true, Form::Table) => 0,
            (_, Form::Map) if width < DETAIL && height >= 14 => 2,
            (..) => usize::from(height >= 8),
        };
        let room = height.saturating_sub(details + troubles.len());
        let list = match self.form {
            Form::Table if is_split => list_share(picture, rows, room),
            Form::Map if is_split => map::height(scene, self, (width, height)),
            Form::Table | Form::Map => room,
        };
        let mut lines = match self.form {
            Form::Map => map::lines(scene, self, spot, (width, list), height),
            Form::Table => {
                let at = self.row(spot);
                let mut window = navigation.list;
                let lines = table::lines(scene, self, &mut window, at, (width, list));
                navigation.list = window;
                lines
            }
        };
        if is_split {
            lines.resize(list, Line::new());
            lines.push(Line::new().rule(width));
            let rest = room.saturating_sub(list + 1);
            lines.extend(panel::lines(scene, node, navigation, width, rest));
        }
        lines.resize(room, Line::new());
        lines.extend(troubles);
        let mut detail = self.detail(scene, spot, node, (width, details));
        detail.resize(details, Line::new());
        lines.extend(detail);
        lines
    }

    fn detail(
        &mut self,
        scene: RenderContext<'_>,
        spot: Option<Cursor>,
        node: &crate::fleet::Node,
        (width, most): (u16, usize),
    ) -> Vec<Line> {
        if most == 0 {
            return Vec::new();
        }
        match (spot, self.form) {
            (Some(Cursor::Head(group)), _) => {
                let group = self.plan.groups.get_mut(group);
                group.map(|group| head::detail(scene, group, width)).into_iter().collect()
            }
            (Some(Cursor::Cell(group, member, cell)), Form::Map) => {
                let member = self.plan.member(&scene.picture.fleet, group, member);
                let position = member.and_then(|(own, node)| detail::position(node, own, cell));
                detail::lines(scene, self, (node, position), (width, most))
            }
            (Some(Cursor::Cell(..)) | None, _) => {
                vec![table::detail(scene.picture, self, node, width)]
            }
        }
    }
}

fn nothing(picture: &FleetView) -> Line {
    if picture.fleet.nodes.is_empty() {
        return Line::of("no nodes to watch", Tone::Faint);
    }
    Line::of("the filter takes no node", Tone::Warn).text("  → Esc clears it", Tone::Faint)
}

/// Lines of the list where it shares the screen with a panel: all it needs if the panel of the
/// largest node has room below, a third at least.
fn list_share(picture: &FleetView, rows: usize, room: usize) -> usize {
    let all = rows + 1;
    let panel = PANEL + usize::from(picture.shape.devices.min(8));
    all.min(room.saturating_sub(panel).max(room / 3))
}
