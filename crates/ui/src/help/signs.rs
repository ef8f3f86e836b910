//! The signs that are on a screen, and what they mean.

use std::collections::BTreeSet;

use crate::theme::Theme;
use crate::view::View;
use crate::widgets::column_spec::ColumnGroup;
use crate::widgets::line::{Line, Span, SpanContent, Symbol, Tone, wrap};
use gtop_fleet::insight::device_flag::DeviceFlag;
use gtop_fleet::settings::ColumnSpec;
use gtop_model::Reason;

/// Columns for keys, signs and titles.
const KEY_WIDTH: u16 = 13;

/// What the help page is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HelpSubject<'a> {
    pub(crate) view: View,
    pub(crate) theme: Theme,
    /// The columns of the view's tables.
    pub(crate) columns: &'a [ColumnGroup],
    /// What the screen shows.
    pub(crate) shown: &'a ShownSigns,
    /// The scheduler's name.
    pub(crate) scheduler: &'a str,
    /// Training runs are watched, which have a view.
    pub(crate) has_runs: bool,
    /// A recording is played or written.
    pub(crate) is_recorded: bool,
}

/// The signs, words and columns that are on a screen.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShownSigns {
    words: BTreeSet<String>,
    /// The characters that stand for devices or moments.
    cells: BTreeSet<char>,
    drawings: BTreeSet<Drawing>,
    has_old_values: bool,
    columns: Vec<(ColumnSpec, String)>,
}

/// What is drawn to scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Drawing {
    Bar,
    /// The levels of devices.
    Levels,
    /// Levels that are several rows high.
    Area,
    Sparkline,
    Graph,
    Rule,
    /// The letters of users or jobs.
    Letters,
}

impl ShownSigns {
    /// Collects what is on these lines.
    pub(crate) fn of<'a>(lines: impl IntoIterator<Item = &'a Line>) -> Self {
        let mut shown = Self::default();
        for line in lines {
            shown.columns.extend(line.columns.iter().cloned());
            for span in &line.spans {
                shown.add(span);
            }
        }
        shown
    }

    fn add(&mut self, span: &Span) {
        self.has_old_values |= span.tone == Tone::Stale;
        let drawing = match &span.content {
            SpanContent::Text(text) => {
                self.words.extend(text.split_whitespace().map(str::to_owned));
                None
            }
            SpanContent::Bar(_) => Some(Drawing::Bar),
            SpanContent::Spark(_) => Some(Drawing::Sparkline),
            SpanContent::Area(_) => Some(Drawing::Area),
            SpanContent::Graph { .. } => Some(Drawing::Graph),
            SpanContent::Rule => Some(Drawing::Rule),
            SpanContent::Strip(symbols) => {
                for cell in symbols {
                    self.add_cell(*cell);
                }
                None
            }
        };
        self.drawings.extend(drawing);
    }

    fn add_cell(&mut self, (symbol, tone): (Symbol, Tone)) {
        self.has_old_values |= tone == Tone::Stale;
        let sign = match symbol {
            Symbol::Idle => Some('·'),
            Symbol::Faulty => Some('✗'),
            Symbol::Overflow => Some('+'),
            Symbol::Char(sign) | Symbol::Letter(sign @ '#', _) => Some(sign),
            Symbol::Level(_) | Symbol::Area(_) | Symbol::Letter(..) => None,
        };
        self.cells.extend(sign);
        self.drawings.extend(match symbol {
            Symbol::Level(_) => Some(Drawing::Levels),
            Symbol::Area(_) => Some(Drawing::Area),
            Symbol::Letter(..) => Some(Drawing::Letters),
            Symbol::Idle | Symbol::Faulty | Symbol::Overflow | Symbol::Char(_) => None,
        });
    }

    /// Returns the title with which a column is shown.
    pub(super) fn title_of(&self, column: &ColumnSpec) -> Option<&str> {
        let shown = self.columns.iter().find(|(shown, _)| shown == column);
        shown.map(|(_, title)| title.as_str())
    }

    /// Returns true if one of these words, or a cell like it, is on the screen.
    fn has(&self, words: &str) -> bool {
        let is_cell = |word: &str| {
            let mut letters = word.chars();
            letters.next().is_some_and(|sign| self.cells.contains(&sign))
                && letters.next().is_none()
        };
        words.split(' ').any(|word| self.words.contains(word) || is_cell(word))
    }

    /// Returns true if one of these characters is in a word on the screen, or a cell.
    fn has_part(&self, parts: &[char]) -> bool {
        self.words.iter().any(|word| word.contains(parts))
            || parts.iter().any(|sign| self.cells.contains(sign))
    }

    /// Returns true if a word on the screen begins like this, and a digit follows.
    fn has_before_digit(&self, start: &str) -> bool {
        let digit = |rest: &str| rest.starts_with(|letter: char| letter.is_ascii_digit());
        self.words.iter().any(|word| word.strip_prefix(start).is_some_and(digit))
    }

    /// Returns true if a word on the screen ends like this, behind something else.
    fn has_end(&self, end: &str) -> bool {
        let front = |word: &String| word.strip_suffix(end).is_some_and(|front| !front.is_empty());
        self.words.iter().any(front)
    }

    fn has_start(&self, start: &str) -> bool {
        self.words.iter().any(|word| word.starts_with(start))
    }
}

/// A sign of the screen.
struct Sign {
    look: Look,
    tone: Tone,
    meaning: &'static str,
    views: &'static [View],
    is_shown: fn(&ShownSigns) -> bool,
}

/// How a sign is shown in the help.
enum Look {
    Text(&'static str),
    Drawn(Drawing),
}

impl Sign {
    fn lines(&self, scheduler: &str, width: u16) -> Vec<Line> {
        let meaning = self.meaning.replace("{scheduler}", scheduler);
        match self.look {
            Look::Text(text) => entry((text, self.tone), &meaning, width),
            Look::Drawn(drawing) => entry_of(vec![drawing.sample(self.tone)], &meaning, width),
        }
    }
}

impl Drawing {
    /// Draws an example with all of its signs.
    fn sample(self, tone: Tone) -> Line {
        let rising = [0.0, 20.0, 40.0, 60.0, 80.0, 100.0];
        let eighths = [0.0, 15.0, 30.0, 45.0, 60.0, 70.0, 80.0, 100.0];
        let cells = |levels: &[f32], symbol: fn(f32) -> Symbol| {
            levels.iter().map(|level| (symbol(*level), tone)).collect()
        };
        match self {
            Self::Bar => Line::new().bar(Some(56.0), 8, tone),
            Self::Levels => Line::new().strip(cells(&rising, Symbol::Level), 6),
            Self::Area => Line::new().strip(cells(&eighths, Symbol::Area), 8),
            Self::Sparkline => Line::new().sparkline(rising.map(Some).to_vec(), tone),
            Self::Graph => {
                let points = || vec![1, 1, 2, 2, 3, 3, 4, 4];
                Line::new().graph(points(), false, tone).gap(1).graph(points(), true, tone)
            }
            Self::Rule => Line::styled("─ │", tone),
            Self::Letters => Line::styled("a b C", tone),
        }
    }
}

/// Explains the signs and colours on the screen.
pub(super) fn lines(subject: &HelpSubject<'_>, width: u16) -> Vec<Line> {
    let HelpSubject { view, theme, shown, scheduler, .. } = *subject;
    let mut lines = Vec::new();
    let is_scaled = |drawing: &Drawing| !matches!(drawing, Drawing::Rule | Drawing::Letters);
    if shown.drawings.iter().any(is_scaled) {
        let load = Line::new().gap(2).text("low", Tone::Low).gap(1).text("mid", Tone::Mid);
        let load = load.gap(1).text("high", Tone::High).gap(2);
        lines.push(load.text(theme.legend(), Tone::Plain));
    }
    for sign in &SIGNS {
        if sign.views.contains(&view) && (sign.is_shown)(shown) {
            lines.extend(sign.lines(scheduler, width));
        }
    }
    with_heading(format!("Signs and colours in {}", view.title()), lines)
}

/// Explains the flags of devices on the screen, if the view has devices.
pub(super) fn flag_lines(subject: &HelpSubject<'_>, width: u16) -> Vec<Line> {
    let mut lines = Vec::new();
    for flag in DeviceFlag::examples().iter().filter(|_| DEVICES.contains(&subject.view)) {
        let word = flag.badge();
        let (sign, is_shown) = match word.split_once(':') {
            Some((start, _)) => {
                (format!("{start}:N"), subject.shown.has_start(&format!("{start}:")))
            }
            None => (word.clone(), subject.shown.has(&word)),
        };
        if is_shown {
            lines.extend(entry((&sign, flag.severity().into()), flag.meaning(), width));
        }
    }
    with_heading("Flags of devices", lines)
}

/// Lists why a value is unknown, if there is one.
pub(super) fn reason_lines(subject: &HelpSubject<'_>, explain_key: &str, width: u16) -> Vec<Line> {
    let heading = format!("Why a value is unknown (–); {explain_key} on the row says which");
    let reasons = Reason::ALL.into_iter().filter(|reason| *reason != Reason::Withheld);
    let reasons = reasons.filter(|_| subject.shown.has("–"));
    let entries = reasons
        .flat_map(|reason| entry((reason.text(), Tone::Faint), reason.meaning(), width))
        .collect();
    with_heading(heading, entries)
}

/// Explains the signs of the explanation of a row, which hides the view.
pub(super) fn explanation_lines(view: View, explain_key: &str, width: u16) -> Vec<Line> {
    let details = entry(
        ("▸ ▾", Tone::Accent),
        "details, folded or unfolded: Enter or → unfolds those at the cursor, + all, - folds all",
        width,
    );
    let details = details.into_iter().filter(|_| [View::Fleet, View::Node].contains(&view));
    let note = entry(("✗ ! ·", Tone::Warn), "a failure, a warning, a notice", width);
    let remedy = entry(("→", Tone::Accent), "what to do about it", width);
    let lines = details.chain(note).chain(remedy).collect();
    with_heading(format!("Signs in the explanation of a row ({explain_key})"), lines)
}

fn with_heading(heading: impl Into<String>, mut lines: Vec<Line>) -> Vec<Line> {
    if !lines.is_empty() {
        lines.insert(0, Line::styled(heading, Tone::Strong));
    }
    lines
}

/// The views that show devices.
const DEVICES: [View; 3] = [View::Fleet, View::Job, View::Node];

const fn sign(
    text: &'static str,
    tone: Tone,
    meaning: &'static str,
    is_shown: fn(&ShownSigns) -> bool,
) -> Sign {
    Sign { look: Look::Text(text), tone, meaning, views: &View::ALL, is_shown }
}

const fn drawn(drawing: Drawing, meaning: &'static str, is_shown: fn(&ShownSigns) -> bool) -> Sign {
    Sign { look: Look::Drawn(drawing), ..sign("", Tone::Mid, meaning, is_shown) }
}

impl Sign {
    const fn only_in(self, views: &'static [View]) -> Self {
        Self { views, ..self }
    }
}

const SIGNS: [Sign; 49] = [
    drawn(Drawing::Bar, "a share, from 0 to 100 %", |shown| shown.drawings.contains(&Drawing::Bar)),
    drawn(
        Drawing::Levels,
        "one device each; its height is the load, or the metric chosen above a map",
        |shown| shown.drawings.contains(&Drawing::Levels),
    ),
    drawn(Drawing::Area, "the same over several rows", |shown| {
        shown.drawings.contains(&Drawing::Area)
    }),
    drawn(
        Drawing::Sparkline,
        "the last minutes or seconds, the newest on the right; blank where nothing is known",
        |shown| shown.drawings.contains(&Drawing::Sparkline),
    ),
    drawn(
        Drawing::Graph,
        "a chart, named beside it; one that hangs from its axis grows downwards",
        |shown| shown.drawings.contains(&Drawing::Graph),
    ),
    sign(
        "100%┤ ├60s─",
        Tone::Faint,
        "axes of a chart: its highest value, and how long ago; old values end with their age",
        |shown| shown.has_part(&['┤', '├']),
    ),
    drawn(Drawing::Letters, "the user or job of a device, named above the map", |shown| {
        shown.drawings.contains(&Drawing::Letters)
    })
    .only_in(&[View::Fleet]),
    sign("#", Tone::Plain, "a user or job for which no letter is left", |shown| {
        shown.cells.contains(&'#')
    })
    .only_in(&[View::Fleet]),
    sign("*", Tone::Plain, "on the map: several users or jobs", |shown| shown.cells.contains(&'*'))
        .only_in(&[View::Fleet]),
    sign("[ ]", Tone::Accent, "what the map shows; b chooses the next", |shown| {
        shown.has_start("[")
    })
    .only_in(&[View::Fleet]),
    sign("▄=40", Tone::Faint, "what a cell means, or the value from which it is drawn", |shown| {
        shown.has_start("=")
    })
    .only_in(&[View::Fleet]),
    sign("busy", Tone::Strong, "a device at 5 % utilization or more", |shown| shown.has("busy")),
    sign(
        "▒ idle-held",
        Tone::Strong,
        "a job holds it, or processes use 256 MiB of it or more; below 5 % now",
        |shown| shown.has("▒ idle-held held"),
    ),
    sign(
        "· free",
        Tone::Strong,
        "a device that nobody uses; on maps by owner and job: without one",
        |shown| shown.has("free") || shown.cells.contains(&'·'),
    ),
    sign(
        "/ unavailable",
        Tone::Warn,
        "free, on a node that {scheduler} gives no jobs, such as a drained one",
        |shown| shown.has("/ unavailable unavail"),
    ),
    sign("~ stale", Tone::Stale, "a device without fresh values", |shown| {
        shown.cells.contains(&'~')
    }),
    sign(
        "faulty",
        Tone::Bad,
        "lost, or reported as failed by the driver; ECC errors are in the notes",
        |shown| shown.has("faulty"),
    ),
    sign(
        "b h i f x o u ?",
        Tone::Strong,
        "busy, idle-held, in-use, free, faulty, stale, unavailable, unknown devices",
        |shown| ["b", "h", "i", "f", "x", "o", "u", "?"].iter().any(|letter| shown.has(letter)),
    ),
    sign("✗", Tone::Bad, "a failure, such as a node that is down or a faulty device", |shown| {
        shown.has_part(&['✗'])
    }),
    sign("!", Tone::Warn, "a warning, such as old values or throttling", |shown| {
        shown.has("!") || shown.has_before_digit("!")
    }),
    sign(
        "97!",
        Tone::Warn,
        "an outlier, or a device with a problem; the notes say which",
        |shown| shown.has_end("!"),
    )
    .only_in(&[View::Job]),
    sign("–", Tone::Faint, "unknown", |shown| shown.has("– –%")),
    sign("1–17 of 80", Tone::Faint, "the rows that are shown, of all", |shown| {
        shown.words.iter().any(|word| {
            word.contains('–') && word.starts_with(|letter: char| letter.is_ascii_digit())
        })
    }),
    sign("grey", Tone::Stale, "old values; AGE shows how old", |shown| shown.has_old_values),
    sign("#4", Tone::Plain, "device 4 of a node", |shown| {
        shown.has_before_digit("#") || shown.has("#")
    }),
    sign(
        "2×8",
        Tone::Plain,
        "two nodes with eight devices each; 8× alone: eight devices",
        |shown| shown.has_part(&['×']),
    ),
    sign("4+", Tone::Plain, "device 4 and others", |shown| {
        shown.words.iter().any(|word| {
            word.strip_suffix('+')
                .is_some_and(|front| front.starts_with(|letter: char| letter.is_ascii_digit()))
        })
    }),
    sign("+3", Tone::Faint, "3 more, for which there is no room", |shown| {
        shown.has_before_digit("+") || shown.cells.contains(&'+')
    }),
    sign(
        "<12:00 >5m",
        Tone::Plain,
        "it was there before gtop looked: since before, for longer than",
        |shown| shown.has_before_digit("<") || shown.has_before_digit(">"),
    ),
    sign("≥", Tone::Plain, "at least: it was so before gtop looked", |shown| {
        shown.has_part(&['≥'])
    }),
    sign("80 %", Tone::Faint, "percent; above a map, where each height begins", |shown| {
        shown.has("%")
    }),
    sign(
        "94*",
        Tone::Plain,
        "a value of the whole device, or of the host, not of what the row is about",
        |shown| shown.has_end("*"),
    ),
    sign("63°", Tone::Plain, "a temperature in °C, or in °F if the setup says so", |shown| {
        shown.has_part(&['°'])
    }),
    sign(
        "↓ ↑",
        Tone::Plain,
        "received and sent, per second; of disks, r is read and w is written",
        |shown| shown.has("↓ ↑") || shown.has_before_digit("↓") || shown.has_before_digit("↑"),
    ),
    sign("NODE↑ ↓", Tone::Faint, "the column that sorts the rows, rising or falling", |shown| {
        shown.has_end("↑") || shown.has_end("↓")
    }),
    sign(
        "▾ ▸",
        Tone::Accent,
        "a group, unfolded or folded; on the map, ▸ is before the node under the cursor",
        |shown| shown.has_part(&['▾', '▸']),
    )
    .only_in(&[View::Fleet]),
    sign(
        "bold PID",
        Tone::Strong,
        "your process, or one that the filter matches; all are, where none differs",
        |shown| shown.has("PID"),
    )
    .only_in(&[View::Node, View::Processes]),
    sign(">", Tone::Accent, "the node under the cursor", |shown| shown.has(">"))
        .only_in(&[View::Job]),
    sign("+ -", Tone::Faint, "a row that Enter unfolds, or that is unfolded", |shown| {
        shown.has("+ -")
    })
    .only_in(&[View::Users, View::Events, View::Problems, View::Runs]),
    sign("*", Tone::Accent, "a tagged process", |shown| shown.has("*"))
        .only_in(&[View::Node, View::Processes]),
    sign("=", Tone::Accent, "another row of the process under the cursor", |shown| shown.has("="))
        .only_in(&[View::Node, View::Processes]),
    sign("└─ ├─ │", Tone::Faint, "a process, below the one that started it", |shown| {
        shown.has_part(&['└'])
    })
    .only_in(&[View::Processes]),
    sign("→", Tone::Accent, "what to do about it", |shown| shown.has("→")),
    sign("…", Tone::Plain, "a text that is cut", |shown| shown.has_part(&['…'])),
    sign(
        "a · b",
        Tone::Faint,
        "separates parts of a line; before a node: it is not connected yet",
        |shown| shown.words.contains("·"),
    ),
    drawn(Drawing::Rule, "between parts of the screen", |shown| {
        shown.drawings.contains(&Drawing::Rule) || shown.words.contains("│")
    }),
    sign("▶ ▮▮", Tone::Accent, "a recording is played, or paused", |shown| {
        shown.has_part(&['▶', '▮'])
    }),
    sign(
        "● ━ ─",
        Tone::Accent,
        "the moment that is shown, and the recording before and behind it; ● rec: it is recorded",
        |shown| shown.has_part(&['●']),
    ),
    sign(
        "┃ ✗ ╱",
        Tone::Plain,
        "an event, a failure, and time that is not recorded",
        |shown| shown.has_part(&['┃', '╱']) || shown.cells.contains(&'●'),
    ),
];

/// Returns the lines for one key or sign.
pub(super) fn entry((key_text, tone): (&str, Tone), meaning: &str, width: u16) -> Vec<Line> {
    let keys = wrap(key_text, KEY_WIDTH, usize::MAX).into_iter();
    entry_of(keys.map(|key| Line::styled(key, tone)).collect(), meaning, width)
}

/// Returns the lines for what is drawn like this.
fn entry_of(keys: Vec<Line>, meaning: &str, width: u16) -> Vec<Line> {
    let mut texts = wrap(meaning, width.saturating_sub(KEY_WIDTH + 3), usize::MAX).into_iter();
    let rows = keys.len().max(texts.len());
    let mut keys = keys.into_iter();
    let rows = (0..rows).map(|_| {
        let key = Line::new().gap(2).append(keys.next().unwrap_or_default());
        let text = texts.next().unwrap_or_default();
        key.append_at(KEY_WIDTH + 3, Line::styled(text, Tone::Plain))
    });
    rows.collect()
}
