//! The key table: what each key does and where. Dispatch, the last line of the screen, help and the
//! reference all read it; settings may bind other keys.

use std::fmt;

use crate::view::{Key, View, ViewAction, nearest};

mod events;
mod everywhere;
mod fleet;
pub(crate) mod help;
mod job;
mod node;
mod processes;
mod users;

/// What a key asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyAction {
    /// End gtop.
    Quit,
    /// End gtop as an interrupt does.
    Interrupt,
    /// Stop, to be continued by the shell.
    Suspend,
    /// Draw everything anew.
    Redraw,
    /// Show or hide help.
    Help,
    /// Let the picture stand, or go on.
    Freeze,
    /// Sample the selected node faster, or no longer.
    Focus,
    /// Ask every node for everything, and try the ones that are down.
    Refresh,
    /// Show or hide the setup pages.
    Setup,
    /// Write down what was set.
    Save,
    /// Type a filter.
    Filter,
    /// Show a view.
    Show(View),
    /// Show the next view.
    NextView,
    /// Show the view before.
    PreviousView,
    /// Something for a view.
    View(ViewAction),
}

/// Some keys that do one thing.
#[derive(Debug)]
pub(crate) struct Binding {
    /// How settings call it.
    name: &'static str,
    /// Its keys, unless settings say others; the one to be shown first.
    keys: &'static [Key],
    action: KeyAction,
    help: &'static str,
    /// Its place in the last line of the screen; none for keys everybody tries anyway.
    hint: Option<Hint>,
}

impl Binding {
    /// Says whether it changes something on nodes: their names begin so.
    fn changes_nodes(&self) -> bool {
        self.name.starts_with("signal")
    }
}

/// A word for the last line of the screen.
#[derive(Clone, Copy, Debug)]
struct Hint {
    meaning: &'static str,
    /// The name of a binding whose key stands beside this one's.
    paired_with: Option<&'static str>,
}

const fn hint(meaning: &'static str) -> Hint {
    Hint { meaning, paired_with: None }
}

const fn pair(meaning: &'static str, paired_with: &'static str) -> Hint {
    Hint { meaning, paired_with: Some(paired_with) }
}

/// The tables: where their keys mean something. A view's own come before those that hold everywhere.
const TABLES: [(Option<View>, &[Binding]); 7] = [
    (Some(View::Fleet), fleet::BINDINGS),
    (Some(View::Job), job::BINDINGS),
    (Some(View::Node), node::BINDINGS),
    (Some(View::Processes), processes::BINDINGS),
    (Some(View::Users), users::BINDINGS),
    (Some(View::Events), events::BINDINGS),
    (None, everywhere::BINDINGS),
];

/// Which keys do what.
#[derive(Clone, Debug)]
pub struct Keymap {
    /// Of each table, of each binding, its keys.
    keys: Vec<Vec<Vec<Key>>>,
}

/// Why keys cannot be bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeymapError {
    /// There is nothing of that name.
    #[error("unknown action {0:?}; did you mean {1}?")]
    Unknown(String, &'static str),
    /// Another binding of the same view has the key.
    #[error("{key} is bound to {one} and to {other}")]
    Conflict {
        /// The key.
        key: Key,
        /// What it does.
        one: &'static str,
        /// What it would do too.
        other: &'static str,
    },
    /// Nothing would end gtop.
    #[error("quit must have a key")]
    NoQuit,
}

impl Default for Keymap {
    fn default() -> Self {
        let own = |binding: &Binding| binding.keys.to_vec();
        Self { keys: TABLES.iter().map(|(_, table)| table.iter().map(own).collect()).collect() }
    }
}

impl Keymap {
    /// Returns the names of everything that can be bound, with its usual keys and what it does.
    pub fn names() -> impl Iterator<Item = (&'static str, &'static [Key], &'static str)> {
        let all = TABLES.iter().flat_map(|(_, table)| table.iter());
        all.map(|binding| (binding.name, binding.keys, binding.help))
    }

    /// Returns the same with where each holds.
    pub fn table()
    -> impl Iterator<Item = (&'static str, &'static str, &'static [Key], &'static str)> {
        TABLES.iter().flat_map(|(view, table)| {
            let place = view.map_or("Everywhere", View::title);
            table.iter().map(move |one| (place, one.name, one.keys, one.help))
        })
    }

    /// Binds other keys to what is called so; none for no key.
    pub fn bind(&mut self, name: &str, keys: Vec<Key>) -> Result<(), KeymapError> {
        let places = TABLES.iter().enumerate().flat_map(|(place, (_, table))| {
            table.iter().enumerate().map(move |(row, binding)| (place, row, binding.name))
        });
        let found = places.clone().find(|(_, _, known)| *known == name);
        let Some((table, row, _)) = found else {
            let nearest = nearest(name, places.map(|(_, _, known)| known)).unwrap_or("quit");
            return Err(KeymapError::Unknown(name.chars().take(40).collect(), nearest));
        };
        if let Some(slot) = self.keys.get_mut(table).and_then(|rows| rows.get_mut(row)) {
            *slot = keys;
        }
        Ok(())
    }

    /// Returns what has other keys than usual, with these keys as they are written.
    pub fn changed_bindings(&self) -> impl Iterator<Item = (&'static str, String)> {
        let tables = self.keys.iter().zip(TABLES);
        let rows = tables.flat_map(|(keys, (_, table))| keys.iter().zip(table));
        rows.filter(|(keys, binding)| keys.as_slice() != binding.keys).map(|(keys, binding)| {
            let keys: Vec<String> = keys.iter().map(Key::to_string).collect();
            (binding.name, keys.join(" "))
        })
    }

    /// Takes the keys away that change something on nodes.
    #[must_use]
    pub fn readonly(mut self) -> Self {
        for (rows, (_, table)) in self.keys.iter_mut().zip(TABLES) {
            let both = rows.iter_mut().zip(table);
            both.filter(|(_, binding)| binding.changes_nodes()).for_each(|(keys, _)| keys.clear());
        }
        self
    }

    /// Says what would make these keys a trap.
    pub fn check(&self) -> Result<(), KeymapError> {
        for (keys, (_, table)) in self.keys.iter().zip(TABLES) {
            let mut seen: Vec<(Key, &'static str)> = Vec::new();
            for (own, binding) in keys.iter().zip(table) {
                for key in own {
                    if let Some((_, one)) = seen.iter().find(|(known, _)| known == key) {
                        return Err(KeymapError::Conflict { key: *key, one, other: binding.name });
                    }
                    seen.push((*key, binding.name));
                }
            }
        }
        if self.keys_of("quit").is_empty() { Err(KeymapError::NoQuit) } else { Ok(()) }
    }

    /// Returns what a key asks for in a view, the view's own meaning first.
    pub(crate) fn actions(&self, key: Key, view: View) -> impl Iterator<Item = &'static KeyAction> {
        let rows = self.rows(view).filter(move |(keys, _)| keys.contains(&key));
        rows.map(|(_, binding)| &binding.action)
    }

    /// Returns the keys worth a place in the last line of a view, with their meaning.
    ///
    /// `word` may know a better one, or that the key does nothing now.
    pub(crate) fn hints(
        &self,
        view: View,
        word: impl Fn(&KeyAction, &'static str) -> Option<&'static str>,
    ) -> Vec<(String, &'static str)> {
        let hint = |(keys, binding): (&[Key], &'static Binding)| {
            let Hint { meaning, paired_with } = binding.hint?;
            let meaning = word(&binding.action, meaning)?;
            let mut written = key_text(*keys.first()?);
            if let Some(second) =
                paired_with.and_then(|paired_with| self.keys_of(paired_with).first())
            {
                written = format!("{written} {}", key_text(*second));
            }
            Some((written, meaning))
        };
        self.rows(view).filter_map(hint).collect()
    }

    /// Returns the first key of what is called so, as hints write it.
    pub(crate) fn key_text_of(&self, name: &str) -> Option<String> {
        self.keys_of(name).first().map(|key| key_text(*key))
    }

    fn rows(&self, view: View) -> impl Iterator<Item = (&[Key], &'static Binding)> {
        let tables = self.keys.iter().zip(&TABLES);
        let here = tables.filter(move |(_, (own, _))| own.is_none_or(|own| own == view));
        here.flat_map(|(keys, (_, table))| keys.iter().map(Vec::as_slice).zip(table.iter()))
    }

    fn keys_of(&self, name: &str) -> &[Key] {
        let tables = self.keys.iter().zip(&TABLES);
        let mut rows = tables.flat_map(|(keys, (_, table))| keys.iter().zip(table.iter()));
        rows.find(|(_, binding)| binding.name == name).map_or(&[], |(keys, _)| keys)
    }
}

/// Writes a key in few columns.
fn key_text(key: Key) -> String {
    let written = key.to_string();
    let arrow = match written.as_str() {
        "Up" => "↑",
        "Down" => "↓",
        "Left" => "←",
        "Right" => "→",
        _ => return written,
    };
    arrow.to_owned()
}

/// Writes all keys of a binding.
fn keys_text(keys: &[Key]) -> String {
    keys.iter().map(|key| key_text(*key)).collect::<Vec<_>>().join(" ")
}

impl fmt::Display for Keymap {
    /// Writes every key with what it does, a line each, in groups.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (keys, (view, table)) in self.keys.iter().zip(TABLES) {
            writeln!(f, "{}", view.map_or("Everywhere", View::title))?;
            for (keys, binding) in keys.iter().zip(table) {
                writeln!(f, "  {:24} {:16} {}", binding.name, keys_text(keys), binding.help)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{CommonAction, Movement, NamedKey, node};

    fn first(key: Key, view: View) -> Option<&'static KeyAction> {
        let keys = Keymap::default();

        keys.actions(key, view).next()
    }

    #[test]
    fn no_key_means_two_things_in_one_table() {
        assert_eq!(Keymap::default().check(), Ok(()));
    }

    #[test]
    fn names_are_taken_once() {
        let mut names: Vec<_> = Keymap::names().map(|(name, _, _)| name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
    }

    #[test]
    fn a_view_s_own_meaning_comes_first() {
        for (key, view, expected) in [
            (Key::Letter('q'), View::Fleet, Some(KeyAction::Quit)),
            (Key::Function(10), View::Node, Some(KeyAction::Quit)),
            (Key::Control('c'), View::Node, Some(KeyAction::Interrupt)),
            (Key::Letter('?'), View::Fleet, Some(KeyAction::Help)),
            (
                Key::Letter('<'),
                View::Node,
                Some(KeyAction::View(ViewAction::Node(node::Action::Previous))),
            ),
            (
                Key::Letter('j'),
                View::Fleet,
                Some(KeyAction::View(ViewAction::Common(CommonAction::Move(Movement::Down)))),
            ),
            (Key::Letter('o'), View::Node, Some(KeyAction::Show(View::Fleet))),
            (Key::Alt('q'), View::Fleet, None),
        ] {
            assert_eq!(first(key, view), expected.as_ref(), "{key}");
        }
        let keys = Keymap::default();
        assert_eq!(keys.actions(Key::Named(NamedKey::Up), View::Job).count(), 2);
    }

    #[test]
    fn keys_can_be_bound_to_something_else() {
        let mut keys = Keymap::default();
        keys.bind("freeze", vec![Key::Letter('F')]).unwrap();
        assert_eq!(keys.actions(Key::Letter('F'), View::Fleet).next(), Some(&KeyAction::Freeze));
        assert_eq!(keys.actions(Key::Letter('z'), View::Fleet).next(), None);
        let unknown = keys.bind("freze", Vec::new()).unwrap_err().to_string();
        assert_eq!(unknown, "unknown action \"freze\"; did you mean freeze?");
        keys.bind("help", vec![Key::Letter('F')]).unwrap();
        assert!(keys.check().unwrap_err().to_string().starts_with("F is bound to "));
        let mut keys = Keymap::default();
        keys.bind("quit", Vec::new()).unwrap();
        assert_eq!(keys.check(), Err(KeymapError::NoQuit));
    }

    #[test]
    fn every_view_says_how_to_leave_and_how_to_get_help() {
        for view in View::ALL {
            let hints = Keymap::default().hints(view, |_, usual| Some(usual));
            assert!(hints.contains(&("q".to_owned(), "quit")), "{hints:?}");
            assert!(hints.contains(&("h".to_owned(), "help")), "{hints:?}");
        }
    }
}
