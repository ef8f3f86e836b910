//! Names of users, as this machine itself knows them: a directory service may be slow.

use gtop_local::process::account::{Account, read_passwd};
use gtop_local::text::sanitize;

/// Returns the uid of this process, which stands for its user.
pub fn own_uid() -> String {
    rustix::process::getuid().as_raw().to_string()
}

/// Returns the name of this user; the uid where it is not known.
pub(super) fn own_user_name() -> String {
    sanitize(&Account::own().name.unwrap_or_else(own_uid), 40)
}

/// Returns the name of a user given by name or uid.
pub(super) fn user_name(user: &str) -> String {
    name_in(&read_passwd(), user).unwrap_or(user).to_owned()
}

/// Returns the name of a uid; a number that is a name is one.
fn name_in<'a>(passwd: &'a str, user: &str) -> Option<&'a str> {
    let by_field = [0, 2]
        .into_iter()
        .find_map(|field| passwd.lines().find(|entry| entry.split(':').nth(field) == Some(user)));
    by_field?.split(':').next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_name_or_the_uid_of_one() {
        const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000::/:\n1000:x:1001:1001::/:\n:x:7:7::/:\n";
        for (user, name) in [
            ("0", Some("root")),
            ("1001", Some("1000")),
            ("1000", Some("1000")),
            ("ada", Some("ada")),
            ("2000", None),
            ("7", None),
        ] {
            assert_eq!(name_in(PASSWD, user), name, "{user}");
        }
    }
}
