//! Command-line options generated from the table of settings, and their parsed values.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use clap::builder::{PossibleValue, PossibleValuesParser, ValueParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory as _};

use crate::cli::Cli;
use crate::config::{Flag, Problem, SETTINGS, Setting, SettingKind, SettingValue};

/// The settings given on the command line.
#[derive(Clone, Debug, Default)]
pub struct SettingArgs {
    /// Values by setting.
    pub values: BTreeMap<&'static str, SettingValue>,
    /// Hints about old names of values, which are still accepted.
    pub hints: Vec<Problem>,
}

impl clap::Args for SettingArgs {
    fn augment_args(command: Command) -> Command {
        SETTINGS.iter().fold(command, |command, setting| {
            let main = setting.has_option.then(|| option(setting));
            let off = (setting.has_option && matches!(setting.kind, SettingKind::Switch))
                .then(|| off_option(setting));
            let flags = setting.flags.iter().map(|one| flag_option(setting, one));
            command.args(main.into_iter().chain(off).chain(flags))
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
        for setting in SETTINGS {
            if let Some(value) = parsed_value(setting, matches)? {
                self.hints.extend(rename_hints(setting, matches));
                self.values.insert(setting.name, value);
            }
        }
        Ok(())
    }
}

/// Returns the option of a setting.
fn option(setting: &'static Setting) -> Arg {
    let arg = Arg::new(setting.name)
        .long(setting.name)
        .aliases(setting.aliases)
        .help(setting.help)
        .help_heading(setting.heading)
        .global(setting.is_global)
        .conflicts_with_all(setting.conflicts)
        .overrides_with_all(overridden_options(setting, setting.name));
    let arg = match setting.short {
        Some(short) => arg.short(short),
        None => arg,
    };
    let arg = match setting.kind {
        SettingKind::Switch => {
            return arg.action(ArgAction::SetTrue).hide(setting.is_on_by_default());
        }
        SettingKind::Choice(choices) => {
            let values = choices.iter().map(|choice| {
                let value = PossibleValue::new(choice.name).help(choice.help);
                value.aliases(
                    [choice.alias, choice.former].into_iter().filter(|name| !name.is_empty()),
                )
            });
            arg.value_parser(PossibleValuesParser::new(values))
        }
        SettingKind::PercentPair => arg.num_args(2).value_parser(parser(setting.kind)),
        SettingKind::List(_) | SettingKind::DistinctList(..) | SettingKind::Columns(_) => {
            arg.value_delimiter(',').action(ArgAction::Append).value_parser(parser(setting.kind))
        }
        SettingKind::Seconds { .. } | SettingKind::Count { .. } | SettingKind::Text(_) => {
            arg.value_parser(parser(setting.kind))
        }
    };
    let arg = arg.value_name(setting.value_name);
    let arg = match setting.default_missing_value {
        Some(bare) => arg.num_args(0..=1).require_equals(true).default_missing_value(bare),
        None => arg,
    };
    // Not clap's default: without the option, another source may set the value.
    if setting.default.is_empty() {
        arg
    } else {
        arg.help(format!("{} [default: {}]", setting.help, setting.default))
    }
}

/// Returns the option `--no-NAME` of a switch.
fn off_option(setting: &'static Setting) -> Arg {
    let id = off_id(setting);
    let help = if setting.off_help.is_empty() { setting.help } else { setting.off_help };
    Arg::new(id)
        .long(id)
        .help(help)
        .help_heading(setting.heading)
        .action(ArgAction::SetTrue)
        .hide(!setting.is_on_by_default())
        .overrides_with(setting.name)
}

/// Returns an option that sets one fixed value.
fn flag_option(setting: &'static Setting, flag: &'static Flag) -> Arg {
    let arg = Arg::new(flag.name)
        .long(flag.name)
        .help(flag.help)
        .help_heading(setting.heading)
        .action(ArgAction::SetTrue)
        .overrides_with_all(overridden_options(setting, flag.name));
    match flag.short {
        Some(short) => arg.short(short),
        None => arg,
    }
}

/// Returns the name `no-NAME`; clap requires it to be static.
fn off_id(setting: &Setting) -> &'static str {
    static NAMES: LazyLock<BTreeMap<&'static str, String>> = LazyLock::new(|| {
        SETTINGS.iter().map(|setting| (setting.name, format!("no-{}", setting.name))).collect()
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
    all.filter(move |name| *name != option || !is_list(setting))
}

fn is_list(setting: &Setting) -> bool {
    matches!(
        setting.kind,
        SettingKind::List(_) | SettingKind::DistinctList(..) | SettingKind::Columns(_)
    )
}

fn parser(kind: SettingKind) -> ValueParser {
    ValueParser::new(move |text: &str| kind.check_item(text).map(|()| text.to_owned()))
}

/// Returns a hint for each old name among the values of an option.
fn rename_hints(setting: &Setting, matches: &ArgMatches) -> Vec<Problem> {
    let values = matches.try_get_many::<String>(setting.name).ok().flatten();
    let values: Vec<&str> = values.into_iter().flatten().map(String::as_str).collect();
    let hint = |(old, new)| Problem::renamed(&format!("--{}", setting.name), old, new);
    setting.kind.former_names(&values).into_iter().map(hint).collect()
}

/// Returns the value given for a setting; `None` if there is none.
fn parsed_value(
    setting: &Setting,
    matches: &ArgMatches,
) -> Result<Option<SettingValue>, clap::Error> {
    let is_given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let flag = setting.flags.iter().find(|flag| is_given(flag.name));
    let text = if let Some(flag) = flag {
        flag.value.to_owned()
    } else if !setting.has_option {
        return Ok(None);
    } else if matches!(setting.kind, SettingKind::Switch) {
        if is_given(off_id(setting)) {
            "false".to_owned()
        } else if is_given(setting.name) {
            "true".to_owned()
        } else {
            return Ok(None);
        }
    } else if is_given(setting.name) {
        let values = matches.get_many::<String>(setting.name).into_iter().flatten();
        values.map(String::as_str).collect::<Vec<_>>().join(",")
    } else {
        return Ok(None);
    };
    setting.kind.parse(&text).map(Some).map_err(|why| {
        let message = format!("invalid value for '--{}': {why}", setting.name);
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
            ("gtop --mb --gib", vec![("units", "gib")]),
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
        for setting in SETTINGS.iter().filter(|setting| setting.has_option) {
            let shown = if setting.is_on_by_default() { off_id(setting) } else { setting.name };
            let arg = command.get_arguments().find(|arg| arg.get_long() == Some(shown)).unwrap();
            let help = if setting.off_help.is_empty() { setting.help } else { setting.off_help };
            assert!(arg.get_help().unwrap().to_string().starts_with(help), "{}", setting.name);
            assert_eq!(arg.get_help_heading(), Some(setting.heading));
            assert!(!arg.is_hide_set());
        }
        for setting in
            SETTINGS.iter().filter(|setting| !setting.has_option && setting.name != "hosts")
        {
            assert!(
                command.get_arguments().any(|arg| arg.get_long() == Some(setting.name)),
                "{}",
                setting.name
            );
        }
    }
}
