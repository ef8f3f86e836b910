//! Compares gtop's node sets with those of `ClusterShell` and Slurm.
//!
//! `ClusterShell` is called with the Python in `GTOP_CLUSTERSHELL`, or `python3`; Slurm with
//! `scontrol show hostnames`, which needs no controller. Tests are skipped without them. The random sets
//! are the same in every run.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use gtop_model::nodeset::{Groups, expand, expand_with, fold};

/// Number of random sets per comparison.
const COUNT: usize = 1000;

/// A Python program that answers `E set` with the names and `F names` with the folded set, one line each.
const NODESET_SERVER: &str = r"
import sys
from ClusterShell.NodeSet import NodeSet, NodeSetException
for line in sys.stdin:
    verb, text = line.rstrip('\n').split(' ', 1)
    try:
        found = NodeSet(text)
        print(' '.join(found) if verb == 'E' else str(found))
    except NodeSetException as error:
        print('!', error)
";

/// A pseudo-random generator with a fixed seed.
struct TestRng(u64);

impl TestRng {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn choose<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    /// One bracket: numbers and ranges of one or several widths.
    fn bracket(&mut self, has_steps: bool) -> String {
        let widths = [1, 1, 2, 3];
        let parts = (0..=self.below(3)).map(|_| {
            let width = widths[self.below(widths.len())];
            let from = self.below(if width == 1 { 120 } else { 9 });
            if self.below(2) == 0 {
                return format!("{from:0width$}");
            }
            // Both ends have as many digits where one is padded.
            let max = 10_usize.pow(u32::try_from(width).unwrap()) - 1;
            let to = from + self.below(30);
            let to = if width == 1 { to } else { to.min(max) };
            let step = if has_steps && self.below(4) == 0 {
                format!("/{}", 1 + self.below(4))
            } else {
                String::new()
            };
            format!("{from:0width$}-{to:0width$}{step}")
        });
        format!("[{}]", parts.collect::<Vec<_>>().join(","))
    }

    /// One name or one set with brackets, as `ClusterShell` writes them.
    fn element(&mut self) -> String {
        let mut text = self.choose(&["n", "gpu", "gpu-", "r", "a.b-", "x"]).to_owned();
        match self.below(4) {
            0 => {}
            1 => write!(text, "{}", self.below(30)).unwrap(),
            _ => {
                text.push_str(&self.bracket(true));
                if self.below(4) == 0 {
                    text.push_str(self.choose(&["n", "-c", "x"]));
                    text.push_str(&self.bracket(true));
                }
            }
        }
        if self.below(5) == 0 {
            text.push_str(self.choose(&["-ib", ".site", "-mgmt.example.org"]));
        }
        text
    }

    /// Elements connected by operators.
    fn set(&mut self) -> String {
        let mut text = self.element();
        for _ in 0..self.below(4) {
            text.push_str(self.choose(&[",", ",", "!", "&", "^", " ! ", ", "]));
            text.push_str(&self.element());
        }
        text
    }

    /// The same as Slurm reads it: no steps, no text after a bracket, no operations.
    fn slurm(&mut self) -> String {
        let elements = (0..=self.below(3)).map(|_| {
            let mut text = self.choose(&["n", "gpu", "gpu-", "r1n"]).to_owned();
            text.push_str(&self.bracket(false));
            if self.below(3) == 0 {
                text.push_str(self.choose(&["n", "-c", "x"]));
                text.push_str(&self.bracket(false));
            }
            text
        });
        elements.collect::<Vec<_>>().join(",")
    }
}

fn sorted(names: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    names.into_iter().collect()
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// Returns `ClusterShell`'s answers; prints the reason if there are none.
fn cluster_shell(questions: &[String], folder: Option<&std::path::Path>) -> Option<Vec<String>> {
    let python = std::env::var("GTOP_CLUSTERSHELL").unwrap_or_else(|_| "python3".to_owned());
    let mut command = Command::new(&python);
    if let Some(folder) = folder {
        command.env("CLUSTERSHELL_CFGDIR", folder);
    }
    let command = command.args(["-c", NODESET_SERVER]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = match command.stderr(Stdio::null()).spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("skipped: {python}: {error}");
            return None;
        }
    };
    let mut input = child.stdin.take().unwrap();
    let text = format!("{}\n", questions.join("\n"));
    // A Python without the library ends before it has read everything.
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()).ok());
    let output = child.wait_with_output().unwrap();
    drop(writer.join());
    if !output.status.success() {
        eprintln!(
            "skipped: {python} has no ClusterShell; pip install clustershell, and set GTOP_CLUSTERSHELL"
        );
        return None;
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(answers.len(), questions.len());
    Some(answers)
}

#[test]
fn random_sets_expand_as_in_cluster_shell() {
    let mut rng = TestRng(1);
    let sets: Vec<String> = (0..COUNT).map(|_| rng.set()).collect();
    let questions: Vec<String> = sets.iter().map(|set| format!("E {set}")).collect();
    let Some(answers) = cluster_shell(&questions, None) else { return };
    let mut agreed = 0;
    for (set, answer) in sets.iter().zip(&answers) {
        assert!(!answer.starts_with('!'), "{set}: {answer}");
        let ours = expand(set).unwrap_or_else(|error| panic!("{error:#}"));
        assert_eq!(sorted(ours), sorted(words(answer)), "{set}");
        agreed += 1;
    }
    eprintln!("{agreed} sets agree with ClusterShell");
}

/// Returns the digits of a name.
fn numbers(name: &str) -> Vec<&str> {
    let is_digit = |letter: char| letter.is_ascii_digit();
    name.split(|letter| !is_digit(letter)).filter(|digits| !digits.is_empty()).collect()
}

/// Returns true if no number is padded or all have the same width; otherwise `ClusterShell` may split a range
/// without need.
fn has_uniform_width(names: &[String]) -> bool {
    let all = || names.iter().flat_map(|name| numbers(name));
    let widths: BTreeSet<usize> = all().map(str::len).collect();
    widths.len() <= 1 || !all().any(|digits| digits.len() > 1 && digits.starts_with('0'))
}

#[test]
fn names_fold_as_in_cluster_shell() {
    let mut rng = TestRng(2);
    let lists = std::iter::repeat_with(|| expand(&rng.set()).unwrap());
    let lists: Vec<Vec<String>> = lists.filter(|names| !names.is_empty()).take(COUNT).collect();
    let folded: Vec<String> = lists.iter().map(fold).collect();
    let asked = lists.iter().zip(&folded);
    let questions: Vec<String> = asked
        .flat_map(|(names, folded)| [format!("F {}", names.join(",")), format!("E {folded}")])
        .collect();
    let Some(answers) = cluster_shell(&questions, None) else { return };
    let mut same = 0;
    for ((names, folded), answer) in lists.iter().zip(&folded).zip(answers.chunks(2)) {
        let [theirs, back] = answer else { panic!("{answer:?}") };
        assert_eq!(sorted(words(back)), sorted(names.clone()), "{folded}");
        assert_eq!(sorted(expand(theirs).unwrap()), sorted(names.clone()), "{theirs}");
        // Where names have one number, of one width if it is padded, there is one shortest way.
        if names.iter().all(|name| numbers(name).len() <= 1) && has_uniform_width(names) {
            assert_eq!(folded, theirs);
            same += 1;
        }
    }
    eprintln!("{} lists agree with ClusterShell, {same} of them letter by letter", lists.len());
    assert!(same > COUNT / 4);
}

#[test]
fn cluster_shell_s_errors_are_errors_except_for_slurm_s_syntax() {
    let refused = [
        "n[1",
        "n1]",
        "n[[1-2]]",
        "n[]",
        "n[a]",
        "n[1,,2]",
        "n[2-1]",
        "n[1-2/0]",
        "n[5/2]",
        "n[8-011]",
        "!n1",
        "n1!",
        "n1!!n2",
        "n1&^n2",
        "n[1-2]&",
        "n[01-010]",
    ];
    let taken = ["n1,", ",n1", "n1,,n2", "n[1-2][3-4]", "n[01-128]", "n[008-11]", "n0[9-10]"];
    let questions: Vec<String> =
        refused.iter().chain(&taken).map(|set| format!("E {set}")).collect();
    let Some(answers) = cluster_shell(&questions, None) else { return };
    for (question, answer) in questions.iter().zip(&answers) {
        assert!(answer.starts_with('!'), "{question}: {answer}");
    }
    assert!(refused.iter().all(|set| expand(set).is_err()));
    assert!(taken.iter().all(|set| expand(set).is_ok()));
}

#[test]
fn groups_expand_as_in_cluster_shell() {
    let folder = tempfile::tempdir().unwrap();
    let lists = folder.path().join("groups.d");
    std::fs::create_dir(&lists).unwrap();
    let conf = "[Main]\ndefault: local\nautodir: $CFGDIR/groups.d\n[local]\n\
        map: [ -f $CFGDIR/groups ] && f=$CFGDIR/groups || f=$CFGDIR/groups.d/local.cfg; sed -n 's/^$GROUP:\\(.*\\)/\\1/p' $f\n\
        all: [ -f $CFGDIR/groups ] && f=$CFGDIR/groups || f=$CFGDIR/groups.d/local.cfg; sed -n 's/^all:\\(.*\\)/\\1/p' $f\n";
    let local = "# c\nadm: example0\noss: example4 example5\nio: example[4-6]\ncompute: example[32-159]\n\
        gpu: example[156-159]\nall: example[4-6,32-159]\nmore: @gpu,@oss\nmore: adm1\n";
    let cluster = "roles:\n    adm: 'example0'\n    io: '@racks:rack2,example2' # c\n    compute: '@racks:rack[3-4]'\n    \
        gpu: '@racks:rack4'\n    all: '@io,@compute'\n\nracks:\n    rack1: 'example[0,2]'\n    rack2: 'example[4-5]'\n    \
        rack3: 'example[32-159]'\n    rack4: 'example[156-159]'\n    old: '@rack[1,3]'\n    new: '@rack[2,4]'\n    rack5:\n        \
        - 'example[200-205]'  # some comment about example[200-205]\n        - 'example245'\n        \
        - 'example300,example[401-406]'\n    rack6: [a, 'b', \"c\"]\n    rack7: a1\n      a2\n    rack8:\n    - d1\n    - d2\n    \
        nil:\n# c\ncpu:\n    ivy: 'example[32-63]'\n    hsw: '@roles:compute!@ivy'\n";
    std::fs::write(folder.path().join("groups.conf"), conf).unwrap();
    std::fs::write(lists.join("local.cfg"), local).unwrap();
    std::fs::write(lists.join("cluster.yaml"), cluster).unwrap();
    let sets = [
        "@gpu",
        "@oss,n1",
        "@compute!@gpu",
        "@compute&example[30-40]",
        "@local:io",
        "@roles:io",
        "@roles:compute",
        "@roles:*",
        "@racks:*",
        "@*",
        "@more",
        "@racks:rack[1-2]",
        "@racks:old^@racks:new",
        "@racks:rack5",
        "@racks:rack6",
        "@racks:rack7",
        "@racks:rack8",
        "@racks:nil,n1",
        "@cpu:hsw",
        "@cpu:*",
        "example15?",
        "example?!example4",
        "example*9",
    ];
    let questions: Vec<String> = sets.iter().map(|set| format!("E {set}")).collect();
    let Some(answers) = cluster_shell(&questions, Some(folder.path())) else { return };
    let groups = Groups::in_folders(vec![folder.path().to_owned()]);
    for (set, answer) in sets.iter().zip(&answers) {
        let ours = expand_with(set, &groups).unwrap_or_else(|error| panic!("{set}: {error:#}"));
        assert_eq!(sorted(ours), sorted(words(answer)), "{set}");
    }
}

/// Runs `scontrol show`; prints the reason if it cannot.
fn slurm(what: &str, set: &str, configuration: &std::path::Path) -> Option<String> {
    let command = Command::new("scontrol")
        .args(["show", what, set])
        .env("SLURM_CONF", configuration)
        .output();
    match command {
        Ok(output) => {
            assert!(output.status.success(), "{set}: {}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
        }
        Err(error) => {
            eprintln!("skipped: scontrol: {error}; install slurm-client");
            None
        }
    }
}

#[test]
fn random_sets_expand_as_in_slurm() {
    let folder = tempfile::tempdir().unwrap();
    let conf = folder.path().join("slurm.conf");
    let text = "ClusterName=x\nSlurmctldHost=localhost\nNodeName=n1\nPartitionName=p Nodes=n1\n";
    std::fs::write(&conf, text).unwrap();
    let mut rng = TestRng(3);
    let (mut agreed, mut folded_too) = (0, 0);
    for _ in 0..COUNT {
        let set = rng.slurm();
        let Some(names) = slurm("hostnames", &set, &conf) else { return };
        let mut seen = BTreeSet::new();
        let theirs: Vec<String> =
            words(&names).into_iter().filter(|name| seen.insert(name.clone())).collect();
        let ours = expand(&set).unwrap_or_else(|error| panic!("{error:#}"));
        assert_eq!(ours, theirs, "{set}");
        // Slurm reads the sets that gtop writes, and the other way round.
        let set = fold(&ours);
        // Slurm reads no text after a bracket.
        if set.split(']').skip(1).all(|rest| rest.is_empty() || rest.starts_with(',')) {
            let back = slurm("hostnames", &set, &conf).unwrap();
            assert_eq!(sorted(words(&back)), sorted(ours.clone()), "{set}");
            folded_too += 1;
        }
        let listed = slurm("hostlistsorted", &ours.join(","), &conf).unwrap();
        assert_eq!(sorted(expand(&listed).unwrap()), sorted(ours), "{listed}");
        agreed += 1;
    }
    eprintln!("{agreed} sets agree with Slurm, {folded_too} of them folded by gtop too");
    assert!(folded_too > COUNT / 4);
}
