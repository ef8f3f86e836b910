//! The keys of htop 3: its list of processes is that of the process view and of the node view.

use crate::keymap::schemes::foreign_key::Here::{Bound, Differs};
use crate::keymap::schemes::foreign_key::{ForeignKey, Scheme, foreign_keys};

pub(super) static SCHEME: Scheme = Scheme { changes: CHANGES, keys: KEYS };

const CHANGES: &[(&str, &str)] = &[
    ("up", "Up Alt-k"),
    ("down", "Down Alt-j"),
    ("refresh", "R Ctrl-R"),
    ("filter", "/ \\ F3 F4"),
    ("freeze", "Z z"),
    ("setup", "F2 C S"),
    ("sort", "F6 > ."),
    ("sort-pid", "N"),
    ("sort-cpu", "P"),
    ("sort-memory", "M"),
    ("sort-time", "T"),
    ("playback.previous-event", "Alt-n"),
    ("signals", "F9 k"),
    ("fleet.sort-next", ""),
    ("fleet.sort-previous", ","),
    ("fleet.reverse", "I"),
    ("job.previous", "Up K"),
    ("job.previous-node", "Left"),
    ("job.next-node", "Right"),
    ("job.sort-previous", ", <"),
    ("job.sort-next", ""),
    ("job.reverse", "I"),
    ("node.previous", "-"),
    ("node.next", "= +"),
    ("node.left", "Left"),
    ("node.right", "Right"),
    ("node.tree", "t F5"),
    ("node.reverse", "I"),
    ("signal-here.terminate", ""),
    ("signal-here.kill", ""),
    ("signal-here.interrupt", ""),
    ("processes.tree", "t F5"),
    ("processes.untag", "U"),
    ("processes.paths", "p"),
    ("processes.close-page", "q F10"),
    ("processes.sort-previous", ", <"),
    ("processes.sort-next", ""),
    ("processes.reverse", "I"),
    ("signal.terminate", ""),
    ("signal.kill", ""),
    ("signal.interrupt", ""),
    ("users.sort-next", ""),
    ("users.reverse", "I"),
];

const NO_PRIORITIES: &str = "gtop changes nothing on nodes but by signals, which it confirms";
const ON_DEVICES: &str = "gtop lists only the processes that use a device, whole";

const KEYS: &[ForeignKey] = foreign_keys! {
    "#" "hide the meters" =>
        Differs("c in the node view leaves one line per device, and two of the host");
    "Tab" "next screen" => Bound(&["next-view"]);
    "Shift-Tab" "previous screen" => Bound(&["previous-view"]);
    "Up" "previous process" => Bound(&["up"]);
    "Down" "next process" => Bound(&["down"]);
    "Left" "scroll left" => Bound(&["node.left", "processes.left"]);
    "Right" "scroll right" => Bound(&["node.right", "processes.right"]);
    "Space" "tag, and go to the next process" => Bound(&["node.tag", "processes.tag"]);
    "c" "tag a process and its children" => Differs("compact density; Space tags, in the tree too");
    "U" "untag all processes" => Bound(&["processes.untag"]);
    "0 1 2 3 4 5 6 7 8 9" "search a PID" => Differs("digits switch the views");
    "F3 /" "search by name" => Differs("filters, as F4 does: gtop has a filter, and no search");
    "F4 \\" "filter by name" => Bound(&["filter"]);
    "F5 t" "tree" => Bound(&["node.tree", "processes.tree"]);
    "p" "show the directories of programs" => Bound(&["processes.paths"]);
    "m" "merge program and command" => Differs("the command line is shown as it is");
    "Z" "pause or resume" => Bound(&["freeze"]);
    "u" "processes of one user" =>
        Differs("5 lists the users, -u NAME shows one; filter user=NAME for nodes");
    "H" "threads of programs" => Differs(ON_DEVICES);
    "K" "threads of the kernel" => Differs(ON_DEVICES);
    "F" "the cursor follows its process" => Differs("it always does");
    "+ - *" "fold the tree" => Differs("the tree is always unfolded; it lists one node");
    "N" "sort by PID" => Bound(&["sort-pid"]);
    "P" "sort by CPU" => Bound(&["sort-cpu"]);
    "M" "sort by memory" => Bound(&["sort-memory"]);
    "T" "sort by time" => Bound(&["sort-time"]);
    "I" "reverse the sort order" => Bound(&["node.reverse", "processes.reverse"]);
    "F6 > ." "sort menu" => Bound(&["sort"]);
    "F9 k" "choose a signal for the process or the tagged ones" => Bound(&["signals"]);
    "F7 ] F8 [" "priority" => Differs(NO_PRIORITIES);
    "a" "affinity to CPUs" => Differs(NO_PRIORITIES);
    "e" "environment" => Bound(&["node.environment", "processes.environment"]);
    "i" "priority of input and output" => Differs(NO_PRIORITIES);
    "l" "open files" => Differs("Enter shows how many files are open; lsof on the node lists them");
    "x" "locks of files" => Differs("lslocks on the node lists them; x plays a recording");
    "s" "system calls" => Differs("strace would change the process; s switches the scope");
    "w" "wrap the command" =>
        Differs("the last line has the whole command of the selected process");
    "F2 C S" "setup" => Bound(&["setup"]);
    "F1 h ?" "help" => Bound(&["help"]);
    "F10 q" "quit; leave a page" => Bound(&["processes.close-page"]);
};
