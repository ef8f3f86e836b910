//! The columns of the process table: which of them fit, and how their cells are drawn.

use crate::display_options::Density;
use crate::process_row::ProcessEntry;
use crate::process_target::{short_command, skip_columns, unusual_state};
use crate::render_context::RenderContext;
use crate::views::processes::rows::{ProcessRows, ResolvedScope};
use crate::widgets::line::{Line, Tone};
use crate::widgets::number_format::{Units, format_run_time, percent, percent_value};
use crate::widgets::table::{self, Cell, Fade, Table, TableColumn, TableRoom};
use gtop_fleet::insight::node_status::{device_label, shown_id};
use gtop_fleet::metrics::{PROCESS, help_of};
use gtop_fleet::settings::ColumnSpec;
use gtop_local::text::width_of;
use gtop_local::time::{Timestamp, format_age};
use gtop_model::{Freshness, Link, Source, UnseenReason};

/// The command keeps this width before a further column is added.
const MIN_COMMAND_WIDTH: u16 = 20;
/// Width of the mark in front of a row.
const MARK_WIDTH: u16 = 1;
/// A compact table has the columns up to this rank.
const COMPACT_RANK: u8 = 6;

/// What cells are drawn from, apart from their row.
pub(super) struct ProcessTable<'a> {
    rows: &'a ProcessRows,
    has_node: bool,
    is_chosen: bool,
    is_full: bool,
    units: Units,
    width: u16,
}

type Column<'a> = TableColumn<ProcessTable<'a>, ProcessEntry<'a>>;
pub(super) type LaidOutProcesses<'a> = Table<'a, ProcessTable<'a>, ProcessEntry<'a>>;

/// Returns the columns that can be chosen, and the fixed one.
pub fn column_specs() -> Vec<ColumnSpec> {
    table::specs(&ProcessTable::COLUMNS).to_vec()
}

impl<'a> ProcessTable<'a> {
    const COLUMNS: [Column<'a>; 16] = [
        Column::left("NODE", 0, |_, entry, _| entry.node.name.label().to_owned().into())
            .named("node", "node", "the node, if there are several")
            .rank(4)
            .sized(|table, _| {
                let widest = (table.width / 8).clamp(4, 20);
                if table.has_node { table.rows.name_width.clamp(4, widest) } else { 0 }
            }),
        Column::right("GPU", 4, |_, entry, _| {
            Cell::of(entry.device, |device| device_label(entry.node, device))
        })
        .named("gpu", "gpu", "number of the device")
        .or_titled(&["TPU", "DEV"])
        .rank(3)
        .titled(|table, _| table.device_titles()[0].into()),
        Column::right("PID", 7, |_, entry, _| {
            Cell::toned(entry.used.pid.to_string(), Tone::Strong)
        })
        .named("pid", "pid", "the process id")
        .rank(1),
        Column::left("TYPE", 4, |_, entry, _| {
            Cell::of(entry.used.kind.get(), |kind| kind.as_str().to_owned())
        })
        .named("type", "type", help_of(PROCESS, "type"))
        .rank(11),
        Column::left("USER", 0, |_, entry, _| Cell::of(entry.user(), str::to_owned))
            .named("user", "user", help_of(PROCESS, "user"))
            .rank(2)
            .sized(|table, _| {
                table.rows.user_width.clamp(4, if table.width >= 110 { 16 } else { 12 })
            }),
        Column::right("GPU-MEM", 7, |table, entry, _| {
            Cell::of(entry.used.memory.get(), |bytes| table.units.amount(bytes))
        })
        .named("gpumem", "gpumem", help_of(PROCESS, "gpumem"))
        .or_titled(&["TPU-MEM", "DEV-MEM"])
        .rank(5)
        .titled(|table, _| table.device_titles()[1].into()),
        Column::right("%SM", 4, |_, entry, _| {
            let mark = if entry.is_whole_device_load() { "*" } else { "" };
            format!("{}{mark}", percent(entry.load())).into()
        })
        .named("psm", "psm", "SM utilization of the process; * if that of the whole device")
        .or_titled(&["%TPU", "%DEV"])
        .rank(6)
        .titled(|table, _| table.device_titles()[2].into()),
        Column::right("%GMBW", 5, |_, entry, _| {
            Cell::percent(percent_value(entry.used.memory_utilization))
        })
        .named("pmembw", "pmembw", help_of(PROCESS, "pmembw"))
        .rank(13),
        Column::right("%ENC", 0, |_, entry, _| Cell::percent(percent_value(entry.used.encoder)))
            .named("penc", "penc", help_of(PROCESS, "penc"))
            .rank(14)
            .sized(Self::video_width),
        Column::right("%DEC", 0, |_, entry, _| Cell::percent(percent_value(entry.used.decoder)))
            .named("pdec", "pdec", help_of(PROCESS, "pdec"))
            .rank(15)
            .sized(Self::video_width),
        Column::right("%CPU", 5, |_, entry, _| Cell::percent(entry.cpu_percent()))
            .named("pcpu", "pcpu", help_of(PROCESS, "pcpu"))
            .rank(7),
        Column::right("%MEM", 4, |_, entry, _| {
            Cell::of(entry.resident_share(), |share| format!("{share:.1}"))
        })
        .named("prss", "prss", help_of(PROCESS, "prss"))
        .rank(10),
        Column::right("RSS", 0, |table, entry, _| {
            Cell::of(entry.resident(), |bytes| table.units.amount(bytes))
        })
        .named("rss", "rss", help_of(PROCESS, "rss"))
        .rank(9)
        .sized(|table, _| table.units.amount_width()),
        Column::right("TIME", 8, |_, entry, _| Cell::of(entry.run_time(), format_run_time))
            .named("time", "time", help_of(PROCESS, "time"))
            .rank(8),
        Column::left("JOB", 0, |table, entry, _| {
            let jobs = table.rows.jobs().map(|jobs| &**jobs);
            Cell::of(entry.job(), |job| shown_id(jobs, job).into_owned())
        })
        .named("job", "job", help_of(PROCESS, "job"))
        .rank(12)
        .sized(|table, _| match table.has_long_ids() {
            _ if table.rows.job_id_len == 0 => 0,
            true => 12,
            false => 8,
        }),
        // Drawn behind the other columns, with the status of the process.
        Column::rest("COMMAND", MIN_COMMAND_WIDTH, |_, _, _| "".into()).named(
            "command",
            "command",
            "the command line; always shown last",
        ),
    ];

    /// Lays out the table in `width`; the command gets what the other columns leave.
    pub(super) fn laid_out(
        context: RenderContext<'_>,
        rows: &'a ProcessRows,
        density: Density,
        width: u16,
    ) -> LaidOutProcesses<'a> {
        let chosen = &context.options.columns.processes;
        let table = Self {
            rows,
            has_node: !matches!(rows.scope(), ResolvedScope::Node(_)),
            is_chosen: !chosen.is_empty(),
            is_full: density == Density::Full,
            units: context.options.units(),
            width,
        };
        let max_rank = if density == Density::Compact { COMPACT_RANK } else { u8::MAX };
        let room = TableRoom::new(width, MARK_WIDTH, if width >= 140 { 2 } else { 1 });
        Table::fit(&Self::COLUMNS, table, chosen, TableRoom { max_rank, ..room })
    }

    /// Video columns are shown if a process uses the encoder or decoder.
    fn video_width(&self, _: u16) -> u16 {
        if self.rows.video_count > 0 || self.is_chosen { 4 } else { 0 }
    }

    /// Returns true if job ids are such as `2000_17`, `12+1` and `raw 12345`.
    fn has_long_ids(&self) -> bool {
        self.rows.jobs().is_some_and(|list| {
            self.rows.job_id_len > 4 || list.with_nodes().any(|job| job.shown_id.len() > 8)
        })
    }

    /// Returns the titles of the device, its memory and its load.
    const fn device_titles(&self) -> [&'static str; 3] {
        match (self.rows.has_tpus, self.rows.has_gpus) {
            (true, false) => ["TPU", "TPU-MEM", "%TPU"],
            (true, true) => ["DEV", "DEV-MEM", "%DEV"],
            (false, _) => ["GPU", "GPU-MEM", "%SM"],
        }
    }
}

/// Draws a row behind its mark. `shift` is by how many columns its command is scrolled to the right.
pub(super) fn row<'a>(
    table: &LaidOutProcesses<'a>,
    mark: &'static str,
    entry: ProcessEntry<'a>,
    (now, shift): (Timestamp, usize),
) -> Line {
    let status = row_status(entry, now);
    // The PIDs of one's own processes are bold, those of unknown owners too; all, if all belong to others.
    let is_others = table.context.rows.own_count > 0 && entry.is_ours() == Some(false);
    let fade = match &status {
        Some(status) if status.is_stale => Fade::All,
        _ if is_others => Fade::Emphasis,
        _ => Fade::None,
    };
    let mark = Line::styled(mark, if fade == Fade::All { Tone::Faint } else { Tone::Accent });
    let mut line = table.row(mark, &entry, fade);
    if let Some(RowStatus { text, tone, .. }) = status {
        line = line.text(text, tone).gap(1);
    }
    let command = short_command(entry.command(), table.context.is_full);
    let command = Line::styled(skip_columns(&command, shift), Tone::Plain);
    line.append(fade.applied_to(command))
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
    if entry.has_ended {
        return Some(RowStatus { text: "gone".to_owned(), tone: Tone::Bad, is_stale: true });
    }
    if let Some(text) = staleness(entry, now) {
        return Some(RowStatus { text, tone: Tone::Warn, is_stale: true });
    }
    let (text, tone) = unusual_state(entry.process, entry.unseen)?;
    let is_stale = entry.unseen.is_some_and(|unseen| unseen.why == UnseenReason::Gone);
    Some(RowStatus { text: text.to_owned(), tone, is_stale })
}

pub(super) fn is_stale(entry: ProcessEntry<'_>, now: Timestamp) -> bool {
    row_status(entry, now).is_some_and(|status| status.is_stale)
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
        assert_eq!(short_command("../venv/bin/python /a/b.py", false), "python /a/b.py");
        for whole in
            ["ray::ppo/worker", "[kworker/0:0H]", "ray::IDLE a/b", "sshd: ada@pts/0", "bin/train"]
        {
            assert_eq!(short_command(whole, false), whole);
        }
        assert_eq!(short_command("", false), "");
        assert_eq!(short_command("/", false), "");
    }
}
