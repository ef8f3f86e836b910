//! A test case: files for a home directory, and the hosts to resolve.
//!
//! `hosts: [user@]host[:port]…` first; `later` on a line of its own where gtop accepts what OpenSSH
//! 9.2 refuses, `foreign` where only `ssh` can evaluate it. Then `--- NAME [MODE]` before each file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What is read, and whom for.
#[derive(Debug, Default)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) asked: Vec<Asked>,
    pub(crate) files: Vec<(String, u32, String)>,
    pub(crate) is_later: bool,
    pub(crate) is_foreign: bool,
}

/// A host as typed.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) host: String,
    pub(crate) user: Option<String>,
    pub(crate) port: Option<u16>,
}

impl Asked {
    pub(crate) fn read(text: &str) -> Self {
        let (user, place) = match text.split_once('@') {
            Some((user, place)) => (Some(user.to_owned()), place),
            None => (None, text),
        };
        let (host, port) = match place.split_once(':') {
            Some((host, port)) if !port.contains(':') => (host, Some(port.parse().unwrap())),
            _ => (place, None),
        };
        Self { host: host.to_owned(), user, port }
    }
}

impl Case {
    pub(crate) fn read(path: &Path) -> Self {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        Self { name, ..Self::text(&fs::read_to_string(path).unwrap()) }
    }

    pub(crate) fn text(text: &str) -> Self {
        let mut case = Self::default();
        for line in text.split_inclusive('\n') {
            let bare = line.trim_end_matches('\n');
            if let Some(title) = bare.strip_prefix("--- ") {
                let (name, mode) = title.split_once(' ').unwrap_or((title, "600"));
                let mode = u32::from_str_radix(mode, 8).unwrap();
                case.files.push((name.to_owned(), mode, String::new()));
            } else if let Some((_, _, text)) = case.files.last_mut() {
                text.push_str(line);
            } else if let Some(hosts) = bare.strip_prefix("hosts: ") {
                case.asked = hosts.split(' ').map(Asked::read).collect();
            } else if bare == "later" {
                case.is_later = true;
            } else if bare == "foreign" {
                case.is_foreign = true;
            }
        }
        case
    }

    pub(crate) fn write(&self, folder: &Path) {
        for (name, mode, text) in &self.files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
        }
    }

    pub(crate) fn show(&self) -> String {
        let files = self.files.iter().map(|(name, _, text)| format!("--- {name}\n{text}\n"));
        files.collect()
    }
}

/// A home directory that goes away.
pub(crate) struct Home(tempfile::TempDir);

impl Home {
    pub(crate) fn of(case: &Case) -> Self {
        let folder = tempfile::tempdir().unwrap();
        case.write(folder.path());
        Self(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}
