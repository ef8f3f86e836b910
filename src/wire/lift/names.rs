//! Names that come again with every sample, such as those of devices and interfaces: held once.

use std::sync::Arc;

use crate::model::sanitize_shared;

/// Most names of one node that are held.
const MOST: usize = 512;

/// The names a node told, in the order in which they came first.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    held: Vec<Arc<str>>,
    /// Where the next one is looked for first: they come in one order.
    next: usize,
}

impl Names {
    /// Returns the clean text of a name, at most `limit` letters of it.
    pub(super) fn hold(&mut self, name: &str, limit: usize) -> Arc<str> {
        if name.len() > limit {
            return sanitize_shared(name, limit);
        }
        let mut places = (self.next..self.held.len()).chain(0..self.next.min(self.held.len()));
        let known = places.find_map(|place| {
            let held = self.held.get(place).filter(|held| ***held == *name)?;
            Some((place, Arc::clone(held)))
        });
        if let Some((place, held)) = known {
            self.next = place + 1;
            return held;
        }
        let clean = sanitize_shared(name, limit);
        // What had to be cleaned is never found again.
        if *clean == *name {
            if self.held.len() >= MOST {
                self.held.clear();
            }
            self.held.push(Arc::clone(&clean));
            self.next = self.held.len();
        }
        clean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_comes_again_is_the_same_one() {
        let mut names = Names::default();
        let round = |names: &mut Names| ["eth0", "GPU-1", "GPU-2"].map(|name| names.hold(name, 32));
        let first = round(&mut names);
        let again = round(&mut names);
        assert!(first.iter().zip(&again).all(|(one, other)| Arc::ptr_eq(one, other)));
        assert!(Arc::ptr_eq(&first[1], &names.hold("GPU-1", 32)));
        assert_eq!(first.map(|name| name.to_string()), ["eth0", "GPU-1", "GPU-2"]);
    }

    #[test]
    fn a_name_is_clean_each_time_and_a_node_cannot_fill_the_memory_with_them() {
        let mut names = Names::default();
        for _ in 0..2 {
            assert_eq!(&*names.hold("\u{1b}[2Jeth0", 32), "[2Jeth0");
            assert_eq!(names.hold(&"x".repeat(99), 32).len(), 32);
        }
        for number in 0..5000 {
            let name = format!("GPU-{number}");
            assert_eq!(*names.hold(&name, 32), *name);
            assert!(names.held.len() <= MOST);
        }
        assert_eq!(&*names.hold("GPU-7", 3), "GPU");
        let long = "ж".repeat(20);
        let held = names.held.len();
        assert_eq!(*names.hold(&long, 32), *long);
        assert_eq!(names.held.len(), held);
    }
}
