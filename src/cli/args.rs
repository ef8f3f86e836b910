//! Command-line options generated from the table of settings, and their parsed values.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use clap::builder::{PossibleValue, PossibleValuesParser, ValueParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory as _};

use crate::cli::Cli;
use crate::config::renamed;
use crate::setting_table::{SECTIONS, settings};
use gtop_fleet::settings::{Setting, SettingKind, SettingValue};

/// The settings given on the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct SettingArgs {
    /// Values by setting.
    pub values: BTreeMap<&'static str, SettingValue>,
    /// Hints about old names of values, which are still accepted.
    pub hints: Vec<String>,
}

impl SettingArgs {
    /// Returns the options of some settings, for a subcommand that has only these.
    pub(super) fn args(heading: &'static str, settings: &'static [Setting]) -> Vec<Arg> {
        settings.iter().flat_map(options).map(|arg| arg.help_heading(heading)).collect()
    }

    /// Adds the settings given to a subcommand.
    pub(super) fn add(&mut self, other: &mut Self) {
        self.values.append(&mut other.values);
        self.hints.append(&mut other.hints);
    }
}

impl clap::Args for SettingArgs {
    fn augment_args(command: Command) -> Command {
        SECTIONS.iter().copied().fold(command, |command, (heading, settings)| {
            command.next_help_heading(heading).args(settings.iter().flat_map(options))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for SettingArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for setting in settings() {
            if let Some(value) = parsed_value(setting, matches)? {
                self.hints.extend(rename_hints(setting, matches));
                self.values.insert(setting.name, value);
            }
        }
        Ok(())
    }
}

/// Returns the options of a setting: its own, `--no-NAME` of a switch, and its flags.
fn options(setting: &'static Setting) -> impl Iterator<Item = Arg> {
    let is_switch = matches!(setting.kind, SettingKind::Switch);
    let main = setting.has_option.then(|| option(setting));
    let off = (setting.has_option && is_switch).then(|| {
        let help = if setting.off_help.is_empty() { setting.help } else { setting.off_help };
        let is_hidden = !setting.is_on_by_default();
        let option = fixed_option(off_id(setting), help).hide(is_hidden).global(setting.is_global);
        option.overrides_with(setting.name)
    });
    let flags = setting.flags.iter().map(move |flag| {
        let overridden = overridden_options(setting, flag.name);
        fixed_option(flag.name, flag.help).short(flag.short).overrides_with_all(overridden)
    });
    main.into_iter().chain(off).chain(flags)
}

/// Returns the option `--NAME` of a setting.
fn option(setting: &'static Setting) -> Arg {
    let arg = fixed_option(setting.name, setting.help)
        .long(setting.option_name())
        .short(setting.short)
        .aliases(setting.aliases)
        .global(setting.is_global)
        .conflicts_with_all(setting.conflicts)
        .overrides_with_all(overridden_options(setting, setting.name));
    if matches!(setting.kind, SettingKind::Switch) {
        return arg.hide(setting.is_on_by_default());
    }
    let is_list = setting.kind.is_list();
    let is_pair = matches!(setting.kind, SettingKind::PercentPair);
    let arg = arg
        .action(if is_list { ArgAction::Append } else { ArgAction::Set })
        .num_args(if is_pair { 2 } else { 1 })
        .value_delimiter(is_list.then_some(','))
        .value_parser(value_parser(setting.kind))
        .value_name(setting.value_name);
    let arg = match setting.default_missing_value {
        Some(bare) => arg.num_args(0..=1).require_equals(true).default_missing_value(bare),
        None => arg,
    };
    // Not clap's default: without the option, another source may set the value.
    if setting.default.is_empty() {
        arg
    } else {
        let default =
            if is_pair { setting.default.replace(',', " ") } else { setting.default.into() };
        arg.help(format!("{} [default: {default}]", setting.help))
    }
}

/// Returns an option without a value.
fn fixed_option(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).help(help).action(ArgAction::SetTrue)
}

/// Returns the name `no-NAME`; clap requires it to be static.
fn off_id(setting: &Setting) -> &'static str {
    static NAMES: LazyLock<BTreeMap<&'static str, String>> = LazyLock::new(|| {
        settings().map(|setting| (setting.name, format!("no-{}", setting.name))).collect()
    });
    NAMES.get(setting.name).map_or("", String::as_str)
}

/// Returns the other options of a setting, which this one overrides: the last one given wins.
fn overridden_options(
    setting: &'static Setting,
    option: &'static str,
) -> impl Iterator<Item = &'static str> {
    let is_switch = matches!(setting.kind, SettingKind::Switch);
    let off = is_switch.then(|| off_id(setting));
    let flags = setting.flags.iter().map(|flag| flag.name);
    let all = [setting.name].into_iter().chain(off).chain(flags);
    all.filter(move |name| *name != option || !setting.kind.is_list())
}

fn value_parser(kind: SettingKind) -> ValueParser {
    let choices = kind.choices();
    if choices.is_empty() {
        return ValueParser::new(move |text: &str| kind.check_item(text).map(|()| text.to_owned()));
    }
    let values = choices.into_iter().map(|choice| {
        let former = [choice.alias, choice.former].into_iter().filter(|name| !name.is_empty());
        PossibleValue::new(choice.name).help(choice.help).aliases(former)
    });
    PossibleValuesParser::new(values).into()
}

/// Returns a hint for each old name among the values of an option.
fn rename_hints(setting: &Setting, matches: &ArgMatches) -> Vec<String> {
    let values = matches.try_get_many::<String>(setting.name).ok().flatten();
    let values: Vec<&str> = values.into_iter().flatten().map(String::as_str).collect();
    let option = format!("--{}", setting.option_name());
    let names = setting.kind.former_names(&values).into_iter();
    names.map(|(old, new)| renamed(&option, old, new)).collect()
}

/// Returns true if an option is on the command line. A subcommand may have options of some settings only.
fn is_on_command_line(matches: &ArgMatches, id: &str) -> bool {
    matches.try_contains_id(id).is_ok()
        && matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// Returns the value given for a setting; `None` if there is none.
fn parsed_value(
    setting: &Setting,
    matches: &ArgMatches,
) -> Result<Option<SettingValue>, clap::Error> {
    let is_switch = matches!(setting.kind, SettingKind::Switch);
    let mut flags = setting.flags.iter();
    let text = if let Some(flag) = flags.find(|flag| is_on_command_line(matches, flag.name)) {
        flag.value.to_owned()
    } else if !setting.has_option {
        return Ok(None);
    } else if is_switch && is_on_command_line(matches, off_id(setting)) {
        "false".to_owned()
    } else if !is_on_command_line(matches, setting.name) {
        return Ok(None);
    } else if is_switch {
        "true".to_owned()
    } else {
        let values = matches.get_many::<String>(setting.name).into_iter().flatten();
        values.map(String::as_str).collect::<Vec<_>>().join(",")
    };
    setting.kind.parse(&text).map(Some).map_err(|why| {
        let message = format!("invalid value for '--{}': {why}", setting.option_name());
        Cli::command().error(ErrorKind::ValueValidation, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_settings(line: &str) -> BTreeMap<&'static str, String> {
        let cli = Cli::parse_args(line.split_whitespace().map(Into::into)).unwrap();
        cli.settings.values.iter().map(|(name, value)| (*name, value.to_string())).collect()
    }

    #[test]
    fn options_set_their_settings() {
        for (line, expected) in [
            ("gtop", vec![]),
            ("gtop -U", vec![("ascii", "true")]),
            ("gtop --no-unicode", vec![("ascii", "true")]),
            ("gtop --ascii --no-ascii", vec![("ascii", "false")]),
            ("gtop --no-mouse", vec![("mouse", "false")]),
            ("gtop --light", vec![("background", "light")]),
            ("gtop --light --theme mono", vec![("theme", "mono"), ("background", "light")]),
            ("gtop --theme hot --light", vec![("theme", "hot"), ("background", "light")]),
            ("gtop --light --background dark", vec![("background", "dark")]),
            ("gtop -m", vec![("monitor", "auto")]),
            ("gtop -m=full gpu01", vec![("monitor", "full")]),
            ("gtop --monitor=compact", vec![("monitor", "compact")]),
            ("gtop --gpu-util-thresh 20 60 gpu01", vec![("gpu-util-thresh", "20,60")]),
            (
                "gtop --mem-util-thresh 5 50 --no-mouse --mouse",
                vec![("mem-util-thresh", "5,50"), ("mouse", "true")],
            ),
            ("gtop -o 0,2 -o 5", vec![("only", "0,2,5")]),
            ("gtop -ov", vec![("only-visible", "true")]),
            ("gtop -c", vec![("process-type", "compute")]),
            ("gtop -c -G", vec![("process-type", "only-graphics")]),
            ("gtop gpu01 -u", vec![("user-processes", "@")]),
            ("gtop -u=ada,bob", vec![("user-processes", "ada,bob")]),
            ("gtop -p 1,2 --pid 3", vec![("pid", "1,2,3")]),
            ("gtop --no-gpu-name --gpu-uuid", vec![("gpu-name", "false"), ("gpu-uuid", "true")]),
            ("gtop --units mb --units gib", vec![("units", "gib")]),
            ("gtop --force-color --fahrenheit", vec![("color", "always"), ("fahrenheit", "true")]),
            ("gtop -i 1 -i 2", vec![("interval", "2")]),
            ("gtop --exec a,b x", vec![("exec", "a,b")]),
            (
                "gtop doctor -l ada --max-connecting 3",
                vec![("login", "ada"), ("max-connecting", "3")],
            ),
        ] {
            let expected = expected.into_iter().map(|(name, text)| (name, text.to_owned()));
            assert_eq!(parse_settings(line), expected.collect(), "{line}");
        }
    }

    #[test]
    fn every_option_has_the_help_of_its_setting() {
        let mut command = Cli::command();
        command.build();
        let settings_of = |(heading, settings): (&'static str, &'static [Setting])| {
            settings.iter().filter(|one| one.has_option).map(move |one| (heading, one))
        };
        for (heading, setting) in SECTIONS.iter().copied().flat_map(settings_of) {
            let shown =
                if setting.is_on_by_default() { off_id(setting) } else { setting.option_name() };
            let arg = command.get_arguments().find(|arg| arg.get_long() == Some(shown)).unwrap();
            let help = if setting.off_help.is_empty() { setting.help } else { setting.off_help };
            assert!(arg.get_help().unwrap().to_string().starts_with(help), "{}", setting.name);
            assert_eq!(arg.get_help_heading(), Some(heading));
            assert!(!arg.is_hide_set());
        }
        // Those of reports are options of a subcommand, if any.
        let has_own = |name: &str| name != "hosts" && !name.starts_with("report-");
        for setting in settings().filter(|setting| !setting.has_option && has_own(setting.name)) {
            assert!(
                command.get_arguments().any(|arg| arg.get_long() == Some(setting.name)),
                "{}",
                setting.name
            );
        }
    }
}
