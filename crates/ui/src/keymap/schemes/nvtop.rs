//! The keys of nvtop and tputop: those of the line at the bottom and of the manual page.

use crate::keymap::schemes::foreign_key::Here::{Bound, Differs};
use crate::keymap::schemes::foreign_key::{ForeignKey, Scheme, foreign_keys};

pub(super) static SCHEME: Scheme = Scheme { changes: CHANGES, keys: KEYS };

const CHANGES: &[(&str, &str)] = &[
    ("help", "? F1"),
    ("fleet.left", "Left h"),
    ("fleet.right", "Right l"),
    ("job.previous-node", "Left h <"),
    ("job.next-node", "Right l >"),
    ("node.previous", "< ,"),
    ("node.next", "> ."),
    ("node.left", "Left h Alt-h"),
    ("node.right", "Right l Alt-l"),
    ("processes.left", "Left h Alt-h"),
    ("processes.right", "Right l Alt-l"),
];

const KEYS: &[ForeignKey] = foreign_keys! {
    "Up k" "previous process" => Bound(&["up"]);
    "Down j" "next process" => Bound(&["down"]);
    "Left h" "scroll the table left" => Bound(&["node.left", "processes.left"]);
    "Right l" "scroll the table right" => Bound(&["node.right", "processes.right"]);
    "F2" "setup" => Bound(&["setup"]);
    "F6" "sort menu" => Bound(&["sort"]);
    "F9" "choose a signal for the process" => Bound(&["signals"]);
    "F10 q" "quit" => Bound(&["quit"]);
    "F12" "save the setup" => Bound(&["save"]);
    "Esc" "quit" =>
        Differs("goes back by one step and never ends a watch of many nodes; F10 or q quit");
    "+ -" "ascending, descending order" =>
        Differs("every column starts in its useful order; \\, or an uppercase letter in the menu, reverses it");
    "Enter" "choose in a menu" => Bound(&["open"]);
};
