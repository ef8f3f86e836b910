//! Key schemes: the keys of other monitors as changes of the default keys, and an account of every key in the help of
//! those monitors.

use crate::key_scheme::KeyScheme;
use crate::keymap::schemes::foreign_key::Scheme;

pub(super) mod foreign_key;
mod htop;
mod nvitop;
mod nvtop;

static GTOP: Scheme = Scheme { changes: &[], keys: &[] };

/// Returns the tables of a scheme.
pub(super) const fn scheme(scheme: KeyScheme) -> &'static Scheme {
    match scheme {
        KeyScheme::Gtop => &GTOP,
        KeyScheme::Nvitop => &nvitop::SCHEME,
        KeyScheme::Nvtop => &nvtop::SCHEME,
        KeyScheme::Htop => &htop::SCHEME,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Action;
    use crate::input::Key;
    use crate::keymap::schemes::foreign_key::Here;
    use crate::keymap::{Keymap, bindings};
    use crate::view::View;
    use crate::views::processes;

    /// Returns the view of a binding and its action.
    fn binding(name: &str) -> (Option<View>, &'static Action) {
        let mut all =
            bindings::tables().flat_map(|(view, table)| table.iter().map(move |one| (view, one)));
        let (view, binding) = all.find(|(_, one)| one.name == name).expect(name);
        (view, &binding.action)
    }

    /// Returns the views in which a row must hold: that of the binding, or those of a machine and its processes.
    fn views(view: Option<View>) -> Vec<View> {
        view.map_or_else(|| vec![View::Node, View::Processes], |view| vec![view])
    }

    #[test]
    fn every_key_of_the_other_monitors_does_the_same_or_has_a_reason() {
        for name in [KeyScheme::Nvitop, KeyScheme::Nvtop, KeyScheme::Htop] {
            let keymap = Keymap::default().with_scheme(name);
            assert!(scheme(name).keys.len() >= 10, "{name:?}");
            for row in scheme(name).keys {
                let context = format!("{name:?} {}: {}", row.keys, row.does);
                match row.here {
                    Here::Bound(names) => {
                        for key in row.keys.split(' ') {
                            let key: Key = key.parse().expect(&context);
                            for binding_name in names {
                                let (view, action) = binding(binding_name);
                                for view in views(view) {
                                    let found = keymap.actions(key, view).next();
                                    assert_eq!(found, Some(action), "{context} in {view:?}");
                                }
                            }
                        }
                    }
                    Here::Sorts(column) => {
                        let columns = processes::sort_columns().into_iter();
                        let mut columns = columns.map(|one| name.process_sort_column(one));
                        let found = columns.find(|one| one.name == column).expect(&context);
                        assert_eq!(found.key.to_string(), row.keys, "{context}");
                    }
                    Here::Mouse => {}
                    Here::Differs(reason) => assert!(reason.len() > 10, "{context}"),
                }
            }
        }
    }

    #[test]
    fn the_list_of_jobs_is_sorted_by_the_keys_that_sort_nodes() {
        for name in KeyScheme::ALL {
            let keymap = Keymap::default().with_scheme(name);
            for binding_name in ["sort", "fleet.sort-next", "fleet.sort-previous", "fleet.reverse"]
            {
                let (_, action) = binding(binding_name);
                for key in keymap.keys_of(binding_name) {
                    let found = keymap.actions(*key, View::Job).next();
                    assert_eq!(found, Some(action), "{name:?} {key} of {binding_name}");
                }
            }
        }
    }

    #[test]
    fn the_key_that_texts_name_retries_in_every_scheme_where_nodes_are_shown() {
        for name in KeyScheme::ALL {
            let keymap = Keymap::default().with_scheme(name);
            for view in [View::Fleet, View::Job, View::Node, View::Events] {
                let found = keymap.actions(Key::Letter('R'), view).next();
                assert_eq!(found, Some(&Action::Refresh), "{name:?} in {view:?}");
            }
        }
    }

    #[test]
    fn schemes_name_bindings_and_keys_without_conflicts() {
        for name in KeyScheme::ALL {
            for (index, (changed, keys)) in scheme(name).changes.iter().enumerate() {
                binding(changed);
                for key in keys.split_whitespace() {
                    assert_eq!(key.parse::<Key>().map(|key| key.to_string()), Ok(key.to_owned()));
                }
                let rest = &scheme(name).changes[index + 1..];
                assert!(!rest.iter().any(|(again, _)| again == changed), "{name:?} {changed}");
            }
            assert_eq!(Keymap::default().with_scheme(name).check(), Ok(()), "{name:?}");
        }
    }

    #[test]
    fn a_key_without_an_action_tells_why() {
        let htop = Keymap::default().with_scheme(KeyScheme::Htop);
        let reason = htop.difference(Key::Letter('F')).unwrap();
        assert_eq!(reason, "F (the cursor follows its process): it always does");
        assert_eq!(htop.difference(Key::Letter('q')), None);
        assert_eq!(Keymap::default().difference(Key::Letter('F')), None);
    }

    #[test]
    fn letters_of_the_sort_menu_are_unique_in_every_scheme() {
        for name in KeyScheme::ALL {
            let columns = processes::sort_columns().into_iter();
            let mut letters: Vec<char> =
                columns.map(|column| name.process_sort_column(column).key).collect();
            letters.sort_unstable();
            assert!(letters.windows(2).all(|two| two[0] != two[1]), "{name:?} {letters:?}");
        }
    }
}
