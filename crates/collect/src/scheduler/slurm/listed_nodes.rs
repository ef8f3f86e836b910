//! Lists nodes for an examination.

use super::command::run_command_within;
use crate::scheduler::SchedulerError;
use crate::scheduler::examination::{EXAMINATION_TIMEOUT, ListedNode};

/// Runs `sinfo` for the states of nodes.
pub async fn fetch_listed_nodes() -> Result<Vec<ListedNode>, SchedulerError> {
    let words = ["--noheader", "--Node", "--format=%N|%T|%E"];
    let answer = run_command_within(EXAMINATION_TIMEOUT, "sinfo", &words, "").await?;
    Ok(answer.stdout.lines().filter_map(listed_node).collect())
}

/// Parses a line such as `gpu01|drained|ECC errors`.
fn listed_node(line: &str) -> Option<ListedNode> {
    let mut fields = line.splitn(3, '|').map(str::to_owned);
    let (name, state) = (fields.next()?, fields.next()?);
    let reason = fields.next().filter(|reason| !matches!(reason.as_str(), "" | "none"));
    Some(ListedNode { name, state, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_node_its_state_and_perhaps_a_reason() {
        let node = |name: &str, state: &str, reason: Option<&str>| {
            let (name, state) = (name.to_owned(), state.to_owned());
            Some(ListedNode { name, state, reason: reason.map(str::to_owned) })
        };
        let reason = Some("ECC errors, bad|PSU");
        assert_eq!(listed_node("a|drained|ECC errors, bad|PSU"), node("a", "drained", reason));
        assert_eq!(listed_node("a|idle|none"), node("a", "idle", None));
        assert_eq!(listed_node("Maintenance until 18:00"), None);
    }
}
