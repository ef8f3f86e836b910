//! A test case: files for a home directory, and the hosts to resolve.
//!
//! `hosts: [user@]host[:port]…` first; `later` on a line of its own where gtop accepts what OpenSSH
//! 9.2 refuses, `foreign` where only `ssh` can evaluate it. Then `--- NAME [MODE]` before each file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The files, and the hosts to resolve.
#[derive(Debug, Default)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) hosts: Vec<HostArg>,
    pub(crate) files: Vec<(String, u32, String)>,
    pub(crate) is_later: bool,
    pub(crate) needs_ssh: bool,
}

/// A host as typed.
#[derive(Debug, Clone)]
pub(crate) struct HostArg {
    pub(crate) name: String,
    pub(crate) user: Option<String>,
    pub(crate) port: Option<u16>,
}

impl HostArg {
    pub(crate) fn parse(text: &str) -> Self {
        let (user, address) = match text.split_once('@') {
            Some((user, address)) => (Some(user.to_owned()), address),
            None => (None, text),
        };
        let (name, port) = match address.split_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                (name, Some(port.parse().unwrap()))
            }
            _ => (address, None),
        };
        Self { name: name.to_owned(), user, port }
    }
}

impl Case {
    pub(crate) fn read(path: &Path) -> Self {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        Self { name, ..Self::parse(&fs::read_to_string(path).unwrap()) }
    }

    pub(crate) fn parse(text: &str) -> Self {
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
                case.hosts = hosts.split(' ').map(HostArg::parse).collect();
            } else if bare == "later" {
                case.is_later = true;
            } else if bare == "foreign" {
                case.needs_ssh = true;
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

    pub(crate) fn to_text(&self) -> String {
        let files = self.files.iter().map(|(name, _, text)| format!("--- {name}\n{text}\n"));
        files.collect()
    }
}

/// A temporary home directory with the files of a case.
pub(crate) struct Home(tempfile::TempDir);

impl Home {
    pub(crate) fn new(case: &Case) -> Self {
        let folder = tempfile::tempdir().unwrap();
        case.write(folder.path());
        Self(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}
