//! The header lines: the title, how many nodes are fresh, the tabs, and the totals.

use std::time::Duration;

use crate::device_counts::{CountForm, with_device_counts};
use crate::input::Click;
use crate::render_context::{RenderContext, Size};
use crate::screen_state::ScreenState;
use crate::timeline::time_text;
use crate::view::View;
use crate::widgets::line::{Line, Tone};
use crate::widgets::number_format::{interval, percent, power_text};
use gtop_fleet::insight::FleetView;
use gtop_fleet::query::SortOrder;
use gtop_fleet::{Fleet, Node, Totals};
use gtop_local::text::{counted, match_verb};
use gtop_local::time::{format_age, format_duration};
use gtop_model::{Link, RecordedBy, RecorderState, SudoState};

/// Returns the header: at most `max_lines` lines, and at most three.
pub(crate) fn lines(context: RenderContext<'_>, screen: &ScreenState<'_>, size: Size) -> Vec<Line> {
    let (width, max_lines) = size;
    let mut lines = vec![title_line(context, screen.title, Some(screen), width)];
    if max_lines > 1 {
        lines.push(totals_line(context, width));
    }
    if max_lines > 2 {
        lines.push(tabs(context.view, screen, width));
    }
    lines.truncate(max_lines);
    lines
}

/// Returns the header of the printed report, with totals if there are several nodes.
pub(crate) fn report_lines(context: RenderContext<'_>, text: &str, width: u16) -> Vec<Line> {
    let selection =
        context.view.selection.summary().map(|selection| format!("{text}  {selection}"));
    let mut lines = vec![title_line(context, selection.as_deref().unwrap_or(text), None, width)];
    if context.view.count() > 1 {
        lines.push(totals_line(context, width));
    }
    lines
}

fn title_line(
    context: RenderContext<'_>,
    text: &str,
    screen: Option<&ScreenState<'_>>,
    width: u16,
) -> Line {
    let fleet_view = context.view;
    let clock = Line::styled(clock(context), Tone::Plain);
    let timeline = screen.and_then(|screen| screen.timeline);
    let mut left = Line::styled("gtop", Tone::Accent).gap(2);
    if timeline.is_some() {
        left = left.text("REPLAY", Tone::Warn).gap(2);
    }
    if screen.is_some() && timeline.is_none() && fleet_view.nodes().any(|node| is_root(node)) {
        left = left.text("ROOT", Tone::Warn).gap(2);
    }
    left = left.text(text, Tone::Strong);
    // On narrow screens the age of the job list is dropped first, then the title is cut, then words; the
    // clock goes last.
    let mut right = clock;
    if let Some(live) = screen.filter(|screen| screen.timeline.is_none() && width >= 100) {
        let shown = live.calmer.map(|calmer| format!(", shown every {}", interval(calmer)));
        let every = format!("every {}{}  ", interval(live.interval), shown.unwrap_or_default());
        right = Line::styled(every, Tone::Faint).append(right);
    }
    let room = width.saturating_sub(right.width());
    // The short form is used before a title is cut, unless that is so long that it is cut anyway.
    let whole = left.width() + 2;
    let forms = [(false, whole), (true, whole), (false, 17), (true, 12)];
    let nodes = forms.into_iter().find_map(|(is_short, title)| {
        let nodes = node_counts(fleet_view, is_short).gap(if is_short { 2 } else { 3 });
        (nodes.width() + title <= room).then_some(nodes)
    });
    let right = nodes.unwrap_or_default().append(right);
    if let Some(live) = screen.filter(|_| timeline.is_none()) {
        let room = width.saturating_sub(right.width() + 1);
        let forms = recorded_forms(live.recorded, live.interval).into_iter();
        let mut lines = forms.map(|form| left.clone().gap(2).append(form));
        left = lines.find(|line| line.width() <= room).unwrap_or(left);
    }
    let age =
        fleet_view.fleet.jobs.as_ref().and_then(|list| {
            Some(format!("jobs {} old", format_age(fleet_view.now.since(list.at?))))
        });
    let aged = age.map(|age| left.clone().gap(2).text(age, Tone::Faint));
    let aged = aged.filter(|line| line.width().saturating_add(right.width()) < width);
    aged.unwrap_or(left).with_right(right, width)
}

/// Returns true if the probe of a node runs as root by sudo.
fn is_root(node: &Node) -> bool {
    node.link == Link::Up
        && node.hello.as_ref().is_some_and(|hello| hello.sudo == Some(SudoState::Root))
}

/// Returns who records a fleet that is sampled at an interval, from the longest form to the shortest.
fn recorded_forms(by: &RecordedBy, sampled: Duration) -> Vec<Line> {
    match by {
        RecordedBy::Nobody => Vec::new(),
        RecordedBy::This(recorder) => recorder_forms(recorder, sampled).into(),
        RecordedBy::Another => {
            ["○ another gtop records", "○ rec"].map(|text| Line::styled(text, Tone::Faint)).into()
        }
    }
}

/// Returns how long has been recorded, and how often if that is not each sample; or that nothing can be.
fn recorder_forms(recorder: &RecorderState, sampled: Duration) -> [Line; 4] {
    let (text, tone) = match (&recorder.fault, recorder.from.zip(recorder.to)) {
        (Some(_), _) => (" rec failing".to_owned(), Tone::Warn),
        (None, Some((from, to))) => {
            (format!(" rec {}", format_duration(to.since(from))), Tone::Accent)
        }
        (None, None) => (" rec".to_owned(), Tone::Accent),
    };
    let is_thinned = recorder.fault.is_none() && recorder.every > sampled;
    let every = format!(" every {}", interval(recorder.every));
    let whole = if is_thinned { format!("{text}{every}") } else { text.clone() };
    [&whole, &text, " rec", ""].map(|text| Line::styled(format!("●{text}"), tone))
}

fn clock(context: RenderContext<'_>) -> String {
    time_text(context.view.now, context.zone, "%H:%M:%S")
}

fn node_counts(fleet_view: &FleetView, is_short: bool) -> Line {
    let totals = &fleet_view.totals;
    let digits = totals.nodes.to_string().len();
    let tone = if totals.fresh == totals.nodes { Tone::Plain } else { Tone::Strong };
    let matching = if fleet_view.matched.is_some() { "matching " } else { "" };
    let noun = format!("{matching}node");
    let fresh = if is_short {
        format!("{:>digits$}/{} fresh", totals.fresh, totals.nodes)
    } else {
        format!("{:>digits$} of {} fresh", totals.fresh, counted(totals.nodes, &noun))
    };
    let mut line = Line::styled(fresh, tone);
    let connecting =
        totals.nodes.saturating_sub(totals.fresh + totals.stale + totals.down + totals.reported);
    let name = fleet_view.fleet.scheduler().words.name;
    let by_scheduler = if is_short { format!("by {name}") } else { format!("known from {name}") };
    let parts = [
        (connecting, "connecting", Tone::Faint),
        (totals.stale, "stale", Tone::Warn),
        (totals.down, "down", Tone::Bad),
        (totals.reported, &by_scheduler, Tone::Faint),
    ];
    for (count, word, tone) in parts {
        if count > 0 {
            line = line.text(" · ", Tone::Faint).text(format!("{count} {word}"), tone);
        }
    }
    line
}

fn totals_line(context: RenderContext<'_>, width: u16) -> Line {
    let units = context.options.units();
    let totals = &context.view.totals;
    let fleet_devices = context.view.matched.as_ref().map(|matched| matched.fleet_devices);
    let devices = |following: &[Line]| counted_devices(totals, fleet_devices, following, width);
    if totals.devices == totals.stale_devices {
        // Zeros would suggest that there are devices and that they are idle.
        let message = if fleet_devices.is_some() && totals.devices == 0 {
            return devices(&[]);
        } else if totals.fresh == 0 {
            "no fresh samples"
        } else if totals.devices > 0 {
            "no fresh device samples"
        } else if context.view.nodes().any(|node| node.has_hidden_devices) {
            "no devices selected"
        } else if context.view.nodes().any(|node| node.has_unreadable_devices()) {
            "no devices that gtop can read"
        } else {
            "no devices"
        };
        let line = if totals.devices > 0 { devices(&[]) } else { Line::new() };
        let gap = if line.width() > 0 { 2 } else { 0 };
        return line.gap(gap).text(message, Tone::Faint).truncated(width);
    }
    let util = totals.utilization.map(gtop_model::Percent::get);
    let mut utilization = Line::styled("UTIL ", Tone::Faint)
        .right_aligned(&percent(util), 3, Tone::Strong)
        .text(if util.is_some() { "%" } else { " " }, Tone::Faint);
    if width >= 130 {
        utilization = utilization.gap(1).bar(util, 12, context.options.load.tone(util));
    }
    let mut groups = vec![
        utilization,
        Line::styled("MEM ", Tone::Faint)
            .text(units.usage_with_unit(totals.memory_used, totals.memory_total), Tone::Plain),
        Line::styled("POWER ", Tone::Faint)
            .text(power_text(totals.power, totals.power_limit), Tone::Plain),
    ];
    groups.insert(0, devices(&groups));
    crate::widgets::line::flow(groups, group_gap(width), width, 1).pop().unwrap_or_default()
}

/// Returns the gap between the groups of the totals.
const fn group_gap(width: u16) -> u16 {
    if width >= 100 { 4 } else { 2 }
}

/// The number of devices, and the counts by state, which add up to it. Zeros are shown where there is room for all that
/// follows, and words are shortened where that leaves room for the first of it. With a filter, they are those of the devices
/// that match, and `fleet_devices` is the number of all.
fn counted_devices(
    totals: &Totals,
    fleet_devices: Option<usize>,
    following: &[Line],
    width: u16,
) -> Line {
    let is_fresh = totals.devices > totals.stale_devices;
    let beside = |count| {
        let widths = following.iter().take(count).map(|line| line.width() + group_gap(width));
        width.saturating_sub(widths.sum())
    };
    let first = [CountForm::Words, CountForm::ShortWords].map(|form| (form, beside(1)));
    let [_, forms @ ..] = CountForm::ALL;
    let forms = forms.map(|form| (form, width));
    let with_zeros = [(CountForm::WithZeros, beside(following.len()))];
    for (form, room) in with_zeros.into_iter().chain(first).chain(forms) {
        if form == CountForm::WithZeros && !is_fresh {
            continue;
        }
        let verb = match_verb(totals.devices);
        let all = match (fleet_devices, form) {
            (Some(all), CountForm::WithZeros | CountForm::Words) => Line::styled(
                format!("{} of {} {verb}", totals.devices, counted(all, "device")),
                Tone::Accent,
            ),
            (Some(all), CountForm::ShortWords) => {
                Line::styled(format!("{} of {all} {verb}", totals.devices), Tone::Accent)
            }
            (Some(all), _) => Line::styled(format!("{}/{all}", totals.devices), Tone::Accent),
            (None, form) => {
                let words = if totals.devices == 1 { " device" } else { " devices" };
                let word = match form {
                    CountForm::WithZeros | CountForm::Words | CountForm::ShortWords => words,
                    CountForm::BareTotal
                    | CountForm::Merged
                    | CountForm::Few
                    | CountForm::Letters => "",
                    CountForm::Dense => " ",
                };
                Line::styled(totals.devices.to_string(), Tone::Plain).text(word, Tone::Faint)
            }
        };
        let line = with_device_counts(all, totals, form);
        if line.width() <= room {
            return line;
        }
    }
    Line::new()
}

fn tabs(fleet_view: &FleetView, screen: &ScreenState<'_>, width: u16) -> Line {
    let ScreenState { view, order, overlays, .. } = *screen;
    let notices = notices(fleet_view, screen);
    let has_runs = fleet_view.runs.is_some();
    let is_unfiltered = fleet_view.filter.is_empty() && overlays.filter_prompt.is_none();
    // The tabs of all views stand in the same columns, whether there is a sort order beside them or not.
    let is_wide = tab_line(view, TabForm::Wide, has_runs).width() + SORT_WIDTH <= width;
    let form = if is_wide { TabForm::Wide } else { TabForm::Narrow };
    // "filter: none" is dropped first, then the sort order.
    for shows_filter in [is_unfiltered, false] {
        let tabs = tab_line(view, form, has_runs).trimmed();
        let info = sort_and_filter(shows_filter, order);
        let gap = if info.width() > 0 { 2 } else { 0 };
        let right = notices.clone().gap(gap).append(info);
        if tabs.width().saturating_add(right.width()).saturating_add(2 - gap) <= width {
            return tabs.with_right(right, width);
        }
    }
    // A notice is cut before a tab is, unless it tells of an error.
    let has_error = job_list_error(&fleet_view.fleet).is_some();
    let needed = if has_error { MIN_ERROR_WIDTH } else { MIN_NOTICE_WIDTH };
    let needed = notices.width().min(needed);
    let forms = [
        (form, notices.width()),
        (TabForm::Narrow, notices.width()),
        (TabForm::Dense, needed),
        (TabForm::Digits, needed),
    ];
    let line = forms.into_iter().find_map(|(form, needed)| {
        let line = tab_line(view, form, has_runs);
        (line.width().saturating_add(needed) <= width).then_some(line)
    });
    let line = line.unwrap_or_else(|| Line::styled(view.title(), Tone::Accent).gap(2));
    let rest = width.saturating_sub(line.width());
    line.with_right(notices.truncated(rest), width)
}

/// The columns that notices get beside the tabs if they need as many, and those that tell of an error.
const MIN_NOTICE_WIDTH: u16 = 13;
const MIN_ERROR_WIDTH: u16 = 24;
/// The columns of a short sort order, and before it.
const SORT_WIDTH: u16 = 12;

/// How the tabs are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TabForm {
    Wide,
    Narrow,
    Dense,
    /// Digits instead of names, except for the current view.
    Digits,
}

/// The sort order, and "filter: none" if requested: shown only if there is room.
fn sort_and_filter(is_unfiltered: bool, order: Option<SortOrder>) -> Line {
    let none = if is_unfiltered { "filter: none" } else { "" };
    let line = Line::styled(none, Tone::Faint);
    let Some(SortOrder { column, is_reversed: is_inverted }) = order else { return line };
    let inverted = if is_inverted { " reversed" } else { "" };
    let gap = if line.width() > 0 { 3 } else { 0 };
    line.gap(gap).text(format!("sort: {column}{inverted}"), Tone::Faint)
}

fn tab_line(view: View, form: TabForm, has_runs: bool) -> Line {
    let gap = match form {
        TabForm::Wide => 3,
        TabForm::Narrow | TabForm::Digits => 2,
        TabForm::Dense => 1,
    };
    View::shown(has_runs).enumerate().fold(Line::new(), |line, (index, tab)| {
        let digit = index + 1;
        let text = if form != TabForm::Digits || tab == view {
            format!("{digit} {}", tab.title())
        } else {
            digit.to_string()
        };
        let tone = if view == tab { Tone::Accent } else { Tone::Faint };
        line.text(text, tone).clickable(Click::View(tab)).gap(gap)
    })
}

/// Returns why the list of jobs is missing or old; `None` while nothing is known of nodes, where each view says it.
fn job_list_error(fleet: &Fleet) -> Option<&str> {
    let list = fleet.jobs.as_ref()?;
    let is_in_view = fleet.nodes.is_empty() && list.at.is_none();
    list.error.as_ref().filter(|_| !is_in_view).map(|error| &*error.message)
}

/// The exceptions: an outdated job list, hidden devices and processes, pause, and a message that has no other place,
/// which is cut first.
fn notices(fleet_view: &FleetView, screen: &ScreenState<'_>) -> Line {
    let is_filtered = !fleet_view.filter.is_empty() && screen.overlays.filter_prompt.is_none();
    let filter = is_filtered.then(|| {
        let shown = format!("{} of {}", fleet_view.count(), fleet_view.fleet.nodes.len());
        Line::styled(format!("/{}  ", fleet_view.filter.text()), Tone::Accent)
            .text(shown, Tone::Faint)
    });
    let frozen = screen.frozen.map(|span| format!("FROZEN {}", format_age(span)));
    let all = [
        job_list_error(&fleet_view.fleet).map(|text| Line::styled(text, Tone::Bad)),
        frozen.map(|text| Line::styled(text, Tone::Warn)),
        fleet_view.selection.summary().map(|text| Line::styled(text, Tone::Accent)),
        filter,
        screen.message.map(|text| Line::styled(text, Tone::Plain)),
    ];
    all.into_iter()
        .flatten()
        .reduce(|line, part| if line.width() > 0 { line.gap(2).append(part) } else { part })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::tz::TimeZone;

    use super::*;
    use crate::display_options::DisplayOptions;
    use crate::overlays::Overlays;
    use gtop_fleet::query::Filter;
    use gtop_local::time::Timestamp;
    use gtop_model::{JobList, JobListError, NodeName, SchedulerErrorKind};

    fn header_texts(filter: &str, order: Option<SortOrder>, width: u16) -> Vec<String> {
        let node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        let fleet = Fleet::new(vec![Arc::new(node)].into());
        let filter = Filter::new(filter).unwrap();
        let fleet_view = FleetView::filtered(fleet, Timestamp::default(), filter);
        let (display, zone) = (DisplayOptions::default(), TimeZone::UTC);
        let context = RenderContext { view: &fleet_view, options: &display, zone: &zone };
        let screen = ScreenState {
            title: "a title of some length",
            view: View::Fleet,
            order,
            interval: Duration::from_secs(1),
            calmer: None,
            frozen: None,
            focus: None,
            timeline: None,
            recorded: &RecordedBy::Nobody,
            message: None,
            hints: &[],
            overlays: &Overlays::default(),
        };
        let text = |line: &Line| -> String {
            assert!(line.width() <= width, "{line:?}");
            line.plain_text()
        };
        lines(context, &screen, (width, 3))
            .iter()
            .map(|line| text(line).trim_end().to_owned())
            .collect()
    }

    #[test]
    fn a_scheduler_that_fails_is_told_here_unless_the_view_says_it() {
        let error = |nodes: Vec<Arc<Node>>, at| {
            let mut fleet = Fleet::new(nodes.into());
            let error = Some(JobListError {
                message: "squeue failed".into(),
                kind: SchedulerErrorKind::Other,
                since: Timestamp::default(),
            });
            fleet.jobs = Some(JobList { at, error, ..JobList::default() }.into());
            job_list_error(&fleet).map(str::to_owned)
        };
        let node = || vec![Arc::new(Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO))];
        let told = Some("squeue failed".to_owned());
        assert_eq!(error(Vec::new(), None), None);
        assert_eq!(error(Vec::new(), Some(Timestamp::default())), told);
        assert_eq!(error(node(), None), told);
    }

    #[test]
    fn filter_and_sort_order_are_shown_if_there_is_room() {
        let order = Some(SortOrder { column: "util", is_reversed: true });
        let tabs = |filter, width| header_texts(filter, order, width)[2].clone();
        assert!(tabs("", 120).ends_with("filter: none   sort: util reversed"), "{}", tabs("", 120));
        assert!(
            tabs("", 100).ends_with("7 Problems         sort: util reversed"),
            "{}",
            tabs("", 100)
        );
        assert!(tabs("", 80).ends_with("7 Problems"), "{}", tabs("", 80));
        let narrow = tabs("util<10", 50);
        assert!(narrow.starts_with("1 Fleet  2  3") && narrow.contains("/util<10"), "{narrow}");
        assert!(tabs("util<10", 120).contains("/util<10  0 of 1"), "{}", tabs("util<10", 120));
    }

    #[test]
    fn notices_never_hide_the_tabs() {
        let filter = "util<10 and mem>90 or temp>80 and not job=8421";
        for width in 77..200 {
            let tabs = header_texts(filter, None, width)[2].clone();
            for name in
                ["1 Fleet", "2 Job", "3 Node", "4 Processes", "5 Users", "6 Events", "7 Problems"]
            {
                assert!(tabs.contains(name), "{width}: {tabs}");
            }
            assert!(tabs.contains("/util<10"), "{width}: {tabs}");
        }
        let narrow = header_texts(filter, None, 40)[2].clone();
        assert!(narrow.starts_with("1 Fleet  2  3  4  5  6  7  /util"), "{narrow}");
    }

    #[test]
    fn the_counts_add_up_at_every_width() {
        let fleet =
            |[busy, held, free, faulty, stale_devices, unknown_devices]: [usize; 6]| Totals {
                devices: busy
                    + held
                    + free
                    + faulty
                    + 2 * faulty.min(9)
                    + stale_devices
                    + unknown_devices,
                unavailable: faulty.min(9),
                in_use: faulty.min(9),
                busy,
                idle_held: held,
                free,
                faulty,
                stale_devices,
                unknown_devices,
                ..Totals::default()
            };
        for parts in [
            [63, 4, 10, 1, 8, 2],
            [1666, 1666, 1666, 1666, 1666, 1666],
            [12_345, 1234, 12_345, 1234, 1234, 12_345],
            [8, 0, 0, 0, 0, 0],
            [0, 0, 0, 0, 16, 0],
        ] {
            let totals = fleet(parts);
            for width in 45..200 {
                let line = counted_devices(&totals, None, &[], width);
                assert!(line.width() <= width, "{width}: {line:?}");
                let text = line.plain_text();
                let numbers = text.split(|letter: char| !letter.is_ascii_digit());
                let numbers: Vec<usize> =
                    numbers.filter_map(|number| number.parse().ok()).collect();
                let (all, rest) = numbers.split_first().unwrap();
                let sum = rest.iter().sum::<usize>();
                assert_eq!((*all, sum), (totals.devices, totals.devices), "{width}: {text}");
            }
        }
    }

    #[test]
    fn words_are_shortened_before_what_follows_is_dropped() {
        let totals = Totals {
            devices: 2400,
            busy: 1700,
            idle_held: 50,
            free: 580,
            faulty: 60,
            stale_devices: 8,
            unknown_devices: 2,
            ..Totals::default()
        };
        let text = |width| {
            let following = [Line::new().gap(9)];
            counted_devices(&totals, None, &following, width).plain_text()
        };
        let whole =
            "2400 devices · 1700 busy · 50 idle-held · 580 free · 60 faulty · 8 stale · 2 unknown";
        assert_eq!(text(100), whole);
        assert_eq!(text(92), whole.replace("idle-held", "held"));
        // What does not fit in any case shortens nothing.
        assert_eq!(text(86), whole);
        let bare = whole.replace(" devices", "").replace("idle-held", "held");
        assert_eq!(text(72), bare);
    }

    #[test]
    fn with_a_filter_the_counts_are_marked_as_those_of_matching_devices() {
        let totals = Totals { devices: 12, idle_held: 12, ..Totals::default() };
        let line = |width| counted_devices(&totals, Some(496), &[], width).plain_text();
        assert_eq!(line(80), "12 of 496 devices match · 0 busy · 12 idle-held · 0 free");
        assert_eq!(line(40), "12 of 496 devices match · 12 idle-held");
        assert_eq!(line(30), "12 of 496 match · 12 held");
        assert_eq!(line(16), "12/496 · 12 held");
        assert_eq!(line(15), "12/496 12h");
        let none = Totals::default();
        let text = counted_devices(&none, Some(496), &[], 80).plain_text();
        assert_eq!(text, "0 of 496 devices match");
        assert!(header_texts("util<10", None, 120)[1].contains("0 of 0 devices match"));
        assert!(header_texts("util<10", None, 120)[0].contains("0 of 0 matching nodes fresh"));
    }

    #[test]
    fn the_clock_is_dropped_last() {
        let title = |width| header_texts("", None, width)[0].clone();
        assert!(title(80).contains(" of 1 node fresh"), "{}", title(80));
        assert!(title(46).contains("0/1 fresh · 1 connecting  00:00:00"), "{}", title(44));
        assert!(title(20).ends_with(" 00:00:00"), "{}", title(20));
        for width in 0..140 {
            header_texts("", None, width);
        }
    }
}
