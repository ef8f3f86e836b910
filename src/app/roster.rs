//! Whom to watch, of all that was typed.

use crate::app::Failure;
use crate::cli::Cli;
use crate::inventory::{InventoryError, Roster, groups_of_this_user};
use crate::nodeset;
use crate::transport::{Target, Transport};

/// Returns the nodes that were named, on the command line and by options.
pub(super) fn named(cli: &Cli, transport: &Transport, hosts: &[String]) -> Result<Roster, Failure> {
    let nodes = &cli.nodes;
    let mut roster = Roster::with_groups(groups_of_this_user());
    roster.add_arguments(hosts)?;
    if let Some(file) = &nodes.hosts_file {
        roster.add_file(file)?;
    }
    if let Some(file) = &nodes.mpi_hostfile {
        roster.add_mpi_file(file)?;
    }
    if let Some(pattern) = &nodes.ssh_config_hosts {
        roster.add_configured(transport.configured_hosts(), pattern)?;
    }
    roster.exclude(&nodes.exclude)?;
    // Whoever names nodes does not mean this machine instead.
    if roster.targets.is_empty() && (!hosts.is_empty() || nodes.names_nodes()) {
        return Err(InventoryError::NothingLeft.into());
    }
    Ok(roster)
}

/// Returns whom to watch, and what to call them: the folded hosts, or this machine.
pub(super) fn to_watch(
    cli: &Cli,
    transport: &Transport,
    hosts: &[String],
    is_local: bool,
) -> Result<(Vec<Target>, String), Failure> {
    let mut roster = named(cli, transport, hosts)?;
    let mut title = nodeset::fold(roster.targets.iter().map(|target| target.name.as_str()));
    if is_local || roster.targets.is_empty() {
        roster.add_local();
        title = if title.is_empty() {
            "this machine".to_owned()
        } else {
            format!("{title} and this machine")
        };
    }
    Ok((roster.targets, title))
}
