//! Parses `groups.conf` as Python's `configparser` does: sections, `key: value`, continuation lines.

use std::collections::BTreeMap;

/// Options by section; keys are lower-case, the last value counts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct GroupsConf(BTreeMap<String, BTreeMap<String, String>>);

impl GroupsConf {
    /// Merges the options of a file; the error is a line number, from 1.
    pub(super) fn merge(&mut self, text: &str) -> Result<(), usize> {
        let mut section: Option<String> = None;
        let mut key: Option<String> = None;
        for (at, line) in text.lines().enumerate() {
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))
                && !line.starts_with(char::is_whitespace)
            {
                self.0.entry(name.to_owned()).or_default();
                (section, key) = (Some(name.to_owned()), None);
                continue;
            }
            let options = section.as_ref().and_then(|name| self.0.get_mut(name)).ok_or(at + 1)?;
            let value = key.as_ref().and_then(|key| options.get_mut(key));
            if line.starts_with(char::is_whitespace)
                && let Some(value) = value
            {
                value.push('\n');
                value.push_str(trimmed);
                continue;
            }
            let end = trimmed.find([':', '=']).ok_or(at + 1)?;
            let (name, value) = trimmed.split_at(end);
            let name = name.trim().to_ascii_lowercase();
            options.insert(name.clone(), value.trim_start_matches([':', '=']).trim().to_owned());
            key = Some(name);
        }
        Ok(())
    }

    pub(super) fn get(&self, section: &str, key: &str) -> Option<&str> {
        self.0.get(section)?.get(key).map(String::as_str)
    }

    pub(super) fn sections(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_hold_options_and_a_later_one_counts() {
        let mut conf = GroupsConf::default();
        let text = "# c\n[Main]\nDefault: local\nautodir = /a\n  /b # kept\n\n[a,b]\nmap: x:y=z\n";
        conf.merge(text).unwrap();
        conf.merge("[Main]\ndefault: racks\n").unwrap();
        assert_eq!(conf.get("Main", "default"), Some("racks"));
        assert_eq!(conf.get("Main", "autodir"), Some("/a\n/b # kept"));
        assert_eq!(conf.get("a,b", "map"), Some("x:y=z"));
        assert_eq!(conf.sections().collect::<Vec<_>>(), ["Main", "a,b"]);
        for (text, line) in [("x: 1\n", 1), ("[a]\nword\n", 2), ("[a]\n\n[b\n", 3)] {
            assert_eq!(GroupsConf::default().merge(text), Err(line), "{text}");
        }
    }
}
