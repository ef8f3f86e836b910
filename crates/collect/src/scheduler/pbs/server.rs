//! Parses the output of `qstat -B -f -F json`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::read_json;
use super::resources::Text;
use crate::scheduler::SchedulerError;
use crate::scheduler::examination::ServerState;

#[derive(Deserialize)]
struct ServersOutput {
    pbs_version: Text,
    #[serde(rename = "Server")]
    servers: BTreeMap<String, PbsServer>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PbsServer {
    server_state: Text,
    query_other_jobs: Option<Text>,
}

/// Parses the output.
pub(super) fn parse(output: &str) -> Result<ServerState, SchedulerError> {
    let parsed: ServersOutput = read_json("qstat", output)?;
    let servers = parsed.servers.iter();
    let texts = servers.map(|(name, server)| format!("{name} is {}", &*server.server_state));
    let text = texts.collect::<Vec<_>>().join(", ");
    let is_open = parsed.servers.values().find_map(|server| server.query_other_jobs.as_deref());
    let text = format!("{text}; PBS {}", &*parsed.pbs_version);
    Ok(ServerState { text, hides_jobs: is_open.map(|is_open| is_open == "False") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_its_state_and_whether_it_hides_jobs() {
        let output =
            r#"{"pbs_version":"23.06.06","Server":{"pbs01":{"server_state":"Active"OTHER}}}"#;
        for (other, hides_jobs) in [
            ("", None),
            (r#","query_other_jobs":"True""#, Some(false)),
            (r#","query_other_jobs":"False""#, Some(true)),
        ] {
            let text = "pbs01 is Active; PBS 23.06.06".to_owned();
            let found = parse(&output.replace("OTHER", other)).unwrap();
            assert_eq!(found, ServerState { text, hides_jobs });
        }
        assert!(parse("{}").unwrap_err().message.ends_with("instead of JSON"));
    }
}
