//! Random machines: what each device counts as, and which ones `gtop pick` may give away, follow from the facts of the
//! machine, described here without the rules of the program.

mod counts;
mod machine;
mod picks;
