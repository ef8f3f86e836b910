//! The filters used last, the newest first, as a file keeps them: one per line.

use crate::query::{Filter, MAX_FILTER_LENGTH};
use gtop_local::text::is_unprintable;

/// The maximum number of filters kept.
pub(super) const MAX_RECENT_FILTERS: usize = 50;

/// Puts a filter in front of the recent ones, where it stands once. Returns true if that changes anything.
pub fn remember_filter(recent: &mut Vec<String>, text: &str) -> bool {
    if !is_kept(text) || recent.first().is_some_and(|newest| newest == text) {
        return false;
    }
    recent.retain(|known| known != text);
    recent.insert(0, text.to_owned());
    recent.truncate(MAX_RECENT_FILTERS);
    true
}

/// Reads recent filters; ignores lines that are not one.
pub fn read_recent_filters(text: &str) -> Vec<String> {
    let mut recent: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| is_kept(line)) {
        if recent.len() < MAX_RECENT_FILTERS && !recent.iter().any(|known| known == line) {
            recent.push(line.to_owned());
        }
    }
    recent
}

fn is_kept(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_FILTER_LENGTH
        && !text.chars().any(is_unprintable)
        && Filter::new(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_filter_comes_first_and_none_is_kept_twice() {
        let mut recent = Vec::new();
        assert!(remember_filter(&mut recent, "free"));
        assert!(remember_filter(&mut recent, "busy"));
        assert!(!remember_filter(&mut recent, "busy"), "nothing has changed");
        assert!(remember_filter(&mut recent, "free"));
        assert_eq!(recent, ["free", "busy"]);
        assert!(!remember_filter(&mut recent, ""), "the empty filter is none");
        assert!(!remember_filter(&mut recent, "util<"), "a wrong one is none");
        for number in 0..200 {
            remember_filter(&mut recent, &format!("util<{number}"));
        }
        assert_eq!((recent.len(), recent[0].as_str()), (MAX_RECENT_FILTERS, "util<199"));
        assert_eq!(read_recent_filters(&recent.join("\n")), recent);
    }

    #[test]
    fn a_file_that_others_have_written_is_read_as_far_as_it_holds_filters() {
        let text = "free\n\nutil<\n free \nidle\n\u{1b}[31m\nx or y\n";
        assert_eq!(read_recent_filters(text), ["free", "x or y"]);
        assert_eq!(read_recent_filters(&"x".repeat(100_000)), [""; 0]);
        let many = (0..9_000).map(|number| format!("a{number}")).collect::<Vec<_>>().join("\n");
        assert_eq!(read_recent_filters(&many).len(), MAX_RECENT_FILTERS);
    }
}
