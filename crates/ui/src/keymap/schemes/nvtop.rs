//! The keys of nvtop and tputop: those of the line at the bottom and of the manual page.

use crate::keymap::schemes::foreign_key::{ForeignKey, Scheme, bound, differs};

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

const KEYS: &[ForeignKey] = &[
    bound("Up k", "previous process", &["up"]),
    bound("Down j", "next process", &["down"]),
    bound("Left h", "scroll the table left", &["node.left", "processes.left"]),
    bound("Right l", "scroll the table right", &["node.right", "processes.right"]),
    bound("F2", "setup", &["setup"]),
    bound("F6", "sort menu", &["sort"]),
    bound("F9", "choose a signal for the process", &["signals"]),
    bound("F10 q", "quit", &["quit"]),
    bound("F12", "save the setup", &["save"]),
    differs(
        "Esc",
        "quit",
        "goes back by one step and never ends a watch of many nodes; F10 or q quit",
    ),
    differs(
        "+ -",
        "ascending, descending order",
        "every column starts in its useful order; \\, or an uppercase letter in the menu, reverses it",
    ),
    bound("Enter", "choose in a menu", &["open"]),
];
