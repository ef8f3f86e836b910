//! The cell of one device in the heat map: its load, temperature, user or job.
//!
//! Loads have five levels, and a cell leaves its level only if the load is clearly outside of it: this
//! hysteresis prevents flicker at the limits.

use std::collections::BTreeMap;

use crate::render_context::RenderContext;
use crate::views::fleet::symbol_map::SymbolMap;
use crate::widgets::line::{Symbol, Tone};
use crate::widgets::number_format::percent_value;
use gtop_fleet::insight::device_flag::DeviceFlag;
use gtop_fleet::insight::node_status::NodeStatus;
use gtop_fleet::insight::{FleetView, ViewVersion};
use gtop_fleet::{DeviceHoldings, Health, LastState, Node, is_busy};
use gtop_local::time::Timestamp;
use gtop_model::{Celsius, Device, NodeName, Percent, table};

table! {
    /// The metric of the heat map, with its name.
    #[derive(Default)]
    pub(crate) enum MapMetric {
        #[default]
        Utilization = "util",
        /// Used memory as a share of the total.
        Memory = "mem",
        /// Power draw as a share of the limit.
        Power = "power",
        Temperature = "temp",
        /// The user of the device.
        Owner = "owner",
        /// The job that has the device.
        Job = "job",
    }
    pub(super) const ALL;
    /// Returns the name.
    pub(crate) fn label -> &'static str;
}

/// The number of levels.
pub(super) const LEVELS: u8 = 5;
/// Cells of up to this many columns update each second; those of twice as many every other second, and so on.
const MAX_COLUMNS_PER_SECOND: usize = 1_024;
/// How far a load must leave its level before the cell changes, in levels.
const HYSTERESIS: f32 = 0.25;
/// The temperatures of the lowest and the highest level, in degrees Celsius.
const TEMPERATURE_RANGE: (f32, f32) = (20.0, 100.0);
/// The temperatures from which a device counts as warm and hot, in degrees Celsius.
const TEMPERATURE_THRESHOLDS: (f32, f32) = (50.0, 80.0);

/// Without a user or job.
pub(super) const UNUSED: (Symbol, Tone) = (Symbol::Idle, Tone::Faint);
/// With several users or jobs.
pub(super) const MULTIPLE: (Symbol, Tone) = (Symbol::Char('*'), Tone::Plain);
/// The value is unknown.
pub(super) const NOT_REPORTED: (Symbol, Tone) = (Symbol::Char('–'), Tone::Faint);
/// Drawn for a device without fresh values; the line under the map has its last ones.
pub(super) const STALE: (Symbol, Tone) = (Symbol::Char('~'), Tone::Stale);
/// Held by a user or job, but idle.
pub(super) const IDLE_HELD: (Symbol, Tone) = (Symbol::Char('▒'), Tone::Plain);
/// Free on a node that takes no jobs, or in MIG mode without slices.
pub(super) const UNAVAILABLE: (Symbol, Tone) = (Symbol::Char('/'), Tone::Warn);
/// Reports no values, or its node is down.
pub(super) const FAULTY: (Symbol, Tone) = (Symbol::Faulty, Tone::Bad);
/// A level of a device that works less well than it could, such as a throttled one.
pub(super) const WARNED: (Symbol, Tone) = (Symbol::Level(90.0), Tone::Warn);
/// Hidden by the filter.
pub(super) const FILTERED_OUT: (Symbol, Tone) = (Symbol::Char(' '), Tone::Faint);

impl MapMetric {
    /// Returns the value of a device within the range of the metric, 0 to 100.
    fn percent(self, node: &Node, device: &Device) -> Option<f32> {
        match self {
            Self::Utilization => percent_value(device.load()),
            Self::Memory => device.memory_share().map(Percent::get),
            // A slice is as warm as its device, and as near to its power limit.
            Self::Power => node.whole(device).power_share().map(Percent::get),
            Self::Temperature => {
                let degrees = node.whole(device).temperature.get().map(Celsius::get)?;
                let (low, high) = TEMPERATURE_RANGE;
                Some(((degrees - low) / (high - low) * 100.0).clamp(0.0, 100.0))
            }
            Self::Owner | Self::Job => None,
        }
    }

    pub(super) fn tone(self, context: RenderContext<'_>, percent: f32) -> Tone {
        match self {
            Self::Memory => context.options.memory.tone(Some(percent)),
            Self::Temperature => match degrees_of(percent) {
                degrees if degrees >= TEMPERATURE_THRESHOLDS.1 => Tone::High,
                degrees if degrees >= TEMPERATURE_THRESHOLDS.0 => Tone::Mid,
                _ => Tone::Low,
            },
            Self::Utilization | Self::Power | Self::Owner | Self::Job => {
                context.options.load.tone(Some(percent))
            }
        }
    }
}

/// Returns the temperature at a percentage of the range, in degrees Celsius.
pub(super) fn degrees_of(percent: f32) -> f32 {
    let (low, high) = TEMPERATURE_RANGE;
    low + percent / 100.0 * (high - low)
}

/// How old values are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StaleStyle {
    /// Unchanged; the row marks them as old.
    Unchanged,
    /// In the tone of old values.
    Grey,
}

/// The cells drawn last, by node.
#[derive(Clone, Debug, Default)]
pub(super) struct CellCache {
    key: Option<(ViewVersion, MapMetric, StaleStyle)>,
    now: BTreeMap<NodeName, CachedCells>,
    /// The cells of the previous view, needed for hysteresis.
    before: BTreeMap<NodeName, CachedCells>,
    /// The loads of each node update once in this many seconds.
    refresh_period: usize,
}

#[derive(Clone, Debug, Default)]
struct CachedCells {
    marks: Vec<(Symbol, Tone)>,
    levels: Vec<Option<u8>>,
}

impl CellCache {
    /// Starts a frame in which the cells have this number of columns.
    pub(super) fn refresh(
        &mut self,
        fleet_view: &FleetView,
        (metric, style): (MapMetric, StaleStyle),
        columns: usize,
    ) {
        self.refresh_period = 1 + columns / MAX_COLUMNS_PER_SECOND;
        let key = (fleet_view.version(), metric, style);
        if self.key.as_ref() == Some(&key) {
            return;
        }
        let is_same = self.key.as_ref().is_some_and(|(_, last, _)| *last == metric);
        self.before = if is_same { std::mem::take(&mut self.now) } else { BTreeMap::new() };
        self.now.clear();
        self.key = Some(key);
    }

    /// Returns the cells of a node in this frame, one per device.
    pub(super) fn of(&self, node: &NodeName) -> &[(Symbol, Tone)] {
        self.now.get(node).map_or(&[], |cells| &cells.marks)
    }

    /// Computes the cells of the node at this index of the fleet, once in a frame.
    pub(super) fn add(
        &mut self,
        context: RenderContext<'_>,
        (index, node): (usize, &Node),
        symbols: &SymbolMap,
    ) {
        if self.now.contains_key(&node.name) {
            return;
        }
        let Some((_, metric, style)) = &self.key else { return };
        // A remote terminal cannot redraw thousands of cells each second: with many cells, the loads of nodes
        // update in turns. State changes are shown at once.
        let updates_now = is_due(index, context.view.now, self.refresh_period);
        let last = self.before.remove(&node.name).unwrap_or_default();
        let mut levels = Vec::with_capacity(node.devices.len());
        let cells = node.devices.iter().enumerate().map(|(position, device)| {
            let share = metric.percent(node, device);
            let before = last.levels.get(position).copied().flatten();
            let mut level = share.map(|share| level(share, before));
            let cell_context = CellContext { context, node, position, device, symbols };
            let cell = cell_context.cell((*metric, *style), share, level);
            let shown = last.marks.get(position).copied();
            let unchanged = shown.filter(|shown| !updates_now && is_load(*shown) && is_load(cell));
            level = if unchanged.is_some() { before } else { level };
            levels.push(level);
            unchanged.unwrap_or(cell)
        });
        let marks = cells.collect();
        self.now.insert(node.name.clone(), CachedCells { marks, levels });
    }
}

/// Returns true if the row or cells of this node update in this second.
pub(super) fn is_due(node: usize, now: Timestamp, refresh_period: usize) -> bool {
    let second = usize::try_from(now.second()).unwrap_or(0);
    second.wrapping_add(node) % refresh_period.max(1) == 0
}

/// Returns true if a cell shows a load and no other state.
fn is_load((symbol, tone): (Symbol, Tone)) -> bool {
    matches!(symbol, Symbol::Level(_)) && matches!(tone, Tone::Low | Tone::Mid | Tone::High)
}

/// Returns the level of a share; keeps the previous level within the hysteresis.
fn level(percent: f32, before: Option<u8>) -> u8 {
    let exact = percent / 100.0 * f32::from(LEVELS);
    if let Some(before) = before {
        let (floor, ceiling) = (f32::from(before), f32::from(before) + 1.0);
        if exact >= floor - HYSTERESIS && exact < ceiling + HYSTERESIS {
            return before;
        }
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
    let level = exact.floor() as u8;
    level.min(LEVELS - 1)
}

/// A device, and everything that its cell depends on.
struct CellContext<'a> {
    context: RenderContext<'a>,
    node: &'a Node,
    position: usize,
    device: &'a Device,
    symbols: &'a SymbolMap,
}

impl CellContext<'_> {
    fn cell(
        &self,
        (metric, style): (MapMetric, StaleStyle),
        percent: Option<f32>,
        level: Option<u8>,
    ) -> (Symbol, Tone) {
        let RenderContext { view: fleet_view, .. } = self.context;
        if !fleet_view.matches_device(self.node, self.position) {
            return FILTERED_OUT;
        }
        let is_faulty = self.node.health(self.device) == Health::Faulty;
        let known = if is_faulty { FAULTY } else { self.value_cell(metric, percent, level) };
        if style == StaleStyle::Unchanged {
            return known;
        }
        if NodeStatus::of(self.node, fleet_view.now) == NodeStatus::Down {
            return FAULTY;
        }
        if self.node.device_freshness(self.position, fleet_view.now).is_fresh() {
            return known;
        }
        match known {
            (Symbol::Letter(letter, _), _) => (Symbol::Char(letter), Tone::Stale),
            (symbol, _) => (symbol, Tone::Stale),
        }
    }

    /// Returns the cell of a device in use.
    fn value_cell(
        &self,
        metric: MapMetric,
        percent: Option<f32>,
        level: Option<u8>,
    ) -> (Symbol, Tone) {
        match metric {
            MapMetric::Owner => self.owner_cell(),
            MapMetric::Job => self.job_cell(),
            MapMetric::Utilization if !is_busy(self.device) => {
                match LastState::of(self.node, self.position, self.device) {
                    LastState::IdleHeld => IDLE_HELD,
                    LastState::Free => {
                        (Symbol::Idle, metric.tone(self.context, percent.unwrap_or(0.0)))
                    }
                    LastState::Unavailable => UNAVAILABLE,
                    LastState::Unknown | LastState::Busy | LastState::Faulty | LastState::InUse => {
                        NOT_REPORTED
                    }
                }
            }
            MapMetric::Utilization
            | MapMetric::Memory
            | MapMetric::Power
            | MapMetric::Temperature => match level {
                Some(level) => self.load_cell(metric, level),
                None => NOT_REPORTED,
            },
        }
    }

    /// Returns the cell of a level, drawn at its middle, so that the glyph shows no more than the level.
    fn load_cell(&self, metric: MapMetric, level: u8) -> (Symbol, Tone) {
        let middle = (f32::from(level) + 0.5) / f32::from(LEVELS) * 100.0;
        let flags = DeviceFlag::of(self.node, self.device);
        let flag = flags.iter().map(|flag| Tone::from(flag.severity())).max();
        let tone = flag.unwrap_or_else(|| metric.tone(self.context, middle));
        (Symbol::Level(middle), tone)
    }

    fn owner_cell(&self) -> (Symbol, Tone) {
        match self.holdings().users().as_slice() {
            [] if self.node.has_unknown_user(self.position) => NOT_REPORTED,
            [] => UNUSED,
            [user] => {
                let login_user = self.node.hello.as_ref().map(|hello| &hello.host.user);
                self.letter_cell(user, login_user == Some(*user))
            }
            _ => MULTIPLE,
        }
    }

    fn job_cell(&self) -> (Symbol, Tone) {
        let mut jobs = self.holdings().jobs();
        match (jobs.next(), jobs.next()) {
            (None, _) if self.node.has_unknown_user(self.position) => NOT_REPORTED,
            (None, _) => UNUSED,
            (Some(job), None) => self.letter_cell(job.as_str(), false),
            (Some(_), Some(_)) => MULTIPLE,
        }
    }

    fn holdings(&self) -> &DeviceHoldings {
        self.node.device_holdings(self.position)
    }

    /// Returns the letter of a user or job; that of the login user on the node is emphasised.
    fn letter_cell(&self, name: &str, is_login_user: bool) -> (Symbol, Tone) {
        let (letter, hue) = self.symbols.of(name);
        (Symbol::Letter(letter, hue), if is_login_user { Tone::Strong } else { Tone::Plain })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::display_options::DisplayOptions;
    use gtop_model::{DeviceFault, NodeState, Reading, Reason, SchedulerNode};

    #[test]
    fn a_level_changes_only_beyond_its_hysteresis() {
        for (percent, before, expected) in [
            (0.0, None, 0),
            (19.9, None, 0),
            (20.0, None, 1),
            (100.0, None, 4),
            (21.0, Some(0), 0),
            (24.0, Some(0), 0),
            (26.0, Some(0), 1),
            (16.0, Some(1), 1),
            (14.0, Some(1), 0),
            (99.0, Some(0), 4),
        ] {
            assert_eq!(level(percent, before), expected, "{percent} {before:?}");
        }
    }

    #[test]
    fn only_a_free_device_has_the_sign_of_free_devices() {
        let cell = |state, unknown: Option<Reason>| {
            let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
            let utilization = Reading::checked(Percent::new(0.0));
            node.devices =
                vec![Device { uuid: "a".into(), utilization, ..Device::default() }].into();
            let known = SchedulerNode { state, is_responding: true, ..SchedulerNode::default() };
            node.scheduler = Some(Arc::new(known));
            if let Some(reason) = unknown {
                node.devices[0].utilization = Reading::Unknown(reason);
            }
            let (view, options) = (FleetView::default(), DisplayOptions::default());
            let zone = jiff::tz::TimeZone::UTC;
            let context = RenderContext { view: &view, options: &options, zone: &zone };
            let device = &node.devices[0];
            let symbols = &SymbolMap::default();
            let cell = CellContext { context, node: &node, position: 0, device, symbols };
            cell.value_cell(MapMetric::Utilization, percent_value(device.utilization), Some(0)).0
        };
        assert_eq!(cell(NodeState::Idle, None), Symbol::Idle);
        assert_eq!(cell(NodeState::Drained, None), UNAVAILABLE.0);
        assert_eq!(cell(NodeState::Idle, Some(Reason::Asleep)), Symbol::Idle);
        assert_eq!(cell(NodeState::Idle, Some(Reason::DriverError)), NOT_REPORTED.0);
    }

    #[test]
    fn a_fault_of_an_old_sample_is_old_on_the_map_and_kept_in_the_list() {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        let fault = Some(DeviceFault::Lost);
        node.devices = vec![Device { uuid: "a".into(), fault, ..Device::default() }].into();
        let (view, options) = (FleetView::default(), DisplayOptions::default());
        let zone = jiff::tz::TimeZone::UTC;
        let context = RenderContext { view: &view, options: &options, zone: &zone };
        let symbols = &SymbolMap::default();
        let cell =
            CellContext { context, node: &node, position: 0, device: &node.devices[0], symbols };
        let drawn = |style| cell.cell((MapMetric::Utilization, style), None, None);
        assert_eq!(drawn(StaleStyle::Grey), (FAULTY.0, Tone::Stale));
        assert_eq!(drawn(StaleStyle::Unchanged), FAULTY);
    }

    #[test]
    fn each_node_updates_once_per_refresh_period() {
        let at = |second: i64| Timestamp::from_micros(second * 1_000_000);
        for refresh_period in 0..7 {
            let updates = (0..60).filter(|second| is_due(5, at(*second), refresh_period)).count();
            assert_eq!(updates, 60 / refresh_period.max(1), "{refresh_period}");
        }
    }
}
