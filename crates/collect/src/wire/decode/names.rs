//! Interns names that are repeated in every sample, such as those of devices and interfaces.

use std::sync::Arc;

use gtop_local::text::sanitize_shared;

/// Maximum number of interned names per node.
const MAX_NAMES: usize = 512;

/// The names of one node, in the order of their first use.
#[derive(Clone, Debug, Default)]
pub(super) struct NameInterner {
    interned: Vec<Arc<str>>,
    /// Where the search for the next name starts: names come in a fixed order.
    next: usize,
}

impl NameInterner {
    /// Returns the sanitized name, at most `limit` characters long.
    pub(super) fn intern(&mut self, name: &str, limit: usize) -> Arc<str> {
        if name.len() > limit {
            return sanitize_shared(name, limit);
        }
        let mut indices =
            (self.next..self.interned.len()).chain(0..self.next.min(self.interned.len()));
        let known = indices.find_map(|index| {
            let interned = self.interned.get(index).filter(|interned| ***interned == *name)?;
            Some((index, Arc::clone(interned)))
        });
        if let Some((index, interned)) = known {
            self.next = index + 1;
            return interned;
        }
        let sanitized = sanitize_shared(name, limit);
        // Only names that needed no sanitizing can be found by their raw text again.
        if *sanitized == *name {
            if self.interned.len() >= MAX_NAMES {
                self.interned.clear();
            }
            self.interned.push(Arc::clone(&sanitized));
            self.next = self.interned.len();
        }
        sanitized
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_name_is_shared() {
        let mut names = NameInterner::default();
        let round = |names: &mut NameInterner| {
            ["eth0", "GPU-1", "GPU-2"].map(|name| names.intern(name, 32))
        };
        let first = round(&mut names);
        let again = round(&mut names);
        assert!(first.iter().zip(&again).all(|(one, other)| Arc::ptr_eq(one, other)));
        assert!(Arc::ptr_eq(&first[1], &names.intern("GPU-1", 32)));
        assert_eq!(first.map(|name| name.to_string()), ["eth0", "GPU-1", "GPU-2"]);
    }

    #[test]
    fn names_are_sanitized_and_their_number_is_bounded() {
        let mut names = NameInterner::default();
        for _ in 0..2 {
            assert_eq!(&*names.intern("\u{1b}[2Jeth0", 32), "[2Jeth0");
            assert_eq!(names.intern(&"x".repeat(99), 32).len(), 32);
        }
        for number in 0..5000 {
            let name = format!("GPU-{number}");
            assert_eq!(*names.intern(&name, 32), *name);
            assert!(names.interned.len() <= MAX_NAMES);
        }
        assert_eq!(&*names.intern("GPU-7", 3), "GPU");
        let long = "ж".repeat(20);
        let interned = names.interned.len();
        assert_eq!(*names.intern(&long, 32), *long);
        assert_eq!(names.interned.len(), interned);
    }
}
