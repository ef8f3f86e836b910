//! Fuzzes node sets: any text is a node set or an error, and its names are the same after folding and expanding.
#![no_main]

use gtop_model::nodeset::{expand, fold};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(mut names) = expand(text) else { return };
    // Characters with a meaning in node sets do not occur in node names.
    names.retain(|name| !name.contains(|character: char| "*?@!&^,[]:".contains(character)));
    names.sort();
    let mut refolded = expand(&fold(&names)).expect("a folded set expands");
    refolded.sort();
    assert_eq!(names, refolded);
});
