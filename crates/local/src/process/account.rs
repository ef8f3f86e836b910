//! The accounts of this process and of other users in `/etc/passwd`.
//!
//! `getpwuid` is not called: a directory service behind it can be slow or hang. `USER` and `LOGNAME` only stand in
//! for a name that `/etc/passwd` does not have: `sudo` and a change of user may keep those of before.

use std::path::PathBuf;

use rustix::process::getuid;

/// A user, as `/etc/passwd` or the environment gives it: not sanitized.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The login name.
    pub name: Option<String>,
    /// The home directory.
    pub home: Option<PathBuf>,
}

impl Account {
    /// Returns the account of this process.
    pub fn own() -> Self {
        Self::with_name(&read_passwd(), getuid().as_raw(), |name| std::env::var(name).ok())
    }

    /// Returns whose processes are this user's: the login name, and the uid unless `/etc/passwd` has a name for it.
    pub fn own_names() -> Vec<String> {
        Self::names(&read_passwd(), getuid().as_raw(), |name| std::env::var(name).ok())
    }

    fn names(passwd: &str, uid: u32, variable: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let is_listed = Self::in_passwd(passwd, uid).name.is_some();
        let number = (!is_listed).then(|| uid.to_string());
        Self::with_name(passwd, uid, variable).name.into_iter().chain(number).collect()
    }

    /// Returns the account of a uid, which has a name if there is any; `variable` reads an environment variable.
    fn with_name(passwd: &str, uid: u32, variable: impl Fn(&str) -> Option<String>) -> Self {
        let account = Self::in_passwd(passwd, uid);
        let mut variables = ["USER", "LOGNAME"].into_iter().filter_map(variable);
        let superuser = (uid == 0).then(|| "root".to_owned());
        let name = account.name.or_else(|| variables.find(|name| !name.is_empty())).or(superuser);
        Self { name, ..account }
    }

    /// Returns the account with a login name; empty if `/etc/passwd` has none.
    pub fn of_user(name: &str) -> Self {
        Self::with_field(&read_passwd(), 0, name)
    }

    fn in_passwd(passwd: &str, uid: u32) -> Self {
        Self::with_field(passwd, 2, &uid.to_string())
    }

    /// Returns the first account whose field at `index` is `value`.
    fn with_field(passwd: &str, index: usize, value: &str) -> Self {
        let mut entries = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let entry = entries.find(|fields| fields.get(index) == Some(&value)).unwrap_or_default();
        let [name, home] = [0, 5].map(|at| entry.get(at).filter(|text| !text.is_empty()));
        Self { name: name.map(|name| (*name).to_owned()), home: home.map(PathBuf::from) }
    }
}

/// Returns the text of `/etc/passwd`; its full names may be in any encoding.
pub fn read_passwd() -> String {
    String::from_utf8_lossy(&std::fs::read("/etc/passwd").unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_uid() {
        let passwd = "root:x:0:0::/root:/bin/sh\nbad\nada:x:1000:1000:Ada,,,:/home/ada:/bin/zsh\nx:x:7:7:::\n";
        for (uid, name, home) in
            [(1000, Some("ada"), Some("/home/ada")), (7, Some("x"), None), (8, None, None)]
        {
            let account = Account { name: name.map(str::to_owned), home: home.map(PathBuf::from) };
            assert_eq!(Account::in_passwd(passwd, uid), account);
        }
        let named = |passwd, uid, user: &str, logname: &str| {
            let variable =
                |name: &str| Some(if name == "USER" { user } else { logname }.to_owned());
            Account::with_name(passwd, uid, variable).name
        };
        for (passwd, uid, user, logname, name) in [
            (passwd, 1000, "", "", Some("ada")),
            (passwd, 0, "eve", "eve", Some("root")),
            (passwd, 8, "eve", "", Some("eve")),
            (passwd, 8, "", "eve", Some("eve")),
            (passwd, 8, "", "", None),
            ("", 0, "", "", Some("root")),
            ("", 0, "admin", "", Some("admin")),
        ] {
            assert_eq!(
                named(passwd, uid, user, logname).as_deref(),
                name,
                "{uid} {user} {logname}"
            );
        }
        // A user without any name is not without processes.
        for (uid, user, names) in
            [(1000, "eve", &["ada"][..]), (8, "eve", &["eve", "8"]), (8, "", &["8"])]
        {
            assert_eq!(Account::names(passwd, uid, |_| Some(user.to_owned())), names);
        }
        assert_eq!(Account::with_field(passwd, 0, "ada"), Account::in_passwd(passwd, 1000));
        assert_eq!(Account::with_field(passwd, 0, "eve"), Account::default());
    }
}
