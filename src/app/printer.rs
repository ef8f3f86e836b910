//! `--once`, `--problems` and `--watch`: prints one snapshot, or one per interval.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use rustix::termios::tcgetwinsize;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::app::env::Env;
use crate::app::{ExitReason, print_whole, settings_controller, variable};

use crate::export::{
    OutputField, TimeFormat, write_chosen_json, write_csv, write_csv_header, write_jobs,
    write_json, write_problems,
};
use crate::setting_table::{IntervalSettings, OutputSettings};
use crate::watch::{Monitor, is_complete};
use gtop_fleet::Fleet;
use gtop_fleet::advice::{self, Reader};
use gtop_fleet::insight::FleetView;
use gtop_fleet::query::{DisplaySelection, Filter};
use gtop_local::time::Timestamp;
use gtop_model::{JobList, Link, SchedulerWords};
use gtop_ui::{
    ColourUse, DisplayOptions, RenderContext, ScreenSettings, StopSignals, Theme, render_text,
    report,
};

/// Prints snapshots of the fleet.
pub(super) struct Printer<'a> {
    env: &'a Env,
    /// What is watched, for the heading.
    source: &'a str,
    /// The devices and processes to show.
    selection: DisplaySelection,
    /// Which of these match, and the nodes that do.
    filter: Filter,
    display: DisplayOptions,
    /// Colours and glyphs; escape sequences are printed to terminals only.
    theme: Theme,
    zone: TimeZone,
    /// The fields of CSV and of `--fields`.
    fields: Vec<OutputField>,
    /// What precedes the first snapshot.
    header: Vec<u8>,
    /// Why the printed snapshot lacks something without showing it, and what helps.
    pub(super) notices: Vec<String>,
}

/// What is watched, if names are replaced.
const ANONYMOUS: &str = "anonymous";

impl<'a> Printer<'a> {
    pub(super) fn new(env: &'a Env, source: &'a str) -> Self {
        let options = &env.cli.output.print;
        let mut display = settings_controller::display_options(&env.settings, variable);
        let selection = display.selection.clone();
        if env.privacy.is_anonymous() {
            // The names of what is selected are not those of what is shown.
            let names = selection.names;
            display.selection = DisplaySelection { names, ..DisplaySelection::default() };
        }
        let fields = if options.csv { options.columns() } else { options.fields.clone() };
        let theme = settings_controller::theme(&env.settings, variable);
        let source = if env.privacy.is_anonymous() { ANONYMOUS } else { source };
        let mut header = Vec::new();
        if options.csv {
            // Writing to memory cannot fail.
            write_csv_header(&mut header, &fields).ok();
        }
        let filter = options.filter.clone();
        let (zone, notices) = (TimeZone::system(), Vec::new());
        Self { env, source, selection, filter, display, theme, zone, fields, header, notices }
    }

    /// Prints a snapshot as soon as it is complete, or after the deadline, of which the wait for the scheduler is a part.
    pub(super) async fn print_once(
        &mut self,
        monitor: &Monitor,
        scheduler_wait: Duration,
        out: &mut impl Write,
    ) -> io::Result<ExitReason> {
        let deadline =
            self.env.settings.read::<OutputSettings>().deadline.saturating_sub(scheduler_wait);
        let mut signals = StopSignals::new();
        let mut fleet = monitor.fleet();
        let complete = async { fleet.wait_for(is_complete).await.ok().map(|fleet| fleet.clone()) };
        let complete = tokio::select! {
            complete = timeout(deadline, complete) => complete.ok().flatten(),
            reason = signals.next() => return Ok(reason.into()),
        };
        // After the deadline, or if the publisher has stopped: what there is.
        let fleet = complete.unwrap_or_else(|| monitor.fleet().borrow().clone());
        let fleet = without_retries(fleet);
        if let Some(list) = &fleet.jobs {
            self.note_missing_jobs(list, &fleet.scheduler().words);
        }
        self.print_picture(&fleet, out)
    }

    /// Notes what the scheduler did not list, as CSV has no place for it, and what it had not answered by the deadline.
    fn note_missing_jobs(&mut self, list: &JobList, words: &SchedulerWords) {
        let error = list.error.as_ref().filter(|_| self.env.cli.output.print.csv);
        self.notices.extend(error.map(|error| advice::scheduler::explained(words, error)));
        let missing: Vec<&str> = list.unanswered().iter().map(|part| part.text()).collect();
        if !missing.is_empty() {
            let deadline = self.env.settings.read::<OutputSettings>().deadline.as_secs_f64();
            self.notices.push(format!(
                "{} did not report {} within {deadline} s; --deadline SECONDS waits longer",
                words.name,
                missing.join(", ")
            ));
        }
    }

    /// Prints this snapshot.
    pub(super) fn print_picture(
        &mut self,
        fleet: &Fleet,
        out: &mut impl Write,
    ) -> io::Result<ExitReason> {
        self.print(fleet, out)?;
        Ok(if any_answered(fleet) { ExitReason::Done } else { ExitReason::NoAnswer })
    }

    /// Prints a snapshot per interval until a signal arrives.
    pub(super) async fn print_continuously(
        &mut self,
        monitor: &Monitor,
        out: &mut impl Write,
    ) -> io::Result<ExitReason> {
        let period = self.env.settings.read::<IntervalSettings>().interval.value;
        let mut fleet = monitor.fleet();
        let mut signals = StopSignals::new();
        // The first snapshot comes as soon as it is complete.
        tokio::select! {
            _either = timeout(period, fleet.wait_for(is_complete)) => {}
            reason = signals.next() => return Ok(reason.into()),
        }
        let mut tick = interval(period);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                reason = signals.next() => return Ok(reason.into()),
            }
            let snapshot = fleet.borrow().clone();
            self.print(&snapshot, out)?;
        }
    }

    fn print(&mut self, fleet: &Fleet, out: &mut impl Write) -> io::Result<()> {
        let now = self.env.clock.now();
        let (fields, zone, options) = (&self.fields, &self.zone, &self.env.cli.output.print);
        // One write: standard output is line-buffered and would split it.
        let mut text = std::mem::take(&mut self.header);
        if options.csv {
            let times = if options.spreadsheet { TimeFormat::Spreadsheet } else { TimeFormat::Iso };
            write_csv(&mut text, &self.shown(fleet, now), now, zone, times, fields)?;
        } else if options.json && fields.is_empty() {
            write_json(&mut text, &self.shown(fleet, now), now, self.source)?;
        } else if options.json {
            write_chosen_json(&mut text, &self.shown(fleet, now), now, zone, self.source, fields)?;
        } else if options.problems {
            let is_anonymous = self.env.privacy.is_anonymous();
            let reader = if is_anonymous { Reader::Stranger } else { Reader::Print };
            let shown = self.shown(fleet, now);
            let fleet_view = FleetView::printed_for(reader, shown, now, &self.display.selection);
            write_problems(&mut text, &fleet_view, fleet.nodes.len())?;
        } else {
            let is_reduced = self.env.privacy.is_anonymous() || !self.filter.is_empty();
            let mut shown = if is_reduced { self.shown(fleet, now) } else { fleet.clone() };
            // What is known of a shown job or node does not depend on the filter.
            let mut whole = self.env.privacy.apply(fleet.clone());
            std::mem::swap(&mut shown.jobs, &mut whole.jobs);
            self.write_table(&mut text, &shown, now)?;
            let mut jobs = Vec::new();
            let columns = io::stdout().is_terminal().then(|| self.page().width);
            write_jobs(&mut jobs, &whole, &self.display.selection, now, columns)?;
            if !jobs.is_empty() {
                text.push(b'\n');
                text.extend(jobs);
            }
        }
        print_whole(out, &text)
    }

    /// Returns the selected devices and processes that match, as in the table, with names as they may be shown.
    fn shown(&self, fleet: &Fleet, now: Timestamp) -> Fleet {
        self.env.privacy.apply(FleetView::part_of(fleet, now, &self.selection, &self.filter))
    }

    fn page(&self) -> PageFormat {
        let size = tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col);
        // With always, escape sequences are printed to pipes and files too.
        let is_styled = self.env.settings.read::<ScreenSettings>().color == ColourUse::Always;
        PageFormat::new(variable, io::stdout().is_terminal(), size, is_styled)
    }

    /// Writes a snapshot as a table, as wide as the terminal.
    fn write_table(&self, out: &mut impl Write, fleet: &Fleet, now: Timestamp) -> io::Result<()> {
        if fleet.nodes.is_empty() && !self.filter.is_empty() {
            return writeln!(out, "no node matches the filter");
        }
        let page = self.page();
        let fleet_view = FleetView::printed(fleet.clone(), now, &self.display.selection);
        let context = RenderContext { view: &fleet_view, options: &self.display, zone: &self.zone };
        let title = if self.filter.is_empty() || self.env.privacy.is_anonymous() {
            self.source.to_owned()
        } else {
            format!("{}  /{}", self.source, self.filter.text())
        };
        let lines = report(context, &title, page.width);
        out.write_all(render_text(&lines, self.theme, page.width, page.has_styles).as_bytes())
    }
}

/// Width of the output, and whether it has escape sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PageFormat {
    width: u16,
    has_styles: bool,
}

/// Columns if the width is unknown; widths outside the range are clamped.
const DEFAULT_WIDTH: u16 = 80;
const WIDTH_RANGE: std::ops::RangeInclusive<u16> = 20..=1_000;

impl PageFormat {
    /// `lookup` reads an environment variable; `COLUMNS` takes precedence over the terminal's size.
    fn new(
        lookup: impl Fn(&str) -> Option<String>,
        is_terminal: bool,
        size: Option<u16>,
        is_styled: bool,
    ) -> Self {
        let requested = lookup("COLUMNS").and_then(|columns| columns.trim().parse::<u16>().ok());
        let size = size.filter(|_| is_terminal);
        let known = requested.filter(|width| *width > 0).or(size.filter(|width| *width > 0));
        let width = known.unwrap_or(DEFAULT_WIDTH).clamp(*WIDTH_RANGE.start(), *WIDTH_RANGE.end());
        let is_dumb = lookup("TERM").is_some_and(|term| term == "dumb");
        Self { width, has_styles: is_styled || (is_terminal && !is_dumb) }
    }
}

/// Leaves out when nodes would be tried again: gtop ends after this snapshot.
fn without_retries(fleet: Fleet) -> Fleet {
    let nodes = fleet.nodes.iter().map(|node| {
        let mut node = Arc::clone(node);
        if let Link::Down { retry_at: Some(_), .. } = node.link
            && let Link::Down { retry_at, .. } = &mut Arc::make_mut(&mut node).link
        {
            *retry_at = None;
        }
        node
    });
    Fleet { nodes: nodes.collect(), ..fleet }
}

fn any_answered(fleet: &Fleet) -> bool {
    fleet.nodes.iter().any(|node| node.taken_at().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_fleet::Node;
    use gtop_model::{NodeName, NodeState, SchedulerNode};

    #[test]
    fn a_node_that_is_powered_down_is_not_waited_for() {
        let fleet = |state| {
            let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
            node.scheduler = Some(Arc::new(SchedulerNode::in_state(state, &[])));
            Fleet::new(vec![Arc::new(node)].into())
        };
        assert!(is_complete(&fleet(NodeState::PoweredDown)));
        assert!(!is_complete(&fleet(NodeState::Idle)));
    }

    #[test]
    fn output_is_as_wide_as_the_terminal_and_styled_only_on_one() {
        for (variables, is_terminal, size, width, has_styles) in [
            (vec![], false, None, 80, false),
            (vec![], true, Some(132), 132, true),
            (vec![], true, Some(0), 80, true),
            (vec![], false, Some(132), 80, false),
            (vec![("COLUMNS", "100")], false, None, 100, false),
            (vec![("COLUMNS", "100")], true, Some(132), 100, true),
            (vec![("COLUMNS", "3")], false, None, 20, false),
            (vec![("COLUMNS", "wide")], true, Some(90), 90, true),
            (vec![("COLUMNS", "99999")], false, None, 80, false),
            (vec![("TERM", "dumb")], true, Some(70), 70, false),
        ] {
            let lookup = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let page = |is_styled| PageFormat::new(lookup, is_terminal, size, is_styled);
            let expected = PageFormat { width, has_styles };
            assert_eq!(page(false), expected, "{variables:?} {is_terminal} {size:?}");
            assert_eq!(page(true), PageFormat { has_styles: true, ..expected });
        }
    }
}
