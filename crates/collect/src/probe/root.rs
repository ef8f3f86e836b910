//! The probe as root: the command that sudo permits, the line that runs it, and the line of sudoers that permits it.
//!
//! The command is the same for every node and session of a version of gtop, and its loader runs nothing but the script
//! whose hash it is given. It ignores all variables of the caller and leaves the caller's folder before it imports anything
//! that could be found there. It has one space only, after its first word: sudo compares arguments joined by spaces, so
//! whoever may run it may also split it there, and the first word alone is no program.

use super::{Script, strip_unsafe};

/// The Pythons that are started as root, in order: paths that only root can change.
pub(super) const ROOT_PYTHONS: [&str; 2] = ["/usr/bin/python3", "/usr/libexec/platform-python"];

/// The loader: its arguments are the hash of the script, the number of its bytes, and what the probe may do.
const LOADER: &str = "import os,sys;caller=dict(os.environ);os.environ.clear();os.chdir(\"/\");\
    __import__(\"_signal\").alarm(30);h,n=sys.argv[1],int(sys.argv[2]);\
    os.write(1,(chr(10)+h+chr(10)).encode());b=os.read(0,n);\
    exec(\"while(len(b)<n):b+=os.read(0,n-len(b))or(os._exit(3))\");\
    (__import__(\"hashlib\").sha256(b).hexdigest()==h)or(sys.exit(\"gtop:not-the-permitted-script\"));\
    exec(b[:b.index(0)]);b=0;load(_p)";

/// Returns the command that sudo runs, without its Python: the option, the loader and the arguments.
pub(super) fn root_command(allows_signals: bool) -> [String; 5] {
    let script = Script::Python;
    let mode = if allows_signals { "allow-signals" } else { "read-only" };
    let size = script.size().to_string();
    ["-ISuc".to_owned(), LOADER.to_owned(), script.sha256(), size, mode.to_owned()]
}

/// Returns the line that the login shell prints before it starts sudo, which tells a refusal from a shell that ends.
pub(crate) fn sudo_mark(nonce: &str) -> String {
    format!("{} SUDO", strip_unsafe(nonce))
}

/// Returns the command that starts the loader as root, for any login shell; less than 1 KiB. See
/// `Greeting::of_root`.
pub fn root_launch_line(nonce: &str, allows_signals: bool) -> String {
    let [option, loader, hash, size, mode] = root_command(allows_signals);
    let loader = loader.replace('"', "\\\"");
    let (mark, nonce) = (sudo_mark(nonce), strip_unsafe(nonce));
    let pythons = ROOT_PYTHONS.join(" ");
    format!(
        "exec /bin/sh -c 'LC_ALL=C;export LC_ALL;for p in {pythons};do \
         if $p -IS -c \"import sys,zlib;sys.exit(sys.version_info<(3,6))\" </dev/null >/dev/null 2>&1;then \
         echo;echo {mark};exec sudo -n -- $p {option} \"{loader}\" {hash} {size} {mode};fi;done;\
         echo;echo \"{nonce} NOPY\"'"
    )
}

/// Returns the lines for sudoers that permit `user` to run the probe as root, and nothing else.
pub fn sudoers(user: &str, allows_signals: bool) -> String {
    let arguments = root_command(allows_signals).map(|word| escape_argument(&word)).join(" ");
    let commands = ROOT_PYTHONS.map(|python| format!("\\\n    {python} {arguments}"));
    format!("{user} ALL = (root) NOPASSWD: NOSETENV: {}\n", commands.join(", "))
}

/// Escapes what has a meaning in an argument of a command in sudoers.
fn escape_argument(word: &str) -> String {
    let mut escaped = String::new();
    for letter in word.chars() {
        if ",:=\\#*?[]!^".contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launch_line_is_short_and_safe_between_single_quotes() {
        for allows_signals in [false, true] {
            let line = root_launch_line("0123456789abcdef0123456789abcdef", allows_signals);
            assert!(line.len() < 1024, "{} bytes", line.len());
            assert_eq!(line.matches('\'').count(), 2);
            assert!(!line.contains(['\n', '!', '`']));
        }
    }

    #[test]
    fn the_command_is_one_that_cannot_be_split_into_another_program() {
        let [option, loader, hash, size, mode] = root_command(false);
        assert_eq!((loader.matches(' ').count(), loader.split(' ').next()), (1, Some("import")));
        assert!([option, hash, size, mode].iter().all(|word| !word.contains(' ')));
        assert_ne!(root_command(false), root_command(true));
    }

    #[test]
    fn sudoers_has_the_command_of_each_python_with_what_has_a_meaning_there_escaped() {
        let text = sudoers("ada", false);
        assert!(text.starts_with(
            "ada ALL = (root) NOPASSWD: NOSETENV: \\\n    /usr/bin/python3 -ISuc import os\\,sys;"
        ));
        assert_eq!(text.matches(" read-only").count(), 2);
        assert!(text.contains("exec(b\\[\\:b.index(0)\\]);b\\=0;load(_p) "), "{text}");
    }
}
