//! What is printed about the command line: the manual page, completions for shells, the version.
//!
//! All of it is made from the parser's own declaration, so that nothing of it can be out of date.

use std::io::{self, Write};
use std::sync::LazyLock;

use clap::builder::StyledStr;
use clap::{Command, CommandFactory};
use clap_complete::aot;
use clap_mangen::Man;

use crate::cli::Cli;

/// The shells that can complete gtop's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shell {
    /// Bash
    Bash,
    /// Zsh
    Zsh,
    /// Fish
    Fish,
}

/// Prints the manual page, in roff.
pub fn man(out: &mut impl Write) -> io::Result<()> {
    let command = Cli::command();
    let page = Man::new(command.clone()).source(format!("gtop {}", env!("CARGO_PKG_VERSION")));
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    page.render_options_section(out)?;
    for sub in command.get_subcommands() {
        subcommand(sub, out)?;
    }
    page.render_extra_section(out)?;
    page.render_version_section(out)
}

/// Prints one subcommand with the options that only it has.
fn subcommand(command: &Command, out: &mut impl Write) -> io::Result<()> {
    let name = command.get_name();
    let about = command.get_about().map_or_else(String::new, StyledStr::to_string);
    let name_typed = format!("gtop {name}");
    let own = Man::new(command.clone().bin_name(name_typed).disable_help_flag(true));
    let mut text = Vec::new();
    own.render_synopsis_section(&mut text)?;
    own.render_options_section(&mut text)?;
    // Its sections stand below the subcommand's own.
    let text = String::from_utf8_lossy(&text).replace(".SH ", ".SS ");
    writeln!(out, ".SH \"GTOP {}\"\n{}", name.to_uppercase(), about.replace('\\', "\\\\"))?;
    out.write_all(text.as_bytes())
}

/// Prints what a shell needs to complete gtop's words.
pub fn completions(shell: Shell, out: &mut impl Write) -> io::Result<()> {
    let mut command = Cli::command();
    // clap_complete does not expect that writing can go wrong.
    let mut text = Vec::new();
    match shell {
        Shell::Bash => aot::generate(aot::Bash, &mut command, "gtop", &mut text),
        Shell::Zsh => aot::generate(aot::Zsh, &mut command, "gtop", &mut text),
        Shell::Fish => aot::generate(aot::Fish, &mut command, "gtop", &mut text),
    }
    out.write_all(&text)
}

/// Returns what `--version` says: version, commit, target, features.
///
/// What builds a release tells commit and target by the environment of the compiler.
pub(super) fn version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        format!(
            "{}\ncommit:   {}\ntarget:   {}\nfeatures: {}",
            env!("CARGO_PKG_VERSION"),
            option_env!("GTOP_COMMIT").unwrap_or("unknown"),
            option_env!("GTOP_TARGET").map_or_else(target, str::to_owned),
            if cfg!(debug_assertions) { "all, debug assertions" } else { "all" },
        )
    });
    &TEXT
}

/// Returns the target as far as the compiler tells it to a crate.
fn target() -> String {
    let c_library = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
    format!("{}-unknown-{}-{c_library}", std::env::consts::ARCH, std::env::consts::OS)
}
