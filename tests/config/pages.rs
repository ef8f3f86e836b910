//! The generated parts of docs/: settings, keys and metrics as tables in Markdown.

use std::fmt::Write as _;

use gtop::internals::export::{SampleColumn, sample_columns, sample_fields};
use gtop::internals::setting_table::settings;
use gtop_fleet::metrics::{Field, HOST, JOB, PROCESS, device_fields, unit_of};
use gtop_fleet::query::aliases;
use gtop_fleet::settings::{Choice as _, ColumnSpec, Setting, SettingKind};
use gtop_ui::{ChartMetric, ForeignKey, Here, KeyScheme, Keymap, processes};

/// Returns the table of settings in Markdown.
pub(crate) fn table_text() -> String {
    let mut text =
        String::from("| setting | option | description | default |\n|---|---|---|---|\n");
    for setting in settings() {
        let default = setting.default_value().map(|value| format!("`{}`", value.to_toml()));
        let default = default.unwrap_or_default();
        writeln!(
            text,
            "| `{}` | {} | {} | {default} |",
            setting.name,
            options_cell(setting),
            setting.help
        )
        .ok();
    }
    text
}

/// Returns the tables of metrics and of derived columns in Markdown.
pub(crate) fn metrics_text() -> String {
    let mut text = String::new();
    push_metrics(&mut text, "a device", device_fields());
    push_metrics(&mut text, "a process on a device", PROCESS.iter());
    push_metrics(&mut text, "a node", HOST.iter());
    push_metrics(&mut text, "a job", JOB.iter());
    text += "| columns of several metrics | table | what they show |\n|---|---|---|\n";
    for (table, headings) in tables() {
        for heading in headings.iter().filter(|one| !aliases().any(|alias| alias == one.name)) {
            writeln!(text, "| `{}` | {table} | {} |", heading.name, heading.help).ok();
        }
    }
    text
}

/// Returns the columns of exported tables with the default fields, in Markdown.
pub(crate) fn sample_columns_text() -> String {
    let fields = sample_fields(&[]).unwrap();
    let (wide, long) = (sample_columns(true, &fields), sample_columns(false, &fields));
    let has = |columns: &[SampleColumn], id: &str| columns.iter().any(|column| column.id == id);
    let mut text =
        String::from("\n| column | in tables | type | unit | meaning |\n|---|---|---|---|---|\n");
    let only_long = long.iter().filter(|column| !has(&wide, &column.id));
    for SampleColumn { id, kind, unit, help, is_required } in wide.iter().chain(only_long) {
        let tables = match (has(&wide, id), has(&long, id)) {
            (true, true) => "all",
            (true, false) => "wide",
            _ => "long",
        };
        let unknown = if *is_required { "" } else { "; may be unknown" };
        writeln!(text, "| `{id}` | {tables} | {}{unknown} | {unit} | {help} |", kind.name()).ok();
    }
    text + "\n"
}

/// Returns the tables whose columns can be chosen.
fn tables() -> impl Iterator<Item = (&'static str, Vec<ColumnSpec>)> {
    settings().filter_map(|setting| {
        Some((setting.name.strip_prefix("columns-")?, setting.kind.columns()))
    })
}

/// Returns the views that can be sorted by this column.
fn views_sorted_by(name: &str) -> impl Iterator<Item = &'static str> {
    settings().filter_map(move |setting| {
        let is_value = setting.kind.choices().iter().any(|choice| choice.name == name);
        setting.name.strip_prefix("sort-").filter(|_| is_value)
    })
}

fn push_metrics<S: 'static>(
    text: &mut String,
    owner: &str,
    fields: impl Iterator<Item = &'static Field<S>>,
) {
    writeln!(text, "| word | of {owner} | type | unit | JSON key | column of | sorts | chart |")
        .ok();
    text.push_str("|---|---|---|---|---|---|---|---|\n");
    for Field { alias, help, id, kind, .. } in fields {
        let columns = tables().filter(|(_, all)| all.iter().any(|one| one.name == *alias));
        let columns: Vec<_> = columns.map(|(table, _)| table).collect();
        let sorts: Vec<_> = views_sorted_by(alias).collect();
        let chart = if ChartMetric::from_name(alias).is_some() { "yes" } else { "" };
        writeln!(
            text,
            "| `{alias}` | {help} | {} | {} | `{id}` | {} | {} | {chart} |",
            kind.name(),
            unit_of(id),
            columns.join(", "),
            sorts.join(", ")
        )
        .ok();
    }
    text.push('\n');
}

/// Returns the table of key bindings in Markdown.
pub(crate) fn keys_text() -> String {
    let mut text = String::from("| keys | action | name in `[keys]` |\n|---|---|---|\n");
    let mut heading = "";
    for (view, name, keys, help) in Keymap::table() {
        if view != heading {
            heading = view;
            writeln!(text, "| **{view}** | | |").ok();
        }
        let keys: Vec<String> = keys.iter().map(|key| inline_code(&key.to_string())).collect();
        let keys = if keys.is_empty() { "–".to_owned() } else { keys.join(" ") };
        writeln!(text, "| {keys} | {} | `{name}` |", escape_cell(help)).ok();
    }
    text
}

/// Returns the table of the keys of another monitor in Markdown: with its scheme, and without.
pub(crate) fn foreign_keys_text(scheme: KeyScheme) -> String {
    let name = scheme.name();
    let mut text =
        format!("| {name} | what it does | with `--keys {name}` | without |\n|---|---|---|---|\n");
    for ForeignKey { keys, does, here } in Keymap::foreign_keys(scheme) {
        let is_sort = matches!(here, Here::Sorts(_));
        let code =
            |key: &str| inline_code(&if is_sort { format!("o{key}") } else { key.to_owned() });
        let is_mouse = matches!(here, Here::Mouse);
        let written: Vec<String> =
            keys.split(' ').map(|key| if is_mouse { key.to_owned() } else { code(key) }).collect();
        let (with, without) = match here {
            Here::Bound(names) => ("the same".to_owned(), default_keys(names)),
            Here::Sorts(column) => {
                ("the same".to_owned(), format!("`o{}`", default_letter(column)))
            }
            Here::Mouse => ("the same".to_owned(), "the same".to_owned()),
            Here::Differs(reason) => (escape_cell(reason), String::new()),
        };
        writeln!(text, "| {} | {} | {with} | {without} |", written.join(" "), escape_cell(does))
            .ok();
    }
    text
}

/// Returns the default keys of the last of these bindings, which is that of the process view.
fn default_keys(names: &[&str]) -> String {
    let name = names.last().unwrap();
    let (_, keys, _) = Keymap::names().find(|(known, ..)| known == name).unwrap();
    if keys.is_empty() {
        return "–".to_owned();
    }
    keys.iter().map(|key| inline_code(&key.to_string())).collect::<Vec<_>>().join(" ")
}

/// Returns the letter of a column in the sort menu of processes.
fn default_letter(column: &str) -> char {
    processes::sort_columns().into_iter().find(|one| one.name == column).unwrap().key
}

/// Formats a word as inline code; a bar is escaped, because it separates the cells of a table.
fn inline_code(word: &str) -> String {
    match word {
        "|" => "`\\|`".to_owned(),
        "`" => "`` ` ``".to_owned(),
        word => format!("`{word}`"),
    }
}

fn escape_cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

/// Returns the command-line options of a setting.
fn options_cell(setting: &Setting) -> String {
    let mut all = Vec::new();
    let value = match (setting.value_name, setting.default_missing_value) {
        ("", _) => String::new(),
        (name, None) => format!(" {name}"),
        (name, Some(_)) => format!("[={name}]"),
    };
    let value = if matches!(setting.kind, SettingKind::PercentPair) {
        format!("{value}{value}")
    } else {
        value
    };
    // Hosts are positional arguments, --record names a file, and what reports judge by has options there, if any.
    if !["hosts", "record"].contains(&setting.name) && !setting.name.starts_with("report-") {
        let short = setting.short.map(|short| format!("-{short} ")).unwrap_or_default();
        let no = if setting.is_on_by_default() { "no-" } else { "" };
        all.push(format!("`{short}--{no}{}{value}`", setting.option_name()));
    }
    for flag in setting.flags {
        let short = flag.short.map(|short| format!("-{short} ")).unwrap_or_default();
        all.push(format!("`{short}--{}`", flag.name));
    }
    all.join(" ")
}
