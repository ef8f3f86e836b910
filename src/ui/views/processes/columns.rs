//! The columns of the process table: which of them fit, and how their cells are drawn.

use std::sync::Arc;
use std::time::Duration;

use unicode_width::UnicodeWidthChar;

use crate::insight::node_status::{device_label, shown_id};
use crate::model::{Freshness, JobList, Link, ProcessState, Source, UnseenReason};
use crate::model::{UNKNOWN, width_of};
use crate::time::{Timestamp, format_age};
use crate::ui::display_options::Density;
use crate::ui::input::Click;
use crate::ui::process_target::short_command;
use crate::ui::views::processes::rows::{ProcessEntry, ProcessRows};
use crate::ui::widgets::column_spec;
use crate::ui::widgets::column_spec::ColumnSpec;
use crate::ui::widgets::line::{Line, Tone};
use crate::ui::widgets::number_format::{
    Units, format_run_time, or_unknown, percent, percent_value,
};

/// The command keeps this width before a further column is added.
const MIN_COMMAND_WIDTH: u16 = 20;
/// Width of the mark in front of a row.
const MARK_WIDTH: u16 = 1;

/// All columns; the command is always last.
pub(crate) const COLUMN_SPECS: [ColumnSpec; 16] = [
    ColumnSpec::new("node", "NODE", "node", "the node, if there are several"),
    ColumnSpec::new("gpu", "GPU", "gpu", "the device"),
    ColumnSpec::new("pid", "PID", "pid", "the process id"),
    ColumnSpec::new("type", "TYPE", "type", "compute, graphics, or both"),
    ColumnSpec::new("user", "USER", "user", "the owner"),
    ColumnSpec::new("gpumem", "GPU-MEM", "gpumem", "device memory in use"),
    ColumnSpec::new("psm", "%SM", "psm", "device load"),
    ColumnSpec::new("pmembw", "%GMBW", "pmembw", "device memory bandwidth in use"),
    ColumnSpec::new("penc", "%ENC", "penc", "video encoder load"),
    ColumnSpec::new("pdec", "%DEC", "pdec", "video decoder load"),
    ColumnSpec::new("pcpu", "%CPU", "pcpu", "CPU in use, 100% per core"),
    ColumnSpec::new("prss", "%MEM", "prss", "share of host memory"),
    ColumnSpec::new("rss", "RSS", "rss", "host memory in use"),
    ColumnSpec::new("time", "TIME", "time", "running time"),
    ColumnSpec::new("job", "JOB", "job", "the job"),
    ColumnSpec::new("command", "COMMAND", "command", "the command line; always shown last")
        .always(),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessColumn {
    Node,
    Device,
    Pid,
    Kind,
    User,
    Memory,
    Load,
    Bandwidth,
    Encoder,
    Decoder,
    Cpu,
    Share,
    Resident,
    Time,
    Job,
}

/// The columns that fit, in the order of the screen.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    gap: u16,
    shown: Vec<(ProcessColumn, u16)>,
    /// Titles of device, memory and load, which depend on the kinds of devices in the table.
    device_titles: [&'static str; 3],
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
    const ORDER: [ProcessColumn; 15] = [
        ProcessColumn::Node,
        ProcessColumn::Device,
        ProcessColumn::Pid,
        ProcessColumn::Kind,
        ProcessColumn::User,
        ProcessColumn::Memory,
        ProcessColumn::Load,
        ProcessColumn::Bandwidth,
        ProcessColumn::Encoder,
        ProcessColumn::Decoder,
        ProcessColumn::Cpu,
        ProcessColumn::Share,
        ProcessColumn::Resident,
        ProcessColumn::Time,
        ProcessColumn::Job,
    ];
    /// The columns by priority, the first to be kept.
    const PRIORITY: [ProcessColumn; 15] = [
        ProcessColumn::Pid,
        ProcessColumn::User,
        ProcessColumn::Device,
        ProcessColumn::Node,
        ProcessColumn::Memory,
        ProcessColumn::Load,
        ProcessColumn::Cpu,
        ProcessColumn::Time,
        ProcessColumn::Resident,
        ProcessColumn::Share,
        ProcessColumn::Kind,
        ProcessColumn::Job,
        ProcessColumn::Bandwidth,
        ProcessColumn::Encoder,
        ProcessColumn::Decoder,
    ];
    /// Number of columns, by priority, that a compact table has.
    const COMPACT_COUNT: usize = 6;

    /// Distributes the width over the columns by priority; the command gets the rest.
    pub(super) fn fit(
        rows: &ProcessRows,
        chosen: &[String],
        (density, has_node): (Density, bool),
        (units, width): (Units, u16),
    ) -> Self {
        let is_wide = width >= 110;
        let gap = if width >= 140 { 2 } else { 1 };
        let chosen = column_spec::column_indices(&COLUMN_SPECS, chosen);
        let jobs = rows.jobs().cloned();
        // Job ids such as `2000_17` and `12+1`.
        let has_long_ids =
            jobs.iter().any(|list| list.with_nodes().any(|job| job.shown_id.len() > 8));
        let width_of_column = |column| match column {
            ProcessColumn::Node if has_node => rows.name_width.clamp(4, (width / 8).clamp(4, 20)),
            ProcessColumn::Job if rows.has_jobs => {
                if has_long_ids {
                    12
                } else {
                    8
                }
            }
            ProcessColumn::Encoder | ProcessColumn::Decoder
                if rows.video_count > 0 || chosen.is_some() =>
            {
                4
            }
            ProcessColumn::Node
            | ProcessColumn::Job
            | ProcessColumn::Encoder
            | ProcessColumn::Decoder => 0,
            ProcessColumn::Device
            | ProcessColumn::Kind
            | ProcessColumn::Load
            | ProcessColumn::Share => 4,
            ProcessColumn::Pid | ProcessColumn::Memory => 7,
            ProcessColumn::Bandwidth | ProcessColumn::Cpu => 5,
            ProcessColumn::User => rows.user_width.clamp(4, if is_wide { 16 } else { 9 }),
            ProcessColumn::Resident => units.amount_width(),
            ProcessColumn::Time => 8,
        };
        let count =
            if density == Density::Compact { Self::COMPACT_COUNT } else { Self::PRIORITY.len() };
        let mut room = width.saturating_sub(MARK_WIDTH + MIN_COMMAND_WIDTH);
        let reserve = |column: ProcessColumn| {
            let column_width = width_of_column(column);
            let fits = column_width > 0 && room >= column_width + gap;
            room -= if fits { column_width + gap } else { 0 };
            fits.then_some((column, column_width))
        };
        let shown = if let Some(indices) = &chosen {
            let columns = indices.iter().filter_map(|index| Self::ORDER.get(*index).copied());
            columns.filter(|column| width_of_column(*column) > 0).map_while(reserve).collect()
        } else {
            let by_priority = Self::PRIORITY.into_iter().take(count);
            let reserved: Vec<_> = by_priority.filter_map(reserve).collect();
            let reserved_column =
                |column: &ProcessColumn| reserved.iter().find(|(known, _)| known == column);
            Self::ORDER.iter().filter_map(reserved_column).copied().collect()
        };
        let device_titles = match (rows.has_tpus, rows.has_gpus) {
            (true, false) => ["TPU", "TPU-MEM", "%TPU"],
            (true, true) => ["DEV", "DEV-MEM", "%DEV"],
            (false, _) => ["GPU", "GPU-MEM", "%SM"],
        };
        let is_full = density == Density::Full;
        Self { gap, shown, device_titles, is_full, has_own: rows.own_count > 0, units, jobs }
    }

    /// Returns the width in front of the command.
    pub(super) fn before_command(&self) -> u16 {
        self.shown.iter().fold(MARK_WIDTH, |sum, (_, width)| sum + width + self.gap)
    }

    /// Draws the titles and highlights the one that rows are sorted by.
    pub(super) fn titles(&self, sorted: &str) -> Line {
        let [device, memory, load] = self.device_titles;
        let tone = |name: &str| if name == sorted { Tone::Accent } else { Tone::Faint };
        let mut line = Line::new().gap(MARK_WIDTH);
        for (column, width) in &self.shown {
            let headings = Self::ORDER.into_iter().zip(COLUMN_SPECS);
            let found = headings.into_iter().find(|(known, _)| known == column);
            let Some((_, ColumnSpec { title, sort: name, .. })) = found else { continue };
            let is_left = matches!(
                column,
                ProcessColumn::Node
                    | ProcessColumn::Kind
                    | ProcessColumn::User
                    | ProcessColumn::Job
            );
            // Three titles differ for TPU chips.
            let device_titles = [
                (ProcessColumn::Device, device),
                (ProcessColumn::Memory, memory),
                (ProcessColumn::Load, load),
            ];
            let device_title = device_titles.into_iter().find(|(known, _)| known == column);
            let title = device_title.map_or(title, |(_, title)| title);
            line = if is_left {
                line.left_aligned(title, *width, tone(name))
            } else {
                line.right_aligned(title, *width, tone(name))
            };
            line = line.clickable(Click::Column(name)).gap(self.gap);
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
        for (column, width) in &self.shown {
            let width = *width;
            line = match column {
                ProcessColumn::Node => line.left_aligned(entry.node.name.label(), width, plain),
                ProcessColumn::Kind => line.left_aligned(
                    entry.used.kind.get().map_or(UNKNOWN, |kind| kind.as_str()),
                    width,
                    plain,
                ),
                ProcessColumn::User => {
                    line.left_aligned(entry.user().unwrap_or(UNKNOWN), width, plain)
                }
                ProcessColumn::Job => {
                    let job = entry.job().map(|job| shown_id(self.jobs.as_deref(), job));
                    line.left_aligned(job.unwrap_or(UNKNOWN), width, plain)
                }
                ProcessColumn::Pid => {
                    line.right_aligned(&entry.used.pid.to_string(), width, strong)
                }
                ProcessColumn::Device
                | ProcessColumn::Memory
                | ProcessColumn::Load
                | ProcessColumn::Bandwidth
                | ProcessColumn::Encoder
                | ProcessColumn::Decoder
                | ProcessColumn::Cpu
                | ProcessColumn::Share
                | ProcessColumn::Resident
                | ProcessColumn::Time => {
                    line.right_aligned(&cell_text(*column, entry, self.units), width, plain)
                }
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

fn cell_text(column: ProcessColumn, entry: ProcessEntry<'_>, units: Units) -> String {
    let amount = |bytes| units.amount(bytes);
    let process = entry.process;
    match column {
        ProcessColumn::Device => entry
            .device
            .map_or_else(|| UNKNOWN.to_owned(), |device| device_label(entry.node, device)),
        ProcessColumn::Memory => or_unknown(entry.used.memory.get(), amount),
        ProcessColumn::Load => {
            let load = percent(entry.load());
            if entry.is_whole_device_load() { format!("{load}*") } else { load }
        }
        ProcessColumn::Bandwidth => percent(percent_value(entry.used.memory_utilization)),
        ProcessColumn::Encoder => percent(percent_value(entry.used.encoder)),
        ProcessColumn::Decoder => percent(percent_value(entry.used.decoder)),
        ProcessColumn::Cpu => percent(process.and_then(|process| process.cpu_percent.get())),
        ProcessColumn::Share => {
            let share_percent = process.and_then(|process| percent_value(process.resident_share));
            or_unknown(share_percent, |share_percent| format!("{share_percent:.1}"))
        }
        ProcessColumn::Resident => {
            or_unknown(process.and_then(|process| process.resident.get()), amount)
        }
        ProcessColumn::Time => {
            let seconds = process.and_then(|process| process.running_seconds.get());
            or_unknown(seconds.map(Duration::from_secs), format_run_time)
        }
        ProcessColumn::Node
        | ProcessColumn::Pid
        | ProcessColumn::Kind
        | ProcessColumn::User
        | ProcessColumn::Job => String::new(),
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
