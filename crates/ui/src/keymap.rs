//! The key bindings. Key dispatch, the hints of the bottom line, the help page and the man page read the same
//! table; settings may bind other keys.

use std::fmt;

use crate::action::Action;
use crate::input::{Key, KeyParseError};
use crate::key_scheme::KeyScheme;
use crate::keymap::binding::{Binding, Hint, parse_keys};
use crate::view::View;
use gtop_fleet::query::nearest;
use gtop_fleet::settings::{Choice as _, KeyIssue, KeyReport, KeyRow, KeyTable};
use gtop_local::text::sanitize;
#[cfg(feature = "testing")]
pub use schemes::foreign_key::{ForeignKey, Here};

mod binding;
mod bindings;
mod schemes;

/// The bindings, for those who read and write files of settings.
pub const KEY_TABLE: KeyTable = KeyTable { actions, check };

fn actions() -> Vec<(KeyRow, &'static str)> {
    Keymap::names().map(|(name, keys, help)| (key_row(name, &keys), help)).collect()
}

fn check(rows: &[KeyRow], scheme: &str) -> KeyReport {
    let (keymap, issues) = Keymap::configured(rows, KeyScheme::of_word(scheme).unwrap_or_default());
    KeyReport { rows: keymap.changed_bindings().collect(), issues }
}

fn key_row(action: &str, keys: &[Key]) -> KeyRow {
    KeyRow { action: action.to_owned(), keys: keys.iter().map(Key::to_string).collect() }
}

/// Binding names of earlier versions, which config files may still use: former, current.
const FORMER_NAMES: [(&str, &str); 8] = [
    ("fleet.by", "fleet.next-metric"),
    ("fleet.by-before", "fleet.previous-metric"),
    ("fleet.group", "fleet.next-grouping"),
    ("fleet.group-before", "fleet.previous-grouping"),
    ("fleet.invert", "fleet.reverse"),
    ("job.measure", "job.next-metric"),
    ("processes.invert", "processes.reverse"),
    ("users.invert", "users.reverse"),
];

/// The keys of each binding, in the order of the tables.
#[derive(Clone, Debug)]
pub struct Keymap {
    bound: Vec<BoundKeys>,
    scheme: KeyScheme,
}

/// A binding and its keys.
#[derive(Clone, Debug)]
struct BoundKeys {
    /// The view in which it holds; `None` for all views.
    view: Option<View>,
    binding: &'static Binding,
    keys: Vec<Key>,
    /// True for keys of the config file.
    is_configured: bool,
}

impl BoundKeys {
    /// Returns true if the two hold in a common view.
    fn meets(&self, other: &Self) -> bool {
        self.view == other.view || self.view.is_none() || other.view.is_none()
    }
}

/// Why keys cannot be bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeymapError {
    /// No binding has this name.
    #[error("unknown action {0:?}; did you mean {1}?")]
    Unknown(String, &'static str),
    /// Another binding of the same view has the key.
    #[error("{key} is bound to {one} and to {other}")]
    Conflict {
        key: Key,
        /// What the key does already.
        one: &'static str,
        /// What it would also do.
        other: &'static str,
    },
    /// No key would quit gtop.
    #[error("quit must have a key")]
    NoQuit,
}

impl Default for Keymap {
    fn default() -> Self {
        let mut bound = Vec::new();
        for (view, table) in bindings::tables() {
            bound.extend(table.iter().map(|binding| BoundKeys {
                view,
                binding,
                keys: binding.default_keys(),
                is_configured: false,
            }));
        }
        Self { bound, scheme: KeyScheme::default() }
    }
}

impl Keymap {
    /// Returns each binding's name, default keys and description.
    pub fn names() -> impl Iterator<Item = (&'static str, Vec<Key>, &'static str)> {
        bindings::tables()
            .flat_map(|(_, table)| table)
            .map(|binding| (binding.name, binding.default_keys(), binding.help))
    }

    /// Returns the same, preceded by where the binding holds.
    #[cfg(feature = "testing")]
    pub fn table() -> impl Iterator<Item = (&'static str, &'static str, Vec<Key>, &'static str)> {
        bindings::tables().flat_map(|(view, table)| {
            let place = view.map_or("Everywhere", View::title);
            table.iter().map(move |one| (place, one.name, one.default_keys(), one.help))
        })
    }

    /// Returns the bindings of a scheme with those of a file on top, and what is wrong with rows of the file or outdated in
    /// them.
    pub fn configured(rows: &[KeyRow], scheme: KeyScheme) -> (Self, Vec<KeyIssue>) {
        let (mut keymap, mut issues) = (Self::default(), Vec::new());
        for (row, KeyRow { action, keys }) in rows.iter().enumerate() {
            let (text, is_error) = match keymap.bind_text(action, keys) {
                Err(why) => (why, true),
                Ok(Some(current)) => (format!("{action} is now called {current}"), false),
                Ok(None) => continue,
            };
            issues.push(KeyIssue { row, text, is_error });
        }
        let keymap = keymap.with_scheme(scheme);
        let problem = if rows.is_empty() { None } else { keymap.check().err() };
        issues.extend(problem.map(|why| KeyIssue {
            row: 0,
            text: why.to_string(),
            is_error: true,
        }));
        (keymap, issues)
    }

    /// Binds keys given as text; returns the current name if the given one is of an earlier version.
    fn bind_text(&mut self, name: &str, keys: &[String]) -> Result<Option<&'static str>, String> {
        let keys: Result<_, KeyParseError> = keys.iter().map(|key| key.parse()).collect();
        let keys = keys.map_err(|why| format!("{}: {why}", sanitize(name, 60)))?;
        self.bind(name, keys).map_err(|why| why.to_string())?;
        Ok(Self::current_name(name))
    }

    /// Returns the current name of a binding that has this name in earlier versions.
    fn current_name(former: &str) -> Option<&'static str> {
        FORMER_NAMES.iter().find(|(known, _)| *known == former).map(|(_, current)| *current)
    }

    /// Replaces the keys of a binding, called by its current or former name; an empty list unbinds it.
    pub fn bind(&mut self, name: &str, keys: Vec<Key>) -> Result<(), KeymapError> {
        let name = Self::current_name(name).unwrap_or(name);
        if let Some(found) = self.bound.iter_mut().find(|bound| bound.binding.name == name) {
            (found.keys, found.is_configured) = (keys, true);
            return Ok(());
        }
        let nearest = nearest(name, self.bound.iter().map(|bound| bound.binding.name));
        let name = name.chars().take(40).collect();
        Err(KeymapError::Unknown(name, nearest.unwrap_or("quit")))
    }

    /// Replaces the default keys by those of a scheme. Bindings of the config file stay, and have their keys for
    /// themselves.
    #[must_use]
    pub fn with_scheme(mut self, scheme: KeyScheme) -> Self {
        self.scheme = scheme;
        let configured: Vec<BoundKeys> =
            self.bound.iter().filter(|bound| bound.is_configured).cloned().collect();
        for (name, keys) in schemes::scheme(scheme).changes {
            let mut changed = self.bound.iter_mut().filter(|bound| !bound.is_configured);
            let Some(bound) = changed.find(|bound| bound.binding.name == *name) else { continue };
            bound.keys = parse_keys(keys);
            for other in &configured {
                if other.meets(bound) {
                    bound.keys.retain(|key| !other.keys.contains(key));
                }
            }
        }
        self
    }

    /// Returns why a key of the monitor that the scheme is named after does something else here.
    pub(crate) fn difference(&self, key: Key) -> Option<String> {
        schemes::scheme(self.scheme).keys.iter().find_map(|row| row.difference(key))
    }

    /// Returns the account of every key in the help of the monitor that a scheme is named after.
    #[cfg(feature = "testing")]
    pub fn foreign_keys(scheme: KeyScheme) -> &'static [ForeignKey] {
        schemes::scheme(scheme).keys
    }

    /// Returns the bindings of the config file.
    fn changed_bindings(&self) -> impl Iterator<Item = KeyRow> {
        let changed = self.bound.iter().filter(|bound| bound.is_configured);
        changed.map(|bound| key_row(bound.binding.name, &bound.keys))
    }

    /// Unbinds all actions that change something on nodes.
    #[must_use]
    pub fn readonly(mut self) -> Self {
        let changing = self.bound.iter_mut().filter(|bound| bound.binding.changes_nodes());
        changing.for_each(|bound| bound.keys.clear());
        self
    }

    /// Returns an error for conflicting keys, or if no key quits gtop.
    pub fn check(&self) -> Result<(), KeymapError> {
        let mut seen: Vec<(Option<View>, Key, &'static str)> = Vec::new();
        for BoundKeys { view, binding, keys, .. } in &self.bound {
            for key in keys {
                let known = seen.iter().find(|(place, known, _)| place == view && known == key);
                if let Some((_, _, one)) = known {
                    return Err(KeymapError::Conflict { key: *key, one, other: binding.name });
                }
                seen.push((*view, *key, binding.name));
            }
        }
        if self.keys_of("quit").is_empty() { Err(KeymapError::NoQuit) } else { Ok(()) }
    }

    /// Returns the actions of a key in a view, the view's own first.
    pub(crate) fn actions(&self, key: Key, view: View) -> impl Iterator<Item = &'static Action> {
        self.in_view(view).filter(move |one| one.keys.contains(&key)).map(|one| &one.binding.action)
    }

    /// Returns the hints of a view's bottom line: key and meaning.
    ///
    /// `meaning_of` may return a better meaning, or none if the key currently does nothing.
    pub(crate) fn hints(
        &self,
        view: View,
        meaning_of: impl Fn(&Action, &'static str) -> Option<&'static str>,
    ) -> Vec<(String, &'static str)> {
        let hints = self.in_view(view).filter_map(|BoundKeys { binding, keys, .. }| {
            let Hint { meaning, paired_with } = binding.hint?;
            let meaning = meaning_of(&binding.action, meaning)?;
            let mut written = keys.first()?.short_text();
            if let Some(second) = paired_with.and_then(|other| self.key_text_of(other)) {
                written = format!("{written} {second}");
            }
            Some((written, meaning))
        });
        hints.collect()
    }

    /// Returns the bindings of a view, or those of all views, that have keys, with these as text.
    pub(crate) fn bound_in(
        &self,
        view: Option<View>,
    ) -> impl Iterator<Item = (String, &'static Binding)> {
        let bound = self.bound.iter();
        let bound = bound.filter(move |bound| bound.view == view && !bound.keys.is_empty());
        bound.map(|bound| (keys_text(&bound.keys), bound.binding))
    }

    /// Returns the first key of a binding, as shown in hints.
    pub(crate) fn key_text_of(&self, name: &str) -> Option<String> {
        self.keys_of(name).first().map(|key| key.short_text())
    }

    fn in_view(&self, view: View) -> impl Iterator<Item = &BoundKeys> {
        self.bound.iter().filter(move |bound| bound.view.is_none_or(|own| own == view))
    }

    fn keys_of(&self, name: &str) -> &[Key] {
        let found = self.bound.iter().find(|bound| bound.binding.name == name);
        found.map_or(&[], |bound| &bound.keys)
    }
}

/// Returns all keys of a binding as text.
fn keys_text(keys: &[Key]) -> String {
    keys.iter().map(|key| key.short_text()).collect::<Vec<_>>().join(" ")
}

impl fmt::Display for Keymap {
    /// Lists each key and its description, grouped, one per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for group in self.bound.chunk_by(|one, next| one.view == next.view) {
            let view = group.first().and_then(|bound| bound.view);
            writeln!(f, "{}", view.map_or("Everywhere", View::title))?;
            for BoundKeys { binding, keys, .. } in group {
                writeln!(f, "  {:24} {:16} {}", binding.name, keys_text(keys), binding.help)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{FleetAction, NodeAction, RowAction, SortAction};
    use crate::input::NamedKey;
    use crate::widgets::list::Movement;

    fn first(key: Key, view: View) -> Option<&'static Action> {
        let keys = Keymap::default();

        keys.actions(key, view).next()
    }

    #[test]
    fn default_keys_are_keys_and_do_not_conflict() {
        let all = bindings::tables().flat_map(|(_, table)| table);
        for key in all.flat_map(|binding| binding.keys.split_whitespace()) {
            assert_eq!(key.parse::<Key>().map(|parsed| parsed.to_string()), Ok(key.to_owned()));
        }
        assert_eq!(Keymap::default().check(), Ok(()));
        for (view, digit) in View::ALL.into_iter().zip('1'..) {
            let shown = Keymap::default().actions(Key::Letter(digit), View::Fleet).next().cloned();
            assert_eq!(shown, Some(Action::Show(view)));
        }
    }

    #[test]
    fn keys_of_recordings_are_bound_to_nothing_else() {
        let all = || bindings::tables().flat_map(|(_, table)| table);
        let plays = |binding: &&Binding| binding.name.starts_with("playback.");
        let keys: Vec<Key> = all().filter(plays).flat_map(Binding::default_keys).collect();
        assert_eq!(keys.len(), 14);
        for key in keys {
            let users: Vec<&str> = all()
                .filter(|binding| binding.default_keys().contains(&key))
                .map(|binding| binding.name)
                .collect();
            assert_eq!(users.len(), 1, "{key}: {users:?}");
        }
    }

    #[test]
    fn former_names_lead_to_current_ones() {
        for (former, current) in FORMER_NAMES {
            let is_bound = |name: &str| Keymap::names().any(|(known, ..)| known == name);
            assert!(!is_bound(former) && is_bound(current), "{former} {current}");
        }
    }

    #[test]
    fn binding_names_are_unique() {
        let mut names: Vec<_> = Keymap::names().map(|(name, _, _)| name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
    }

    #[test]
    fn bindings_of_a_view_come_first() {
        for (key, view, expected) in [
            (Key::Letter('q'), View::Fleet, Some(Action::Quit)),
            (Key::Function(10), View::Node, Some(Action::Quit)),
            (Key::Control('c'), View::Node, Some(Action::Interrupt)),
            (Key::Letter('?'), View::Fleet, Some(Action::Help)),
            (Key::Letter('<'), View::Node, Some(Action::Node(NodeAction::Previous))),
            (Key::Letter('j'), View::Fleet, Some(Action::Rows(RowAction::Move(Movement::Down)))),
            (Key::Letter('o'), View::Node, Some(Action::Show(View::Fleet))),
            (Key::Alt('q'), View::Fleet, None),
        ] {
            assert_eq!(first(key, view), expected.as_ref(), "{key}");
        }
        let keys = Keymap::default();
        assert_eq!(keys.actions(Key::Named(NamedKey::Up), View::Job).count(), 2);
    }

    #[test]
    fn keys_can_be_rebound() {
        let mut keys = Keymap::default();
        keys.bind("freeze", vec![Key::Letter('F')]).unwrap();
        assert_eq!(keys.actions(Key::Letter('F'), View::Fleet).next(), Some(&Action::Freeze));
        assert_eq!(keys.actions(Key::Letter('z'), View::Fleet).next(), None);
        let unknown = keys.bind("freze", Vec::new()).unwrap_err().to_string();
        assert_eq!(unknown, "unknown action \"freze\"; did you mean freeze?");
        keys.bind("fleet.by", vec![Key::Letter('x')]).unwrap();
        let next_metric = Action::Fleet(FleetAction::NextMetric);
        assert_eq!(keys.actions(Key::Letter('x'), View::Fleet).next(), Some(&next_metric));
        keys.bind("help", vec![Key::Letter('F')]).unwrap();
        assert!(keys.check().unwrap_err().to_string().starts_with("F is bound to "));
        let mut keys = Keymap::default();
        keys.bind("quit", Vec::new()).unwrap();
        assert_eq!(keys.check(), Err(KeymapError::NoQuit));
    }

    #[test]
    fn keys_of_the_config_file_stand_above_those_of_a_scheme() {
        let mut keys = Keymap::default();
        keys.bind("filter", vec![Key::Letter('/')]).unwrap();
        keys.bind("freeze", vec![Key::Letter('F')]).unwrap();
        let keys = keys.with_scheme(KeyScheme::Nvitop);
        let first = |key: char| keys.actions(Key::Letter(key), View::Processes).next();
        assert_eq!(first('/'), Some(&Action::Filter));
        assert_eq!(first('F'), Some(&Action::Freeze));
        assert_eq!(first('\\'), Some(&Action::Sort(SortAction::Reverse)));
        assert_eq!(first('z'), None);
        let names: Vec<_> = keys.changed_bindings().map(|row| row.action).collect();
        assert_eq!(names, ["filter", "freeze"]);
        assert_eq!(keys.check(), Ok(()));
    }

    #[test]
    fn every_view_has_hints_for_quit_and_help() {
        for view in View::ALL {
            let hints = Keymap::default().hints(view, |_, usual| Some(usual));
            assert!(hints.contains(&("q".to_owned(), "quit")), "{hints:?}");
            assert!(hints.contains(&("h".to_owned(), "help")), "{hints:?}");
        }
    }
}
