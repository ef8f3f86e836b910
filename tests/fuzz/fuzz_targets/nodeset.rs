//! Any text is a node set or an error; what a set stands for folds and expands to the same names.
#![no_main]

use gtop::nodeset::{expand, fold};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(mut names) = expand(text) else { return };
    // Letters that mean something in a set stand in no name of a node.
    names.retain(|name| !name.contains(|letter: char| "*?@!&^,[]:".contains(letter)));
    names.sort();
    let mut again = expand(&fold(&names)).expect("what was folded is a set");
    again.sort();
    assert_eq!(names, again);
});
