//! The lines on top: what is watched, how much of it is fresh, and its sums.

use crate::model::{NodeName, Watts};
use crate::view::input::Click;
use crate::view::job::head::{list_age, list_problem};
use crate::view::line::{Line, Tone};
use crate::view::navigation::View;
use crate::view::number::{age, interval, memory_with_unit, or_unknown, percent};
use crate::view::picture::Picture;
use crate::view::{Scene, Setting};

/// Returns so many header lines, three at most.
pub(crate) fn lines(
    scene: Scene<'_>,
    view: View,
    setting: &Setting<'_>,
    width: u16,
    most: usize,
) -> Vec<Line> {
    let picture = scene.picture;
    let mut lines = vec![title(scene, setting, width)];
    if most > 1 {
        lines.push(sums(scene, width));
    }
    if most > 2 {
        lines.push(tabs(picture, view, setting, width));
    }
    lines.truncate(most);
    lines
}

fn title(scene: Scene<'_>, setting: &Setting<'_>, width: u16) -> Line {
    let picture = scene.picture;
    let clock = Line::of(clock(scene), Tone::Plain);
    let every = Line::of(format!("every {}  ", interval(setting.interval)), Tone::Faint);
    let mut own = Line::of("gtop", Tone::Accent).gap(2).text(setting.title, Tone::Strong);
    if let Some(age) = picture.fleet.jobs.as_ref().and_then(|list| list_age(list, picture.now)) {
        own = own.gap(2).text(age, Tone::Faint);
    }
    let nodes = nodes(picture).gap(3);
    let mut right = clock;
    if width >= 100 {
        right = every.then(right);
    }
    // The title gives way first, the clock last.
    if width >= right.width().saturating_add(nodes.width()).saturating_add(12) {
        right = nodes.then(right);
    }
    own.against(right, width)
}

fn clock(scene: Scene<'_>) -> String {
    jiff::Timestamp::from_microsecond(scene.picture.now.as_micros()).map_or_else(
        |_| String::new(),
        |moment| moment.to_zoned(scene.zone.clone()).strftime("%H:%M:%S").to_string(),
    )
}

fn nodes(picture: &Picture) -> Line {
    let totals = &picture.totals;
    let digits = totals.nodes.to_string().len();
    let tone = if totals.fresh == totals.nodes { Tone::Plain } else { Tone::Strong };
    let word = if totals.nodes == 1 { "node" } else { "nodes" };
    let mut line =
        Line::of(format!("{:>digits$} of {} {word} fresh", totals.fresh, totals.nodes), tone);
    let coming = totals.nodes.saturating_sub(totals.fresh + totals.stale + totals.down);
    let parts = [
        (coming, "coming", Tone::Faint),
        (totals.stale, "stale", Tone::Warn),
        (totals.down, "down", Tone::Bad),
    ];
    for (count, word, tone) in parts {
        if count > 0 {
            line = line.text(" · ", Tone::Faint).text(format!("{count} {word}"), tone);
        }
    }
    line
}

fn sums(scene: Scene<'_>, width: u16) -> Line {
    let totals = &scene.picture.totals;
    let digits = totals.devices.to_string().len();
    let count = |label: &str, count: usize| {
        Line::of(format!("{label} "), Tone::Faint).text(format!("{count:>digits$}"), Tone::Plain)
    };
    let (first, gap) = if width >= 100 { ("DEVICES", 2) } else { ("DEV", 1) };
    let util = totals.utilization.map(crate::model::Percent::get);
    let mut utilization = Line::of("UTIL ", Tone::Faint)
        .right(&percent(util), 3, Tone::Strong)
        .text(if util.is_some() { "%" } else { " " }, Tone::Faint);
    if width >= 130 {
        utilization = utilization.gap(1).bar(util, 12, scene.taste.load.tone(util));
    }
    let mut groups = vec![
        count(first, totals.devices)
            .gap(gap)
            .then(count("busy", totals.busy))
            .gap(gap)
            .then(count("held", totals.held))
            .gap(gap)
            .then(count("free", totals.free)),
        utilization,
        Line::of("MEM ", Tone::Faint)
            .text(memory_with_unit(totals.memory_used, totals.memory_total), Tone::Plain),
        Line::of("POWER ", Tone::Faint).text(power(totals.power, totals.power_limit), Tone::Plain),
    ];
    if totals.faulty > 0 {
        groups.insert(1, Line::of(format!("broken {}", totals.faulty), Tone::Bad));
    }
    let gap = if width >= 100 { 4 } else { 2 };
    crate::view::line::flow(groups, gap, width, 1).pop().unwrap_or_default()
}

/// Writes power drawn and its limit in the unit that suits the limit.
pub(crate) fn power(drawn: Option<Watts>, limit: Option<Watts>) -> String {
    let Some(limit) = limit.map(Watts::get) else {
        return or_unknown(None::<u8>, |_| String::new());
    };
    let drawn = drawn.map(Watts::get);
    let (scale, unit, decimals) = match limit {
        limit if limit >= 100_000.0 => (1_000.0, "kW", 0),
        limit if limit >= 2_000.0 => (1_000.0, "kW", 1),
        _ => (1.0, "W", 0),
    };
    let drawn = or_unknown(drawn, |drawn| format!("{:.decimals$}", drawn / scale));
    format!("{drawn}/{:.decimals$} {unit}", limit / scale)
}

fn tabs(picture: &Picture, view: View, setting: &Setting<'_>, width: u16) -> Line {
    // Names give way to digits, all but that of the view one is in.
    let state = state(picture, setting);
    let full = tab_line(picture, view, true);
    let line = if full.width().saturating_add(state.width()) < width {
        full
    } else {
        tab_line(picture, view, false)
    };
    line.against(state, width)
}

fn tab_line(picture: &Picture, view: View, is_full: bool) -> Line {
    let has_jobs = picture.fleet.jobs.is_some();
    let all = View::ALL.into_iter().enumerate();
    all.filter(|(_, own)| has_jobs || *own != View::Job).fold(Line::new(), |line, (place, own)| {
        let digit = place + 1;
        let text = if is_full || own == view {
            format!("{digit} {}", own.title())
        } else {
            digit.to_string()
        };
        let tone = if view == own { Tone::Accent } else { Tone::Faint };
        line.text(text, tone).on_click(Click::View(own)).gap(if is_full { 3 } else { 2 })
    })
}

/// What is out of the ordinary: an old list of jobs, a message, fast focus, a frozen picture.
fn state(picture: &Picture, setting: &Setting<'_>) -> Line {
    let mut line = Line::new();
    if let Some(problem) = picture.fleet.jobs.as_ref().and_then(|list| list_problem(list)) {
        line = line.text(problem, Tone::Bad).gap(2);
    }
    if !picture.filter.is_empty() && setting.search.is_none() {
        let shown = format!("{} of {}", picture.count(), picture.fleet.nodes.len());
        line = line
            .text(format!("/{}  ", picture.filter.text()), Tone::Accent)
            .text(shown, Tone::Faint)
            .gap(2);
    }
    if let Some(message) = setting.message {
        line = line.text(message, Tone::Plain);
    }
    if let Some(node) = setting.focus.map(NodeName::as_str) {
        line = line.gap(2).text(format!("FOCUS {node}"), Tone::Accent);
    }
    if let Some(span) = setting.frozen {
        line = line.gap(2).text(format!("FROZEN {}", age(span)), Tone::Warn);
    }
    line
}
