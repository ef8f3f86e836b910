//! The files, kept as long as they stay what they are, and asked about one host after the other.

use std::net::ToSocketAddrs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::transport::files::lock;
use crate::transport::ssh_config::answers::Answers;
use crate::transport::ssh_config::read::{Places, Tree};
use crate::transport::ssh_config::{
    EffectiveOption, Family, Question, Settings, Stop, Surroundings, hosts, resolve, settings,
};

/// The machine's configuration; some vendors keep theirs apart from the administrator's.
const MACHINE_FILES: [&str; 2] = ["/etc/ssh/ssh_config", "/usr/etc/ssh/ssh_config"];

/// The files as they were read last.
#[derive(Debug, Default)]
pub(in crate::transport) struct Configuration(Mutex<Option<Arc<Reading>>>);

/// One reading of all files.
#[derive(Debug)]
pub(in crate::transport) struct Reading {
    /// Another number for every reading.
    pub(in crate::transport) version: u64,
    tree: Tree,
}

impl Configuration {
    /// Returns the files, read anew when one of them is another than last time.
    pub(in crate::transport) fn current(
        &self,
        around: &Surroundings,
        chosen: Option<&Path>,
    ) -> Arc<Reading> {
        let mut last = lock(&self.0);
        if let Some(reading) = &*last
            && reading.tree.is_current()
        {
            return Arc::clone(reading);
        }
        let version = last.as_ref().map_or(0, |reading| reading.version + 1);
        let tree = Tree::read(Places { around, chosen, machine: &MACHINE_FILES });
        let reading = Arc::new(Reading { version, tree });
        *last = Some(Arc::clone(&reading));
        reading
    }
}

/// Whether the names of hosts may be looked up; that can take long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::transport) enum LookUps {
    Not,
    Now,
}

impl Reading {
    /// Returns what holds for a host.
    pub(in crate::transport) fn settings(
        &self,
        question: &Question,
        around: &Surroundings,
        look_ups: LookUps,
    ) -> Result<Settings, Stop> {
        let answers = self.answers(question, around, look_ups)?;
        settings::of(&answers, question, around).map_err(Stop::Wrong)
    }

    /// Returns every option that holds for a host.
    pub(in crate::transport) fn options(
        &self,
        question: &Question,
        around: &Surroundings,
        look_ups: LookUps,
    ) -> Result<Vec<EffectiveOption>, Stop> {
        let answers = self.answers(question, around, look_ups)?;
        Ok(settings::effective(&answers, question, around))
    }

    /// Returns the hosts the files name, without wildcards.
    pub(in crate::transport) fn hosts(&self) -> Result<Vec<String>, Stop> {
        hosts::hosts(&self.tree)
    }

    fn answers(
        &self,
        question: &Question,
        around: &Surroundings,
        look_ups: LookUps,
    ) -> Result<Answers, Stop> {
        let has_address: Option<resolve::HasAddress<'_>> = match look_ups {
            LookUps::Not => None,
            LookUps::Now => Some(&has_address),
        };
        resolve::resolve(&self.tree, question, around, has_address)
    }
}

fn has_address(name: &str, family: Family) -> bool {
    let found = (name, 22).to_socket_addrs();
    found.is_ok_and(|mut found| {
        found.any(|address| match family {
            Family::Any => true,
            Family::Version4 => address.is_ipv4(),
            Family::Version6 => address.is_ipv6(),
        })
    })
}
