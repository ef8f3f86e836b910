//! What the symbol under the cursor of the heat map means, as text with units.

use crate::render_context::RenderContext;
use crate::views::fleet::cells::{
    FILTERED_OUT, IDLE_HELD, MULTIPLE, MapMetric, NOT_REPORTED, UNAVAILABLE,
};
use crate::views::fleet::symbol_map::OVERFLOW_SYMBOL;
use crate::widgets::line::Symbol;
use crate::widgets::number_format::{percent, percent_value};
use gtop_fleet::{DeviceHoldings, Health, JobLookup, Node, StateReason};
use gtop_model::{Device, Percent};

/// A cell of the map, and what it stands for.
pub(super) struct MapCell<'a> {
    pub(super) metric: MapMetric,
    pub(super) symbol: Symbol,
    pub(super) node: &'a Node,
    /// That of the device in the node.
    pub(super) position: usize,
    pub(super) device: &'a Device,
    pub(super) holdings: &'a DeviceHoldings,
    /// Its values are old.
    pub(super) is_old: bool,
}

impl MapCell<'_> {
    /// Returns true if its meaning has the utilization in percent.
    pub(super) fn shows_utilization(&self) -> bool {
        self.metric == MapMetric::Utilization
            && matches!(self.symbol, Symbol::Level(_) | Symbol::Char('▒') | Symbol::Idle)
    }

    /// Returns what the symbol means, or meant when the values were taken.
    pub(super) fn meaning(&self, context: RenderContext<'_>, jobs: &JobLookup) -> String {
        let meaning = self.current_meaning(context, jobs);
        let is_current = self.symbol == Symbol::Faulty || self.symbol == FILTERED_OUT.0;
        if self.is_old && !is_current { format!("last known: {meaning}") } else { meaning }
    }

    fn current_meaning(&self, context: RenderContext<'_>, jobs: &JobLookup) -> String {
        match self.symbol {
            Symbol::Level(_) => self.value(context),
            symbol if symbol == IDLE_HELD.0 => {
                format!("idle-held: allocated or in use at {}", self.utilization())
            }
            symbol if symbol == MULTIPLE.0 => {
                let is_job = self.metric == MapMetric::Job;
                if is_job { "several jobs" } else { "several users" }.to_owned()
            }
            symbol if symbol == UNAVAILABLE.0 => {
                let why = self.state_reason().unwrap_or(StateReason::NodeTakesNoJobs);
                format!("unavailable: {}", why.text())
            }
            symbol if symbol == NOT_REPORTED.0 => match self.metric {
                MapMetric::Owner => "its user is unknown".to_owned(),
                MapMetric::Job => "its job is unknown".to_owned(),
                MapMetric::Utilization if self.device.load().get().is_some() => {
                    let why =
                        self.state_reason().map_or("who has it is unknown", StateReason::text);
                    format!("at {}; {why}", self.utilization())
                }
                MapMetric::Utilization
                | MapMetric::Memory
                | MapMetric::Power
                | MapMetric::Temperature => {
                    format!("{} not reported", self.metric.label())
                }
            },
            Symbol::Idle => self.idle(),
            Symbol::Faulty => match self.node.health_reasons(self.device).first() {
                Some(reason) if reason.health() == Health::Faulty => {
                    format!("fault: {}", reason.text())
                }
                _ => "its node is down".to_owned(),
            },
            symbol if symbol == FILTERED_OUT.0 => "hidden by the filter".to_owned(),
            Symbol::Char(_) | Symbol::Letter(..) | Symbol::Area(_) | Symbol::Overflow => {
                self.owner(jobs)
            }
        }
    }

    fn state_reason(&self) -> Option<StateReason> {
        StateReason::last_known(self.node, self.position)
    }

    fn value(&self, context: RenderContext<'_>) -> String {
        match self.metric {
            MapMetric::Memory => {
                let share = self.device.memory_share().map(Percent::get);
                format!("{}% of its memory in use", percent(share))
            }
            MapMetric::Power => {
                let share = self.node.whole(self.device).power_share().map(Percent::get);
                format!("{}% of its power limit", percent(share))
            }
            MapMetric::Temperature => {
                let units = context.options.units();
                let degrees = self.node.whole(self.device).temperature.get();
                degrees.map_or_else(String::new, |degrees| {
                    let [low, high] = [20.0, 100.0].map(|celsius| units.temperature_text(celsius));
                    format!("{} on a scale of {low} to {high}", units.temperature(degrees))
                })
            }
            MapMetric::Utilization | MapMetric::Owner | MapMetric::Job => {
                format!("utilization {}", self.utilization())
            }
        }
    }

    fn utilization(&self) -> String {
        format!("{}%", percent(percent_value(self.device.load())))
    }

    fn idle(&self) -> String {
        match self.metric {
            MapMetric::Owner => "no user".to_owned(),
            MapMetric::Job => "no job".to_owned(),
            MapMetric::Utilization
            | MapMetric::Memory
            | MapMetric::Power
            | MapMetric::Temperature => match percent_value(self.device.load()) {
                Some(_) => format!("free to use, at {}", self.utilization()),
                None => "free to use".to_owned(),
            },
        }
    }

    fn owner(&self, jobs: &JobLookup) -> String {
        let (word, name) = if self.metric == MapMetric::Job {
            ("job", self.holdings.jobs().next().map(|job| jobs.name(job)))
        } else {
            ("user", self.holdings.users().first().map(ToString::to_string))
        };
        let name = name.unwrap_or_else(|| "unknown".to_owned());
        // Old values are drawn without colours.
        let has_letter = !matches!(self.symbol,
            Symbol::Letter(letter, _) | Symbol::Char(letter) if letter == OVERFLOW_SYMBOL.0);
        let letter = if has_letter { "" } else { " (all letters are taken)" };
        format!("{word} {name}{letter}")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::display_options::DisplayOptions;
    use gtop_fleet::insight::FleetView;
    use gtop_model::{Celsius, DeviceFault, NodeName, Reading};

    fn meaning(
        metric: MapMetric,
        symbol: Symbol,
        is_old: bool,
        change: impl Fn(&mut Node),
    ) -> String {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        node.devices = vec![Device {
            uuid: "GPU-1".into(),
            utilization: Reading::checked(Percent::new(57.0)),
            temperature: Reading::checked(Celsius::new(62.0)),
            ..Device::default()
        }]
        .into();
        change(&mut node);
        let holdings = DeviceHoldings::example("ada", Some("7"));
        let (view, options) = (FleetView::default(), DisplayOptions::default());
        let zone = jiff::tz::TimeZone::UTC;
        let context = RenderContext { view: &view, options: &options, zone: &zone };
        let device = &node.devices[0];
        let cell = MapCell {
            metric,
            symbol,
            node: &node,
            position: 0,
            device,
            holdings: &holdings,
            is_old,
        };
        cell.meaning(context, &JobLookup::default())
    }

    #[test]
    fn every_symbol_is_explained_with_its_number_and_unit() {
        let same = |_: &mut Node| {};
        let level = Symbol::Level(56.0);
        for (metric, symbol, expected) in [
            (MapMetric::Utilization, level, "utilization 57%"),
            (MapMetric::Temperature, level, "62° on a scale of 20° to 100°"),
            (MapMetric::Utilization, Symbol::Char('▒'), "idle-held: allocated or in use at 57%"),
            (MapMetric::Utilization, Symbol::Char('–'), "at 57%; who has it is unknown"),
            (MapMetric::Memory, Symbol::Char('–'), "mem not reported"),
            (MapMetric::Utilization, Symbol::Idle, "free to use, at 57%"),
            (
                MapMetric::Utilization,
                UNAVAILABLE.0,
                "unavailable: free, and its node takes no jobs",
            ),
            (MapMetric::Utilization, Symbol::Faulty, "its node is down"),
            (MapMetric::Owner, Symbol::Letter('A', 0), "user ada"),
            (MapMetric::Owner, Symbol::Char('A'), "user ada"),
            (MapMetric::Owner, Symbol::Letter('#', 0), "user ada (all letters are taken)"),
            (MapMetric::Owner, Symbol::Idle, "no user"),
            (MapMetric::Job, Symbol::Char('*'), "several jobs"),
            (MapMetric::Job, Symbol::Letter('A', 0), "job 7"),
            (MapMetric::Job, Symbol::Char(' '), "hidden by the filter"),
        ] {
            assert_eq!(meaning(metric, symbol, false, same), expected, "{metric:?} {symbol:?}");
        }
        for (symbol, expected) in [
            (level, "last known: utilization 57%"),
            (Symbol::Idle, "last known: free to use, at 57%"),
            (Symbol::Faulty, "its node is down"),
            (FILTERED_OUT.0, "hidden by the filter"),
        ] {
            assert_eq!(meaning(MapMetric::Utilization, symbol, true, same), expected);
        }
        let lost = meaning(MapMetric::Utilization, Symbol::Faulty, false, |node| {
            node.devices[0].fault = Some(DeviceFault::Lost);
        });
        assert!(lost.starts_with("fault: "), "{lost}");
    }
}
