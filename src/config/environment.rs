//! Reads settings from the environment: `GTOP_*` first, then the variables of other programs.

use super::file::Problem;
use super::kind::Value;
use super::setting::{EnvAlias, EnvMapping, Setting};
use super::table::SETTINGS;

/// A setting, its value, and the variable it comes from.
type EnvValue = (&'static str, Value, String);

/// Reads the variables of all settings. An invalid `GTOP_*` variable is an error; an invalid one of another
/// program is ignored, as that program does.
pub(super) fn read(
    variable: impl Fn(&str) -> Option<String>,
) -> (Vec<EnvValue>, Vec<Problem>, Vec<Problem>) {
    let given = |name: &str| variable(name).filter(|text| !text.is_empty());
    let (mut found, mut wrong, mut hints) = (Vec::new(), Vec::new(), Vec::new());
    for setting in SETTINGS {
        let own = setting.variable();
        if let Some(text) = given(&own) {
            match setting.kind.parse(&text) {
                Ok(value) => {
                    let words: Vec<&str> = text.split(',').map(str::trim).collect();
                    let renamed = setting.kind.former_names(&words);
                    let hint = |(old, new)| Problem::renamed(&own, old, new);
                    hints.extend(renamed.into_iter().map(hint));
                    found.push((setting.name, value, own));
                    continue;
                }
                Err(why) => wrong.push(Problem::of_variable(&own, &why)),
            }
        }
        let twin = setting.env_aliases.iter().find_map(|twin| {
            Some((read_alias(setting, *twin, &given(twin.variable)?)?, twin.variable))
        });
        if let Some((value, variable)) = twin {
            found.push((setting.name, value, variable.to_owned()));
        }
    }
    (found, wrong, hints)
}

fn read_alias(setting: &Setting, twin: EnvAlias, text: &str) -> Option<Value> {
    let read = |text: &str| setting.kind.parse(text).ok();
    match twin.mapping {
        EnvMapping::SameSyntax => read(text),
        EnvMapping::IfSet(value) => read(value),
        EnvMapping::IfNotZero(value) => read(value).filter(|_| text != "0"),
        EnvMapping::ListWords(words) => {
            let mut said = text.split(',').map(str::trim);
            let meant = said.find_map(|word| words.iter().find(|(known, _)| *known == word));
            meant.and_then(|(_, value)| read(value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
        let (found, wrong, _hints) = read(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned())
        });
        let found = found.iter().map(|(name, value, place)| format!("{name}={value} {place}"));
        (found.collect(), wrong.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn every_setting_has_a_variable() {
        for (variables, expected) in [
            (vec![("GTOP_INTERVAL", "0.5")], vec!["interval=0.5 GTOP_INTERVAL"]),
            (
                vec![("GTOP_GPU_UTIL_THRESH", "20,60")],
                vec!["gpu-util-thresh=20,60 GTOP_GPU_UTIL_THRESH"],
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
                found(&variables),
                (expected.iter().map(|one| (*one).to_owned()).collect(), vec![])
            );
        }
    }

    #[test]
    fn a_variable_of_ours_that_is_wrong_is_told_and_does_not_count() {
        let (found, wrong) = found(&[
            ("GTOP_INTERVAL", "soon"),
            ("GTOP_MONITOR", "big"),
            ("NVITOP_MONITOR_MODE", "full"),
        ]);
        assert_eq!(found, ["monitor=full NVITOP_MONITOR_MODE"]);
        assert!(
            wrong[0].starts_with("GTOP_INTERVAL: expected seconds between 0.05 and 3600"),
            "{wrong:?}"
        );
        assert_eq!(wrong.len(), 2);
    }
}
