//! Lists of names, such as partitions and features of a node, and the limits of texts.

use std::sync::Arc;

use super::queue::is_empty_value;
use gtop_local::text::sanitize_shared;

/// Maximum length of a name of a partition or a feature, in characters.
pub(super) const MAX_NAME_CHARS: usize = 64;
/// Maximum length of the reason of a node's state, in characters.
const MAX_REASON_CHARS: usize = 256;
/// Maximum number of partitions, and of features, of a node.
pub(super) const MAX_WORDS: usize = 64;

/// Returns the reason of a node's state; `None` if there is none.
pub(super) fn reason(text: &str) -> Option<Arc<str>> {
    let is_known = !is_empty_value(text) && !text.eq_ignore_ascii_case("none");
    is_known.then(|| sanitize_shared(text, MAX_REASON_CHARS))
}

/// Returns the names in a list, such as partitions or features.
pub(super) fn words(list: &str) -> Vec<Arc<str>> {
    let words = list.split(',').map(str::trim).filter(|word| !is_empty_value(word));
    words.take(MAX_WORDS).map(|word| sanitize_shared(word, MAX_NAME_CHARS)).collect()
}
