//! Reads settings from the environment: `GTOP_*` first, then the variables of other programs.

use super::declared::Declared;
use super::file::renamed;
use gtop_fleet::settings::{EnvAlias, EnvMapping, Setting, SettingValue};

/// A setting, its value, and the variable it comes from.
type EnvValue = (&'static str, SettingValue, String);

/// Reads the variables of all settings. An invalid `GTOP_*` variable is an error; an invalid one of another
/// program is ignored, as that program does.
pub(super) fn read(
    declared: Declared,
    variable: impl Fn(&str) -> Option<String>,
) -> (Vec<EnvValue>, Vec<String>, Vec<String>) {
    let variable = |name: &str| variable(name).filter(|text| !text.is_empty());
    let (mut values, mut problems, mut hints) = (Vec::new(), Vec::new(), Vec::new());
    for setting in declared.settings() {
        let name = setting.variable();
        if let Some(text) = variable(&name) {
            match setting.kind.parse(&text) {
                Ok(value) => {
                    let words: Vec<&str> = text.split(',').map(str::trim).collect();
                    let names = setting.kind.former_names(&words).into_iter();
                    hints.extend(names.map(|(old, new)| renamed(&name, old, new)));
                    values.push((setting.name, value, name));
                    continue;
                }
                Err(why) => problems.push(format!("{name}: {why}; ignored")),
            }
        }
        let aliased = setting.env_aliases.iter().find_map(|alias| {
            Some((read_alias(setting, *alias, &variable(alias.variable)?)?, alias.variable))
        });
        if let Some((value, variable)) = aliased {
            values.push((setting.name, value, variable.to_owned()));
        }
    }
    (values, problems, hints)
}

fn read_alias(setting: &Setting, alias: EnvAlias, text: &str) -> Option<SettingValue> {
    let value = match alias.mapping {
        EnvMapping::SameSyntax => text,
        EnvMapping::IfNotZero(_) if text == "0" => return None,
        EnvMapping::IfSet(value) | EnvMapping::IfNotZero(value) => value,
        EnvMapping::ListWords(words) => {
            let mut listed = text.split(',').map(str::trim);
            listed.find_map(|word| words.iter().find(|(known, _)| *known == word))?.1
        }
    };
    setting.kind.parse(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting_table::DECLARED;

    fn read_variables(variables: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
        let (values, problems, _hints) = read(DECLARED, |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned())
        });
        let values = values.iter().map(|(name, value, origin)| format!("{name}={value} {origin}"));
        (values.collect(), problems)
    }

    #[test]
    fn every_setting_has_a_variable() {
        for (variables, expected) in [
            (vec![("GTOP_INTERVAL", "0.5")], vec!["interval=0.5 GTOP_INTERVAL"]),
            (
                vec![("GTOP_GPU_UTIL_THRESH", "20,60")],
                vec!["gpu-util-thresh=20,60 GTOP_GPU_UTIL_THRESH"],
            ),
            (
                vec![("GTOP_EXCLUDE", "gpu[1,3], n[2-4,7]x[0,1],c")],
                vec!["exclude=gpu[1,3],n[2-4,7]x[0,1],c GTOP_EXCLUDE"],
            ),
            (vec![("GTOP_ASCII", "1"), ("GTOP_THEME", "")], vec!["ascii=true GTOP_ASCII"]),
            (
                vec![("NVITOP_MONITOR_MODE", "compact, colorful,nonsense,light,readonly")],
                vec![
                    "background=light NVITOP_MONITOR_MODE",
                    "colorful=true NVITOP_MONITOR_MODE",
                    "readonly=true NVITOP_MONITOR_MODE",
                    "monitor=compact NVITOP_MONITOR_MODE",
                ],
            ),
            (
                vec![("NVITOP_MONITOR_THEME", "light")],
                vec!["background=light NVITOP_MONITOR_THEME"],
            ),
            (
                vec![("NVITOP_MONITOR_THEME", "light"), ("NVITOP_MONITOR_MODE", "full,dark")],
                vec!["background=dark NVITOP_MONITOR_MODE", "monitor=full NVITOP_MONITOR_MODE"],
            ),
            (
                vec![
                    ("NVITOP_GPU_UTILIZATION_THRESHOLDS", "5,50"),
                    ("NVITOP_MEMORY_UTILIZATION_THRESHOLDS", "0,150"),
                ],
                vec!["gpu-util-thresh=5,50 NVITOP_GPU_UTILIZATION_THRESHOLDS"],
            ),
            (vec![("NO_COLOR", "0")], vec!["color=never NO_COLOR"]),
            (vec![("CLICOLOR_FORCE", "0")], vec![]),
            (vec![("CLICOLOR_FORCE", "1")], vec!["color=always CLICOLOR_FORCE"]),
            (vec![("GTOP_COLOR", "auto"), ("NO_COLOR", "1")], vec!["color=auto GTOP_COLOR"]),
        ] {
            assert_eq!(
                read_variables(&variables),
                (expected.iter().map(|one| (*one).to_owned()).collect(), vec![])
            );
        }
    }

    #[test]
    fn an_invalid_gtop_variable_is_reported_and_ignored() {
        let (values, problems) = read_variables(&[
            ("GTOP_INTERVAL", "soon"),
            ("GTOP_MONITOR", "big"),
            ("NVITOP_MONITOR_MODE", "full"),
        ]);
        assert_eq!(values, ["monitor=full NVITOP_MONITOR_MODE"]);
        assert!(
            problems[0].starts_with("GTOP_INTERVAL: expected seconds between 0.05 and 3600"),
            "{problems:?}"
        );
        assert_eq!(problems.len(), 2);
    }
}
