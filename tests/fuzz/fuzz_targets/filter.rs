//! Fuzzes filters: any text is a filter or an error inside the text, and completing it does not fail.
#![no_main]

use gtop_fleet::Fleet;
use gtop_fleet::query::{Filter, complete};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let length = text.chars().count();
    if let Err(error) = Filter::new(text) {
        assert!(error.at <= length);
    }
    complete(text, length, &Fleet::default());
});
