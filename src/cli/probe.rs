//! The options of `gtop probe`.

use clap::{Args, ValueEnum};

/// Options of `gtop probe`.
#[derive(Debug, Args)]
pub(crate) struct ProbeOptions {
    /// Node to name in what is printed; it is not connected to
    #[arg(value_name = "HOST")]
    pub host: Option<String>,
    /// Write a script exactly as it is sent, so that sha256sum agrees
    #[arg(
        long,
        value_name = "WHICH",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "python",
        conflicts_with_all = ["readable", "sudoers", "json"]
    )]
    pub script: Option<ScriptChoice>,
    /// Write a script as text, with what is compressed in it decompressed
    #[arg(
        long,
        value_name = "WHICH",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "python",
        conflicts_with_all = ["sudoers", "json"]
    )]
    pub readable: Option<ScriptChoice>,
    /// Write the lines for sudoers that let USER (default: the login) run the probe as root, and nothing else
    #[arg(
        long,
        value_name = "USER",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = parse_user,
        conflicts_with = "json"
    )]
    pub sudoers: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// A script that runs on nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScriptChoice {
    /// The probe for Python 3.6 or newer
    Python,
    /// The probe for sh
    Shell,
    /// The script of gtop runs
    Runs,
}

/// Accepts a user, or a group as `%admin`.
fn parse_user(text: &str) -> Result<String, &'static str> {
    let name = text.strip_prefix('%').unwrap_or(text);
    let mut letters = name.chars();
    if letters.all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter))
        && name.len() <= 64
        && !name.starts_with('-')
    {
        return Ok(text.to_owned());
    }
    Err("expected the name of a user, or of a group after a %")
}
