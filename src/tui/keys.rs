//! The key table: what each key does and where. Help and dispatch both read it.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::view::{Line, Step, Tone, View};

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
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
    /// Show a view.
    Show(View),
    /// Show the next view.
    NextView,
    /// Move in the list or table.
    Move(Step),
    /// Open the selected node, or put the cursor into its tables.
    Open,
    /// Take the cursor out of the tables, or go back.
    Back,
    /// Go to the node before.
    PreviousNode,
    /// Go to the node after.
    NextNode,
    /// Show or hide the process table.
    Processes,
    /// Go to the job before.
    PreviousJob,
    /// Go to the job after.
    NextJob,
}

/// Where a key means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Everywhere,
    Only(View),
    /// In every view besides this one.
    But(View),
}

/// A key, as far as we tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Plain(KeyCode),
    Control(char),
}

/// Some keys that do one thing.
#[derive(Debug)]
struct Binding {
    keys: &'static [Key],
    /// How the keys are written.
    written: &'static str,
    place: Place,
    action: Action,
    help: &'static str,
    /// Two words for the last line of the screen; none for keys everybody tries anyway.
    hint: Option<(&'static str, &'static str)>,
}

const fn letter(letter: char) -> Key {
    Key::Plain(KeyCode::Char(letter))
}

const FLEET: Place = Place::Only(View::Fleet);
const JOB: Place = Place::Only(View::Job);
const NODE: Place = Place::Only(View::Node);

const BINDINGS: &[Binding] = &[
    Binding {
        keys: &[Key::Plain(KeyCode::Enter)],
        written: "Enter",
        place: FLEET,
        action: Action::Open,
        help: "open the selected node",
        hint: Some(("Enter", "open")),
    },
    Binding {
        keys: &[Key::Plain(KeyCode::Up), letter('k'), letter('K')],
        written: "↑ k K",
        place: JOB,
        action: Action::PreviousJob,
        help: "previous job; with the cursor in the tables, up",
        hint: Some(("↑ ↓", "job")),
    },
    Binding {
        keys: &[Key::Plain(KeyCode::Down), letter('j'), letter('J')],
        written: "↓ j J",
        place: JOB,
        action: Action::NextJob,
        help: "next job; with the cursor in the tables, down",
        hint: None,
    },
    Binding {
        keys: &[Key::Plain(KeyCode::Left), letter('<'), letter(',')],
        written: "← < ,",
        place: JOB,
        action: Action::PreviousNode,
        help: "previous node of the job",
        hint: Some(("← →", "node")),
    },
    Binding {
        keys: &[Key::Plain(KeyCode::Right), letter('>'), letter('.')],
        written: "→ > .",
        place: JOB,
        action: Action::NextNode,
        help: "next node of the job",
        hint: None,
    },
    Binding {
        keys: &[Key::Plain(KeyCode::Enter)],
        written: "Enter",
        place: JOB,
        action: Action::Open,
        help: "put the cursor into the tables",
        hint: Some(("Enter", "select")),
    },
    Binding {
        keys: &[Key::Plain(KeyCode::Esc)],
        written: "Esc",
        place: JOB,
        action: Action::Back,
        help: "take the cursor out, then back to the fleet",
        hint: Some(("Esc", "back")),
    },
    Binding {
        keys: &[letter('o')],
        written: "o",
        place: JOB,
        action: Action::Show(View::Fleet),
        help: "overview: the fleet",
        hint: None,
    },
    Binding {
        keys: &[Key::Plain(KeyCode::Left), letter('<'), letter(',')],
        written: "← < ,",
        place: NODE,
        action: Action::PreviousNode,
        help: "previous node",
        hint: Some(("← →", "node")),
    },
    Binding {
        keys: &[Key::Plain(KeyCode::Right), letter('>'), letter('.')],
        written: "→ > .",
        place: NODE,
        action: Action::NextNode,
        help: "next node",
        hint: None,
    },
    Binding {
        keys: &[Key::Plain(KeyCode::Enter)],
        written: "Enter",
        place: NODE,
        action: Action::Open,
        help: "put the cursor into the tables",
        hint: Some(("Enter", "select")),
    },
    Binding {
        keys: &[Key::Plain(KeyCode::Esc)],
        written: "Esc",
        place: NODE,
        action: Action::Back,
        help: "take the cursor out, then back to the fleet",
        hint: Some(("Esc", "back")),
    },
    Binding {
        keys: &[letter('o')],
        written: "o",
        place: NODE,
        action: Action::Show(View::Fleet),
        help: "overview: the fleet",
        hint: None,
    },
    Binding {
        keys: &[letter('p')],
        written: "p",
        place: Place::Everywhere,
        action: Action::Processes,
        help: "processes on or off",
        hint: Some(("p", "processes")),
    },
    Binding {
        keys: &[Key::Plain(KeyCode::Up), letter('k')],
        written: "↑ k",
        place: Place::But(View::Job),
        action: Action::Move(Step::Up),
        help: "up",
        hint: None,
    },
    Binding {
        keys: &[Key::Plain(KeyCode::Down), letter('j')],
        written: "↓ j",
        place: Place::But(View::Job),
        action: Action::Move(Step::Down),
        help: "down",
        hint: None,
    },
    Binding {
        keys: &[Key::Plain(KeyCode::PageUp)],
        written: "PgUp",
        place: Place::Everywhere,
        action: Action::Move(Step::PageUp),
        help: "a page up",
        hint: None,
    },
    Binding {
        keys: &[Key::Plain(KeyCode::PageDown)],
        written: "PgDn",
        place: Place::Everywhere,
        action: Action::Move(Step::PageDown),
        help: "a page down",
        hint: None,
    },
    Binding {
        keys: &[Key::Plain(KeyCode::Home)],
        written: "Home",
        place: Place::Everywhere,
        action: Action::Move(Step::Home),
        help: "to the first row",
        hint: None,
    },
    Binding {
        keys: &[Key::Plain(KeyCode::End)],
        written: "End",
        place: Place::Everywhere,
        action: Action::Move(Step::End),
        help: "to the last row",
        hint: None,
    },
    Binding {
        keys: &[letter('1')],
        written: "1",
        place: Place::Everywhere,
        action: Action::Show(View::Fleet),
        help: "the fleet",
        hint: None,
    },
    Binding {
        keys: &[letter('2')],
        written: "2",
        place: Place::Everywhere,
        action: Action::Show(View::Job),
        help: "the selected job, where jobs are watched",
        hint: None,
    },
    Binding {
        keys: &[letter('3')],
        written: "3",
        place: Place::Everywhere,
        action: Action::Show(View::Node),
        help: "the selected node",
        hint: None,
    },
    Binding {
        keys: &[Key::Plain(KeyCode::Tab)],
        written: "Tab",
        place: Place::Everywhere,
        action: Action::NextView,
        help: "the next view",
        hint: Some(("Tab", "view")),
    },
    Binding {
        keys: &[letter('z')],
        written: "z",
        place: Place::Everywhere,
        action: Action::Freeze,
        help: "freeze the picture, and go on",
        hint: Some(("z", "freeze")),
    },
    Binding {
        keys: &[letter('w')],
        written: "w",
        place: Place::Everywhere,
        action: Action::Focus,
        help: "fast focus: sample the selected node faster",
        hint: Some(("w", "focus")),
    },
    Binding {
        keys: &[Key::Plain(KeyCode::F(5))],
        written: "F5",
        place: Place::Everywhere,
        action: Action::Refresh,
        help: "ask for everything, and try the nodes that are down",
        hint: Some(("F5", "retry")),
    },
    Binding {
        keys: &[letter('h'), letter('?'), Key::Plain(KeyCode::F(1))],
        written: "h ? F1",
        place: Place::Everywhere,
        action: Action::Help,
        help: "this help",
        hint: Some(("h", "help")),
    },
    Binding {
        keys: &[letter('q'), Key::Plain(KeyCode::F(10))],
        written: "q F10",
        place: Place::Everywhere,
        action: Action::Quit,
        help: "quit",
        hint: Some(("q", "quit")),
    },
    Binding {
        keys: &[Key::Control('c')],
        written: "Ctrl-C",
        place: Place::Everywhere,
        action: Action::Interrupt,
        help: "quit, as an interrupt",
        hint: None,
    },
    Binding {
        keys: &[Key::Control('z')],
        written: "Ctrl-Z",
        place: Place::Everywhere,
        action: Action::Suspend,
        help: "suspend; fg goes on",
        hint: None,
    },
    Binding {
        keys: &[Key::Control('l')],
        written: "Ctrl-L",
        place: Place::Everywhere,
        action: Action::Redraw,
        help: "draw the screen anew",
        hint: None,
    },
];

impl Place {
    fn holds(self, view: View) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Only(only) => only == view,
            Self::But(not) => not != view,
        }
    }
}

/// Returns what a key asks for in a view.
pub(crate) fn action(event: KeyEvent, view: View) -> Option<Action> {
    let key = key(event)?;
    let bound = |binding: &&Binding| binding.place.holds(view) && binding.keys.contains(&key);
    BINDINGS.iter().find(bound).map(|binding| binding.action)
}

fn key(event: KeyEvent) -> Option<Key> {
    let with = event.modifiers.difference(KeyModifiers::SHIFT);
    if let KeyCode::Char(letter) = event.code
        && with == KeyModifiers::CONTROL
    {
        return Some(Key::Control(letter.to_ascii_lowercase()));
    }
    with.is_empty().then_some(Key::Plain(event.code))
}

/// Returns the keys worth a place in the last line of a view, with their meaning.
pub(crate) fn hints(view: View) -> Vec<(&'static str, &'static str)> {
    let here = BINDINGS.iter().filter(|binding| binding.place.holds(view));
    here.filter_map(|binding| binding.hint).collect()
}

/// Returns the same for the help page.
pub(crate) fn help_hints() -> Vec<(&'static str, &'static str)> {
    vec![("↑ ↓", "scroll"), ("Esc", "close")]
}

/// From this width on, help stands in two columns.
const WIDE: u16 = 110;

/// Returns the help page: every key, and what the signs mean.
pub(crate) fn help(width: u16) -> Vec<Line> {
    let mut left = part("Everywhere", |place| matches!(place, Place::Everywhere | Place::But(_)));
    let mut right = part("Fleet", |place| place == FLEET);
    right.push(Line::new());
    right.extend(part("Job", |place| place == JOB));
    right.push(Line::new());
    right.extend(part("Node", |place| place == NODE));
    right.push(Line::new());
    right.extend(signs());
    if width < WIDE {
        left.push(Line::new());
        left.extend(right);
        return left;
    }
    let rows = left.len().max(right.len());
    left.resize(rows, Line::new());
    right.resize(rows, Line::new());
    let half = width / 2;
    left.into_iter()
        .zip(right)
        .map(|(left, right)| {
            let left = left.cut(half);
            let gap = half.saturating_sub(left.width());
            left.gap(gap).then(right)
        })
        .collect()
}

fn part(title: &str, holds: fn(Place) -> bool) -> Vec<Line> {
    let own = BINDINGS.iter().filter(|binding| holds(binding.place));
    let line = |binding: &Binding| {
        let keys = Line::new().gap(2).left(binding.written, 8, Tone::Accent);
        keys.gap(1).text(binding.help, Tone::Plain)
    };
    std::iter::once(Line::of(title, Tone::Strong)).chain(own.map(line)).collect()
}

fn signs() -> Vec<Line> {
    let line = |(sign, tone, meaning): &(&str, Tone, &str)| {
        Line::new().gap(2).left(sign, 8, *tone).gap(1).text(*meaning, Tone::Plain)
    };
    std::iter::once(Line::of("Signs", Tone::Strong)).chain(SIGNS.iter().map(line)).collect()
}

const SIGNS: &[(&str, Tone, &str)] = &[
    ("✗", Tone::Bad, "broken: a node that is down, a device that gives no numbers"),
    ("!", Tone::Warn, "look here: stale, throttled, a source in trouble"),
    ("–", Tone::Faint, "not known; on the row under the cursor the last line says why"),
    ("grey", Tone::Faint, "old numbers; AGE says how old"),
    ("!THERM", Tone::Warn, "slowed down by heat"),
    ("!PWR", Tone::Warn, "slowed down by the power supply"),
    ("ECC:N", Tone::Bad, "N uncorrected memory errors since the driver was loaded"),
];

#[cfg(test)]
mod tests {
    use super::*;

    const VIEWS: [View; 3] = [View::Fleet, View::Job, View::Node];

    #[test]
    fn no_key_means_two_things_in_one_view() {
        for view in VIEWS {
            let mut seen = Vec::new();
            for binding in BINDINGS.iter().filter(|binding| binding.place.holds(view)) {
                for key in binding.keys {
                    assert!(!seen.contains(&key), "{key:?} twice in {view:?}");
                    seen.push(key);
                }
            }
        }
    }

    #[test]
    fn keys_act_where_the_table_says() {
        let plain = |code| KeyEvent::new(code, KeyModifiers::NONE);
        for (event, view, expected) in [
            (plain(KeyCode::Char('q')), View::Fleet, Some(Action::Quit)),
            (plain(KeyCode::F(10)), View::Node, Some(Action::Quit)),
            (
                KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL),
                View::Node,
                Some(Action::Interrupt),
            ),
            (
                KeyEvent::new(KeyCode::Char('?'), KeyModifiers::SHIFT),
                View::Fleet,
                Some(Action::Help),
            ),
            (plain(KeyCode::Char('<')), View::Node, Some(Action::PreviousNode)),
            (plain(KeyCode::Char('<')), View::Fleet, None),
            (plain(KeyCode::Char('j')), View::Job, Some(Action::NextJob)),
            (plain(KeyCode::Char('j')), View::Fleet, Some(Action::Move(Step::Down))),
            (plain(KeyCode::Char('o')), View::Node, Some(Action::Show(View::Fleet))),
            (KeyEvent::new(KeyCode::Char('q'), KeyModifiers::ALT), View::Fleet, None),
        ] {
            assert_eq!(action(event, view), expected, "{event:?}");
        }
    }

    #[test]
    fn help_names_every_key() {
        assert!(help(80).len() > BINDINGS.len());
        assert!(help(160).len() < help(80).len());
        for view in VIEWS {
            assert!(hints(view).contains(&("q", "quit")));
        }
    }
}
