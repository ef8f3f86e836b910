//! The keys of nvitop 1.7.2: its main screen is the node view, its process panel also the process view.

use crate::keymap::schemes::foreign_key::Here::{Bound, Differs, Mouse, Sorts};
use crate::keymap::schemes::foreign_key::{ForeignKey, Scheme, foreign_keys};

pub(super) static SCHEME: Scheme = Scheme { changes: CHANGES, keys: KEYS };

const CHANGES: &[(&str, &str)] = &[
    ("up", "Up Alt-k Shift-Tab"),
    ("down", "Down Alt-j Tab"),
    ("page-up", "PgUp [ Alt-K"),
    ("page-down", "PgDn ] Alt-J"),
    ("next-view", "v"),
    ("previous-view", "V"),
    ("filter", "F4"),
    ("refresh", "r R Ctrl-R F5"),
    ("fleet.sort-next", ". >"),
    ("fleet.sort-previous", ", <"),
    ("fleet.reverse", "/ \\"),
    ("job.previous-node", "Left"),
    ("job.next-node", "Right"),
    ("job.sort-previous", ", <"),
    ("job.sort-next", ". >"),
    ("job.reverse", "/ \\"),
    ("node.previous", "-"),
    ("node.next", "= +"),
    ("node.left", "Left Alt-h"),
    ("node.right", "Right Alt-l"),
    ("node.overview", ""),
    ("node.sort", "o"),
    ("node.sort-next", ". >"),
    ("node.sort-previous", ", <"),
    ("node.reverse", "/ \\"),
    ("signal-here.kill", "K k"),
    ("signal-here.interrupt-selected", "Ctrl-C"),
    ("processes.refresh", "r R Ctrl-R F5"),
    ("processes.close-page", "q Q"),
    ("processes.reverse", "/ \\"),
    ("signal.kill", "K k"),
    ("users.reverse", "/ \\"),
];

const KEYS: &[ForeignKey] = foreign_keys! {
    "a" "devices and host as high as fits" => Bound(&["node.auto", "processes.auto"]);
    "f" "two lines per device" => Bound(&["node.full", "processes.full"]);
    "c" "one line per device" => Bound(&["node.compact", "processes.compact"]);
    "r R Ctrl-R F5" "refresh" => Bound(&["processes.refresh"]);
    "h ?" "help" => Bound(&["help"]);
    "q Q" "leave a page; quit" => Bound(&["processes.close-page"]);
    "Up Alt-k Shift-Tab" "previous process" => Bound(&["up"]);
    "Down Alt-j Tab" "next process" => Bound(&["down"]);
    "Left Alt-h" "scroll commands left" => Bound(&["node.left", "processes.left"]);
    "Right Alt-l" "scroll commands right" => Bound(&["node.right", "processes.right"]);
    "Home" "first process" =>
        Differs("the first device, as the cursor moves over devices and processes");
    "End" "last process" => Bound(&["last"]);
    "Ctrl-A ^" "start of commands" => Bound(&["node.line-start", "processes.line-start"]);
    "Ctrl-E $" "end of commands" => Bound(&["node.line-end", "processes.line-end"]);
    "PgUp [ Alt-K PgDn ] Alt-J" "scroll the whole screen" =>
        Differs("a page of rows: gtop's screen always fits the terminal, its tables scroll");
    "Space" "tag, and go to the next process" => Bound(&["node.tag", "processes.tag"]);
    "Esc" "clear tags and selection" => Bound(&["back"]);
    "Ctrl-C" "interrupt the selected process" =>
        Bound(&["signal-here.interrupt-selected", "signal.interrupt-selected"]);
    "I" "interrupt" => Bound(&["signal-here.interrupt", "signal.interrupt"]);
    "T" "terminate" => Bound(&["signal-here.terminate", "signal.terminate"]);
    "K k" "kill" => Bound(&["signal-here.kill", "signal.kill"]);
    "e" "environment" => Bound(&["node.environment", "processes.environment"]);
    "t" "process tree" => Bound(&["node.tree", "processes.tree"]);
    "Enter" "metrics of the process" => Bound(&["open"]);
    ", <" "sort by the previous column" =>
        Bound(&["node.sort-previous", "processes.sort-previous"]);
    ". >" "sort by the next column" => Bound(&["node.sort-next", "processes.sort-next"]);
    "/" "reverse the sort order" => Bound(&["node.reverse", "processes.reverse"]);
    "o" "sort by the column of the next letter; uppercase reverses" =>
        Bound(&["node.sort", "processes.sort"]);
    "n" "natural order, by device" => Sorts("node");
    "p" "PID" => Sorts("pid");
    "u" "user" => Sorts("user");
    "g" "GPU-MEM" => Sorts("gpumem");
    "s" "%SM" => Sorts("psm");
    "b" "%GMBW" => Sorts("pmembw");
    "c" "%CPU" => Sorts("pcpu");
    "m" "%MEM" => Sorts("prss");
    "t" "time" => Sorts("time");
    "wheel" "scroll processes" => Mouse;
    "Shift-wheel" "scroll commands" => Mouse;
    "Ctrl-wheel" "five times as fast" => Mouse;
};
