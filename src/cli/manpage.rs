//! Generates the manual page, shell completions and the version text from the parser's declaration.

use std::io::{self, Write};
use std::sync::LazyLock;

use clap::builder::StyledStr;
use clap::{Command, CommandFactory, Subcommand as _};
use clap_complete::aot;
use clap_mangen::Man;

use crate::cli::{Cli, CliCommand};
use crate::setting_table::settings;
use gtop_model::Vendor;

/// Shells with a completion script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shell {
    /// Install as ~/.local/share/bash-completion/completions/gtop
    Bash,
    /// Install as _gtop in a folder of $fpath
    Zsh,
    /// Install as ~/.config/fish/completions/gtop.fish
    Fish,
}

/// Writes the manual page, in roff.
pub(crate) fn write_man_page(out: &mut impl Write) -> io::Result<()> {
    let command = Cli::command();
    let page = Man::new(command.clone()).source(format!("gtop {}", env!("CARGO_PKG_VERSION")));
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    page.render_options_section(out)?;
    for sub in command.get_subcommands() {
        write_subcommand(sub, out)?;
    }
    page.render_extra_section(out)
}

/// Writes the section of a subcommand: its own options, without the global ones.
fn write_subcommand(command: &Command, out: &mut impl Write) -> io::Result<()> {
    let name = command.get_name();
    let about = command.get_about().map_or_else(String::new, StyledStr::to_string);
    let full_name = format!("gtop {name}");
    let page = Man::new(command.clone().bin_name(full_name).disable_help_flag(true));
    let mut text = Vec::new();
    page.render_synopsis_section(&mut text)?;
    page.render_options_section(&mut text)?;
    // Turns the sections into subsections.
    let text = String::from_utf8_lossy(&text).replace(".SH ", ".SS ");
    writeln!(out, ".SH \"GTOP {}\"\n{}", name.to_uppercase(), about.replace('\\', "\\\\"))?;
    out.write_all(text.as_bytes())
}

/// Writes a completion script.
pub(crate) fn write_completions(shell: Shell, out: &mut impl Write) -> io::Result<()> {
    let mut command = Cli::command();
    // clap_complete panics if writing fails.
    let mut text = Vec::new();
    match shell {
        Shell::Bash => aot::generate(aot::Bash, &mut command, "gtop", &mut text),
        Shell::Zsh => aot::generate(aot::Zsh, &mut command, "gtop", &mut text),
        Shell::Fish => aot::generate(aot::Fish, &mut command, "gtop", &mut text),
    }
    out.write_all(&text)
}

/// Returns the text of `--version`: version, commit, target, features.
///
/// A release build passes commit and target in environment variables; in a clone, `build.rs` finds the commit.
pub(super) fn long_version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        format!(
            "{}\ncommit:   {}\ntarget:   {}\nfeatures: {}",
            env!("CARGO_PKG_VERSION"),
            option_env!("GTOP_COMMIT").unwrap_or("unknown"),
            option_env!("GTOP_TARGET").map_or_else(target_triple, str::to_owned),
            features(),
        )
    });
    &TEXT
}

/// Names the features: every program has the same.
fn features() -> String {
    let devices = [Vendor::Nvidia, Vendor::Amd, Vendor::Google].map(Vendor::as_str);
    let transport = settings().find(|setting| setting.name == "transport");
    let transports = transport.map_or_else(Vec::new, |setting| setting.kind.choices());
    let transports: Vec<&str> =
        transports.iter().map(|choice| choice.name).filter(|name| *name != "auto").collect();
    // Of the subcommands alone: the whole command line has this text.
    let program = CliCommand::augment_subcommands(Command::new("gtop"));
    let commands: Vec<&str> = program.get_subcommands().map(Command::get_name).collect();
    let debug = if cfg!(debug_assertions) { "; debug assertions" } else { "" };
    format!(
        "devices of {}; transports {}; commands {}{debug}",
        devices.join(", "),
        transports.join(", "),
        commands.join(", ")
    )
}

/// Returns the target triple, as far as a crate can know it.
fn target_triple() -> String {
    let c_library = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
    format!("{}-unknown-{}-{c_library}", std::env::consts::ARCH, std::env::consts::OS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all commands, with global options.
    fn commands() -> Vec<Command> {
        let mut root = Cli::command();
        root.build();
        let subcommands =
            root.get_subcommands().filter(|command| command.get_name() != "help").cloned();
        let mut all: Vec<Command> = subcommands.collect();
        all.push(root);
        all
    }

    /// Returns all options shown in help, without duplicates.
    fn options() -> Vec<(Option<char>, String)> {
        let mut all: Vec<_> = commands()
            .iter()
            .flat_map(Command::get_arguments)
            .filter(|argument| !argument.is_hide_set())
            .filter_map(|argument| Some((argument.get_short(), argument.get_long()?.to_owned())))
            .collect();
        all.sort_unstable();
        all.dedup();
        assert!(all.len() > 15 && all.contains(&(Some('i'), "interval".to_owned())), "{all:?}");
        all
    }

    fn page() -> String {
        let mut out = Vec::new();
        write_man_page(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn script(shell: Shell) -> String {
        let mut out = Vec::new();
        write_completions(shell, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_manual_page_has_every_option_and_subcommand() {
        let page = page();
        let plain = page.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "");
        for (short, long) in options() {
            assert!(plain.contains(&format!("--{long}")), "--{long}");
            if let Some(short) = short {
                assert!(plain.contains(&format!("-{short}, --{long}")), "-{short}");
            }
        }
        for command in commands() {
            let name = command.get_name();
            let heading = format!(".SH \"GTOP {}\"", name.to_uppercase());
            assert!(name == "gtop" || page.contains(&heading), "{name}");
            assert!(plain.contains(&command.get_about().unwrap().to_string()), "{name}");
        }
        for heading in [".TH gtop 1", ".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", "EXIT STATUS"] {
            assert!(page.contains(heading), "{heading}");
        }
    }

    #[test]
    fn the_completions_have_every_option_and_subcommand() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for (short, long) in options() {
                let (before_short, before_long) =
                    if shell == Shell::Fish { ("-s ", "-l ") } else { ("-", "--") };
                assert!(script.contains(&format!("{before_long}{long}")), "{shell:?} --{long}");
                if let Some(short) = short {
                    assert!(
                        script.contains(&format!("{before_short}{short}")),
                        "{shell:?} -{short}"
                    );
                }
            }
            for command in commands() {
                assert!(script.contains(command.get_name()), "{shell:?} {}", command.get_name());
            }
        }
    }

    #[test]
    fn the_version_names_commit_target_and_features() {
        let lines: Vec<&str> = long_version().lines().collect();
        let [number, commit, target, features] = *lines else { panic!("{lines:?}") };
        assert_eq!(number, env!("CARGO_PKG_VERSION"));
        assert!(
            commit.starts_with("commit:   ")
                && features.starts_with("features: devices of nvidia, ")
        );
        for name in ["amd", "google", "native", "srun", "pick", "serve", "runs", "python"] {
            assert!(features.contains(name), "{name} in {features}");
        }
        assert!(
            target.contains(std::env::consts::ARCH) && target.contains("linux-gnu"),
            "{target}"
        );
        assert!(lines.iter().all(|line| line.split(':').next_back() != Some(" ")), "{lines:?}");
    }
}
