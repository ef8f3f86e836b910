//! The columns of the process table: which of them fit, and how their cells are drawn.

use std::sync::Arc;
use std::time::Duration;

use unicode_width::UnicodeWidthChar;

use crate::insight::node_status::{device_label, shown_id};
use crate::model::width_of;
use crate::model::{Freshness, JobList, Link, ProcessState, Source, UnseenReason};
use crate::time::{Timestamp, format_age};
use crate::ui::display_options::Density;
use crate::ui::input::Click;
use crate::ui::process_target::short_command;
use crate::ui::views::processes::rows::{ProcessEntry, ProcessRows};
use crate::ui::widgets::column_spec::ColumnSpec;
use crate::ui::widgets::line::{Line, Tone};
use crate::ui::widgets::number_format::{
    Units, format_run_time, or_unknown, percent, percent_value,
};

/// The command keeps this width before a further column is added.
const MIN_COMMAND_WIDTH: u16 = 20;
/// Width of the mark in front of a row.
const MARK_WIDTH: u16 = 1;

/// A column of the process table.
struct ProcessColumn {
    spec: ColumnSpec,
    is_left_aligned: bool,
    /// Its place in the order in which columns get room.
    rank: u8,
    /// Returns its width; 0 hides it.
    width: fn(&ProcessWidths<'_>) -> u16,
    cell: fn(&Columns, ProcessEntry<'_>) -> String,
}

/// What the widths of columns depend on.
struct ProcessWidths<'a> {
    rows: &'a ProcessRows,
    has_node: bool,
    /// Job ids such as `2000_17` and `12+1`.
    has_long_ids: bool,
    is_chosen: bool,
    units: Units,
    width: u16,
}

/// Video columns are shown if a process uses the encoder or decoder.
const fn video_width(widths: &ProcessWidths<'_>) -> u16 {
    if widths.rows.video_count > 0 || widths.is_chosen { 4 } else { 0 }
}

impl ProcessColumn {
    const fn new(
        (name, title): (&'static str, &'static str),
        help: &'static str,
        rank: u8,
        width: fn(&ProcessWidths<'_>) -> u16,
        cell: fn(&Columns, ProcessEntry<'_>) -> String,
    ) -> Self {
        let spec = ColumnSpec::new(name, title, name, help);
        Self { spec, is_left_aligned: false, rank, width, cell }
    }

    const fn left(self) -> Self {
        Self { is_left_aligned: true, ..self }
    }
}

/// All columns but the command, in the order of the screen.
static COLUMNS: [ProcessColumn; 15] = [
    ProcessColumn::new(
        ("node", "NODE"),
        "the node, if there are several",
        4,
        |widths| {
            let widest = (widths.width / 8).clamp(4, 20);
            if widths.has_node { widths.rows.name_width.clamp(4, widest) } else { 0 }
        },
        |_, entry| entry.node.name.label().to_owned(),
    )
    .left(),
    ProcessColumn::new(
        ("gpu", "GPU"),
        "the device",
        3,
        |_| 4,
        |_, entry| or_unknown(entry.device, |device| device_label(entry.node, device)),
    ),
    ProcessColumn::new(
        ("pid", "PID"),
        "the process id",
        1,
        |_| 7,
        |_, entry| entry.used.pid.to_string(),
    ),
    ProcessColumn::new(
        ("type", "TYPE"),
        "compute, graphics, or both",
        11,
        |_| 4,
        |_, entry| or_unknown(entry.used.kind.get(), |kind| kind.as_str().to_owned()),
    )
    .left(),
    ProcessColumn::new(
        ("user", "USER"),
        "the owner",
        2,
        |widths| widths.rows.user_width.clamp(4, if widths.width >= 110 { 16 } else { 9 }),
        |_, entry| or_unknown(entry.user(), str::to_owned),
    )
    .left(),
    ProcessColumn::new(
        ("gpumem", "GPU-MEM"),
        "device memory in use",
        5,
        |_| 7,
        |columns, entry| or_unknown(entry.used.memory.get(), |bytes| columns.units.amount(bytes)),
    ),
    ProcessColumn::new(
        ("psm", "%SM"),
        "device load",
        6,
        |_| 4,
        |_, entry| {
            let mark = if entry.is_whole_device_load() { "*" } else { "" };
            format!("{}{mark}", percent(entry.load()))
        },
    ),
    ProcessColumn::new(
        ("pmembw", "%GMBW"),
        "device memory bandwidth in use",
        13,
        |_| 5,
        |_, entry| percent(percent_value(entry.used.memory_utilization)),
    ),
    ProcessColumn::new(("penc", "%ENC"), "video encoder load", 14, video_width, |_, entry| {
        percent(percent_value(entry.used.encoder))
    }),
    ProcessColumn::new(("pdec", "%DEC"), "video decoder load", 15, video_width, |_, entry| {
        percent(percent_value(entry.used.decoder))
    }),
    ProcessColumn::new(
        ("pcpu", "%CPU"),
        "CPU in use, 100% per core",
        7,
        |_| 5,
        |_, entry| percent(entry.process.and_then(|process| process.cpu_percent.get())),
    ),
    ProcessColumn::new(
        ("prss", "%MEM"),
        "share of host memory",
        10,
        |_| 4,
        |_, entry| {
            let share = entry.process.and_then(|process| percent_value(process.resident_share));
            or_unknown(share, |share| format!("{share:.1}"))
        },
    ),
    ProcessColumn::new(
        ("rss", "RSS"),
        "host memory in use",
        9,
        |widths| widths.units.amount_width(),
        |columns, entry| {
            let resident = entry.process.and_then(|process| process.resident.get());
            or_unknown(resident, |bytes| columns.units.amount(bytes))
        },
    ),
    ProcessColumn::new(
        ("time", "TIME"),
        "running time",
        8,
        |_| 8,
        |_, entry| {
            let seconds = entry.process.and_then(|process| process.running_seconds.get());
            or_unknown(seconds.map(Duration::from_secs), format_run_time)
        },
    ),
    ProcessColumn::new(
        ("job", "JOB"),
        "the job",
        12,
        |widths| match widths.has_long_ids {
            _ if !widths.rows.has_jobs => 0,
            true => 12,
            false => 8,
        },
        |columns, entry| {
            or_unknown(entry.job(), |job| shown_id(columns.jobs.as_deref(), job).to_owned())
        },
    )
    .left(),
];
/// The command is always last.
const COMMAND: ColumnSpec =
    ColumnSpec::new("command", "COMMAND", "command", "the command line; always shown last")
        .always();
/// A compact table has the columns up to this rank.
const COMPACT_RANK: u8 = 6;

/// Returns the columns that can be chosen, and the fixed one.
pub(crate) fn column_specs() -> Vec<ColumnSpec> {
    COLUMNS.iter().map(|column| column.spec).chain([COMMAND]).collect()
}

/// The columns that fit, in the order of the screen.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    gap: u16,
    /// Indices in [`COLUMNS`] and widths.
    shown: Vec<(usize, u16)>,
    /// Titles that depend on the kinds of devices in the table, by the names of their columns.
    device_titles: [(&'static str, &'static str); 3],
    is_full: bool,
    /// True if some rows belong to the user, so that those of others are dimmed.
    has_own: bool,
    units: Units,
    /// Gives the displayed ids of jobs.
    jobs: Option<Arc<JobList>>,
}

/// How one row is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessRowOptions {
    pub(super) now: Timestamp,
    /// Columns by which commands are scrolled to the right.
    pub(super) shift: usize,
    pub(super) is_tagged: bool,
    /// True if the row is another device of the selected process.
    pub(super) is_same_process: bool,
}

impl Columns {
    /// Distributes the width over the columns by priority; the command gets the rest.
    pub(super) fn fit(
        rows: &ProcessRows,
        chosen: &[String],
        (density, has_node): (Density, bool),
        (units, width): (Units, u16),
    ) -> Self {
        let gap = if width >= 140 { 2 } else { 1 };
        let jobs = rows.jobs().cloned();
        let has_long_ids =
            jobs.iter().any(|list| list.with_nodes().any(|job| job.shown_id.len() > 8));
        let is_chosen = !chosen.is_empty();
        let widths = ProcessWidths { rows, has_node, has_long_ids, is_chosen, units, width };
        let mut room = width.saturating_sub(MARK_WIDTH + MIN_COMMAND_WIDTH);
        let mut reserve = |(index, width): (usize, u16)| {
            let fits = room >= width + gap;
            room -= if fits { width + gap } else { 0 };
            fits.then_some((index, width))
        };
        let with_width = |index: usize| {
            let width = (COLUMNS.get(index)?.width)(&widths);
            (width > 0).then_some((index, width))
        };
        let mut shown: Vec<(usize, u16)>;
        if is_chosen {
            let index = |name: &String| COLUMNS.iter().position(|one| one.spec.name == name);
            let columns = chosen.iter().filter_map(index).filter_map(with_width);
            shown = columns.map_while(reserve).collect();
        } else {
            let max_rank = if density == Density::Compact { COMPACT_RANK } else { u8::MAX };
            let columns = COLUMNS.iter().enumerate().filter(|(_, one)| one.rank <= max_rank);
            let mut ranked: Vec<_> = columns.map(|(index, one)| (one.rank, index)).collect();
            ranked.sort_unstable();
            let columns = ranked.into_iter().filter_map(|(_, index)| with_width(index));
            shown = columns.filter_map(&mut reserve).collect();
            shown.sort_unstable();
        }
        let [device, memory, load] = match (rows.has_tpus, rows.has_gpus) {
            (true, false) => ["TPU", "TPU-MEM", "%TPU"],
            (true, true) => ["DEV", "DEV-MEM", "%DEV"],
            (false, _) => ["GPU", "GPU-MEM", "%SM"],
        };
        let device_titles = [("gpu", device), ("gpumem", memory), ("psm", load)];
        let is_full = density == Density::Full;
        Self { gap, shown, device_titles, is_full, has_own: rows.own_count > 0, units, jobs }
    }

    fn visible(&self) -> impl Iterator<Item = (&'static ProcessColumn, u16)> {
        self.shown.iter().filter_map(|(index, width)| Some((COLUMNS.get(*index)?, *width)))
    }

    /// Returns the width in front of the command.
    pub(super) fn before_command(&self) -> u16 {
        self.shown.iter().fold(MARK_WIDTH, |sum, (_, width)| sum + width + self.gap)
    }

    /// Draws the titles and highlights the one that rows are sorted by.
    pub(super) fn titles(&self, sorted: &str) -> Line {
        let tone = |name: &str| if name == sorted { Tone::Accent } else { Tone::Faint };
        let mut line = Line::new().gap(MARK_WIDTH);
        for (ProcessColumn { spec, is_left_aligned, .. }, width) in self.visible() {
            let titles = self.device_titles.into_iter();
            let title = titles.into_iter().find(|(name, _)| *name == spec.name);
            let title = title.map_or(spec.title, |(_, title)| title);
            line = if *is_left_aligned {
                line.left_aligned(title, width, tone(spec.name))
            } else {
                line.right_aligned(title, width, tone(spec.name))
            };
            line = line.clickable(Click::Column(spec.name)).gap(self.gap);
        }
        line.text("COMMAND", tone("command")).clickable(Click::Column("command"))
    }

    pub(super) fn row(&self, entry: ProcessEntry<'_>, options: ProcessRowOptions) -> Line {
        // A process of an unknown owner is not dimmed. If all processes belong to others, dimming all of them
        // would not help.
        let is_others = self.has_own && entry.is_ours() == Some(false);
        let plain = if is_others { Tone::Faint } else { Tone::Plain };
        let strong = if is_others { Tone::Faint } else { Tone::Strong };
        let mark = match (options.is_tagged, options.is_same_process) {
            (true, _) => "*",
            (false, true) => "=",
            (false, false) => " ",
        };
        let mut line = Line::styled(mark, Tone::Accent);
        for (column, width) in self.visible() {
            let text = (column.cell)(self, entry);
            line = if column.is_left_aligned {
                line.left_aligned(&text, width, plain)
            } else {
                let tone = if column.spec.name == "pid" { strong } else { plain };
                line.right_aligned(&text, width, tone)
            }
            .gap(self.gap);
        }
        let status = row_status(entry, options.now);
        let is_stale = status.as_ref().is_some_and(|status| status.is_stale);
        if is_stale {
            line = line.dimmed();
        }
        if let Some(RowStatus { text, tone, .. }) = status {
            line = line.text(text, tone).gap(1);
        }
        let command = short_command(entry.command(), self.is_full);
        line.text(skip_columns(&command, options.shift), if is_stale { Tone::Faint } else { plain })
    }
}

/// What is unusual about a process.
pub(super) struct RowStatus {
    pub(super) text: String,
    pub(super) tone: Tone,
    /// True if its values are stale.
    pub(super) is_stale: bool,
}

/// Describes what is unusual about a process, if anything.
pub(super) fn row_status(entry: ProcessEntry<'_>, now: Timestamp) -> Option<RowStatus> {
    let status =
        |text: &str, tone, is_stale| Some(RowStatus { text: text.to_owned(), tone, is_stale });
    if entry.has_ended {
        return status("gone", Tone::Bad, true);
    }
    if let Some(age) = staleness(entry, now) {
        return status(&age, Tone::Warn, true);
    }
    if let Some(unseen) = entry.unseen {
        return match unseen.why {
            UnseenReason::Gone => status("gone", Tone::Bad, true),
            UnseenReason::Hidden => status("no permission", Tone::Warn, false),
            UnseenReason::OtherNamespace => status("in another PID namespace", Tone::Warn, false),
        };
    }
    match entry.process.and_then(|process| process.state.get())? {
        ProcessState::Zombie => status("zombie", Tone::Warn, false),
        ProcessState::Dead => status("ending", Tone::Warn, false),
        ProcessState::Stopped => status("stopped", Tone::Warn, false),
        ProcessState::Traced => status("traced", Tone::Warn, false),
        ProcessState::Running
        | ProcessState::Sleeping
        | ProcessState::Waiting
        | ProcessState::Idle => None,
    }
}

/// Returns the age of a row, `None` if it is fresh.
fn staleness(entry: ProcessEntry<'_>, now: Timestamp) -> Option<String> {
    let device_index = entry.device_index?;
    let source = entry.node.device_sources.get(device_index).map(Source::processes);
    let source_state = source.and_then(|source| entry.node.source(&source));
    let freshness = match source_state {
        Some(state) => state.freshness(now),
        None => entry.node.device_freshness(device_index, now),
    };
    match freshness {
        Freshness::Stale(age_span) => Some(format!("{} old", format_age(age_span))),
        Freshness::Fresh | Freshness::Missing if entry.node.link == Link::Up => None,
        Freshness::Fresh | Freshness::Missing => Some("old".to_owned()),
    }
}

/// Returns the text without its first columns; a wide character cut in half becomes a space.
pub(super) fn skip_columns(text: &str, columns: usize) -> String {
    let mut left = columns;
    let mut characters = text.chars();
    while left > 0 {
        let Some(character) = characters.next() else { return String::new() };
        let width = character.width().unwrap_or(0);
        if width > left {
            return format!(" {}", characters.as_str());
        }
        left -= width;
    }
    // Combining characters belong to the character before, so they are dropped with it.
    let rest = characters.as_str();
    if columns == 0 {
        return rest.to_owned();
    }
    rest.trim_start_matches(|character: char| character.width() == Some(0)).to_owned()
}

/// Returns the shift at which the command ends at the right edge.
pub(super) fn max_shift(command: &str, room: u16) -> usize {
    usize::from(width_of(command).saturating_sub(room))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_scroll_by_columns_and_never_split_a_wide_character() {
        for (text, columns, left) in [
            ("python x.py", 0, "python x.py"),
            ("python x.py", 7, "x.py"),
            ("日本語", 2, "本語"),
            ("日本語", 3, " 語"),
            ("e\u{301}tude", 1, "tude"),
            ("abc", 3, ""),
            ("abc", 9, ""),
        ] {
            assert_eq!(skip_columns(text, columns), left, "{text} {columns}");
        }
    }

    #[test]
    fn only_the_directory_of_the_program_is_left_out() {
        assert_eq!(short_command("/usr/bin/python /a/b.py", false), "python /a/b.py");
        assert_eq!(short_command("/usr/bin/python /a/b.py", true), "/usr/bin/python /a/b.py");
        assert_eq!(short_command("", false), "");
        assert_eq!(short_command("/", false), "");
    }
}
