//! Expands a node set to names: operands, operators, brackets, groups.

use std::collections::BTreeMap;

use crate::nodeset::error::Quoted;
use crate::nodeset::groups::{GroupError, GroupId, Groups, cycle_error, depth_error};
use crate::nodeset::ordered_names::OrderedNames;
use crate::nodeset::{MAX_NAME_LENGTH, MAX_NAMES, NodeSetError, NodeSetErrorKind, glob_matches};

/// Maximum number of names generated while a set is expanded, including removed ones.
const MAX_EXPANSIONS: usize = 4 * MAX_NAMES;

/// Maximum depth of groups in groups.
const MAX_GROUP_DEPTH: usize = 256;

/// Expands a node set with groups, in the order of the text, without duplicates.
pub fn expand_with(text: &str, groups: &Groups) -> Result<Vec<String>, NodeSetError> {
    let mut reader = Expander { groups, budget: MAX_EXPANSIONS, path: Vec::new() };
    reader.expand_set(text, None).map(OrderedNames::into_vec)
}

/// Returns an error for each cycle among the groups in gtop's settings.
pub fn find_cycles(own: &BTreeMap<String, String>) -> Vec<GroupError> {
    let groups = Groups::empty().with_config_groups(own.clone());
    let mut reader = Expander { groups: &groups, budget: MAX_EXPANSIONS, path: Vec::new() };
    let mut seen: Vec<GroupId> = Vec::new();
    let mut found = Vec::new();
    // A group without `@` is in no cycle.
    for name in own.iter().filter(|(_, set)| set.contains('@')).map(|(name, _)| name) {
        reader.path.clear();
        let Err(error) = reader.expand_group(name, None, name, 0) else { continue };
        let NodeSetErrorKind::Group(error @ GroupError::Cycle(_)) = *error.kind else { continue };
        // Groups that lead into a cycle are reported with it.
        if !reader.path.iter().any(|scope| seen.contains(scope)) {
            found.push(error);
        }
        seen.append(&mut reader.path);
    }
    found
}

struct Expander<'a> {
    groups: &'a Groups,
    /// Number of names that may still be generated.
    budget: usize,
    /// The groups being expanded, the outermost first.
    path: Vec<GroupId>,
}

/// A part of a set between operators.
#[derive(Debug, Clone, Copy)]
struct Operand<'a> {
    text: &'a str,
    /// The byte it begins at.
    at: usize,
    /// The operator before it.
    operator: char,
}

impl Expander<'_> {
    /// Expands a set; `source` is the default group source.
    fn expand_set(
        &mut self,
        text: &str,
        source: Option<&str>,
    ) -> Result<OrderedNames, NodeSetError> {
        let mut names = OrderedNames::default();
        for operand in split_operands(text)? {
            let wrong = |kind| NodeSetError::at(text, operand.at, kind);
            let found = self.expand_operand(text, operand, source)?;
            match operand.operator {
                '!' => found.iter().for_each(|name| {
                    names.remove(name);
                }),
                '&' => names.intersect(&found.into_iter().collect()),
                '^' => {
                    for name in found.into_iter().collect::<OrderedNames>().into_vec() {
                        if !names.remove(&name) {
                            names.insert(name);
                        }
                    }
                }
                _ => found.into_iter().for_each(|name| names.insert(name)),
            }
            if names.len() > MAX_NAMES {
                return Err(wrong(NodeSetErrorKind::TooMany));
            }
        }
        Ok(names)
    }

    fn expand_operand(
        &mut self,
        whole: &str,
        operand: Operand<'_>,
        source: Option<&str>,
    ) -> Result<Vec<String>, NodeSetError> {
        let names = self.expand_brackets(whole, operand)?;
        let mut found = Vec::new();
        for name in names {
            if let Some(group) = name.strip_prefix('@') {
                found.extend(self.expand_group(group, source, whole, operand.at)?);
            } else if name.contains(['*', '?']) {
                let all = self.expand_group("*", source, whole, operand.at)?;
                found.extend(all.into_iter().filter(|one| glob_matches(one, &name)));
            } else {
                found.push(name);
            }
        }
        Ok(found)
    }

    /// Expands a group, which may contain other groups.
    fn expand_group(
        &mut self,
        name: &str,
        source: Option<&str>,
        whole: &str,
        at: usize,
    ) -> Result<Vec<String>, NodeSetError> {
        let wrong = |kind: NodeSetErrorKind| NodeSetError::at(whole, at, kind);
        let (source, name) = match name.split_once(':') {
            Some((source, name)) => (Some(source), name),
            None => (source, name),
        };
        let found = self.groups.lookup(source, name).map_err(|error| wrong(error.into()))?;
        let path = |from: usize| {
            let path = self.path.iter().skip(from).chain([&found.id]);
            path.map(ToString::to_string).collect::<Vec<_>>()
        };
        if let Some(from) = self.path.iter().position(|scope| *scope == found.id) {
            return Err(wrong(cycle_error(&path(from)).into()));
        }
        if self.path.len() >= MAX_GROUP_DEPTH {
            return Err(wrong(depth_error(&path(0)).into()));
        }
        let title = found.title();
        let own = found.id.source.clone();
        self.path.push(found.id);
        let mut names = OrderedNames::default();
        for text in &found.texts {
            let part =
                self.expand_set(text, Some(&own)).map_err(|error| error.in_group(title.clone()))?;
            self.charge(part.len(), whole, at)?;
            part.into_vec().into_iter().for_each(|name| names.insert(name));
        }
        self.path.pop();
        Ok(names.into_vec())
    }

    fn charge(&mut self, count: usize, whole: &str, at: usize) -> Result<(), NodeSetError> {
        let left = self.budget.checked_sub(count.max(1));
        self.budget = left.ok_or_else(|| NodeSetError::at(whole, at, NodeSetErrorKind::TooMany))?;
        Ok(())
    }

    /// Expands the brackets of an operand.
    fn expand_brackets(
        &mut self,
        whole: &str,
        operand: Operand<'_>,
    ) -> Result<Vec<String>, NodeSetError> {
        let wrong = |kind| NodeSetError::at(whole, operand.at, kind);
        let pieces = split_brackets(whole, operand)?;
        let mut count = 1_usize;
        let mut longest = 0_usize;
        for piece in &pieces {
            count = count.saturating_mul(piece.len());
            longest += piece.iter().map(String::len).max().unwrap_or(0);
        }
        if longest > MAX_NAME_LENGTH {
            return Err(wrong(NodeSetErrorKind::TooLong));
        }
        if count > MAX_NAMES {
            return Err(wrong(NodeSetErrorKind::TooMany));
        }
        self.charge(count, whole, operand.at)?;
        let mut names = vec![String::new()];
        for piece in pieces {
            let longer = |name: String| {
                let each = piece.iter().map(move |part| format!("{name}{part}"));
                each.collect::<Vec<_>>()
            };
            names = names.into_iter().flat_map(longer).collect();
        }
        Ok(names)
    }
}

/// Splits a set at the operators outside brackets; a space without an operator counts as a comma.
fn split_operands(text: &str) -> Result<Vec<Operand<'_>>, NodeSetError> {
    let wrong = |at, kind| Err(NodeSetError::at(text, at, kind));
    let mut found: Vec<Operand<'_>> = Vec::new();
    let mut opened = None;
    let mut begun = None;
    // The operator that has no right operand yet.
    let mut waiting: Option<(char, usize)> = None;
    for (at, letter) in text.char_indices().chain([(text.len(), ',')]) {
        match letter {
            '[' if opened.is_some() => return wrong(at, NodeSetErrorKind::Nested),
            '[' => opened = Some(at),
            ']' if opened.is_none() => return wrong(at, NodeSetErrorKind::Unopened),
            ']' => opened = None,
            _ => {}
        }
        let ends = letter.is_whitespace() || matches!(letter, ',' | '!' | '&' | '^');
        if !ends || (opened.is_some() && at < text.len()) {
            begun = begun.or(Some(at));
            continue;
        }
        if let Some(open) = opened {
            return wrong(open, NodeSetErrorKind::Unclosed);
        }
        if let Some(from) = begun.take() {
            let operator = waiting.take().map_or(',', |(operator, _)| operator);
            let text = text.get(from..at).unwrap_or_default();
            found.push(Operand { text, at: from, operator });
        }
        match (letter, waiting) {
            // Extra commas are ignored, as in Slurm.
            (',', Some((operator, place))) => {
                return wrong(place, NodeSetErrorKind::NoOperand(operator));
            }
            ('!' | '&' | '^', None) if !found.is_empty() => waiting = Some((letter, at)),
            ('!' | '&' | '^', _) => return wrong(at, NodeSetErrorKind::NoOperand(letter)),
            _ => {}
        }
    }
    Ok(found)
}

/// Splits an operand into alternatives: a literal text, or the numbers of a bracket.
fn split_brackets(whole: &str, operand: Operand<'_>) -> Result<Vec<Vec<String>>, NodeSetError> {
    let mut pieces = Vec::new();
    let (mut rest, mut at) = (operand.text, operand.at);
    while let Some((before, inside, after)) = bracket(rest) {
        if pieces.len() > MAX_NAME_LENGTH {
            return Err(NodeSetError::at(whole, at, NodeSetErrorKind::TooLong));
        }
        pieces.push(vec![before.to_owned()]);
        let place = at + before.len() + 1;
        // An IPv6 address in brackets is literal.
        pieces.push(if inside.contains(':') {
            vec![format!("[{inside}]")]
        } else {
            expand_list(inside, whole, place)?
        });
        at = place + inside.len() + 1;
        rest = after;
    }
    pieces.push(vec![rest.to_owned()]);
    Ok(pieces)
}

fn bracket(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('[')?;
    let (inside, after) = rest.split_once(']')?;
    Some((before, inside, after))
}

/// Expands the list in a bracket that starts at byte `at` of the whole.
fn expand_list(text: &str, whole: &str, mut at: usize) -> Result<Vec<String>, NodeSetError> {
    let mut all = Vec::new();
    for range in text.split(',') {
        let wrong = |kind| NodeSetError::at(whole, at, kind);
        let NumberRange { from, to, step, width } = NumberRange::parse(range).map_err(wrong)?;
        let count = usize::try_from((to - from) / step).unwrap_or(usize::MAX);
        if count.saturating_add(all.len()) >= MAX_NAMES {
            return Err(wrong(NodeSetErrorKind::TooMany));
        }
        let step = usize::try_from(step).unwrap_or(usize::MAX);
        all.extend((from..=to).step_by(step).map(|value| format!("{value:0width$}")));
        at += range.len() + 1;
    }
    Ok(all)
}

/// A range such as `008-011/2`.
#[derive(Debug, PartialEq, Eq)]
struct NumberRange {
    from: u64,
    to: u64,
    step: u64,
    /// Width to pad to with zeros; 0 for none.
    width: usize,
}

impl NumberRange {
    fn parse(text: &str) -> Result<Self, NodeSetErrorKind> {
        let part = || Quoted::new(text.trim());
        let bad = || NodeSetErrorKind::BadRange(part());
        let (span, step) = match text.split_once('/') {
            Some((span, step)) => (span, parse_number(step.trim()).ok_or_else(bad)?),
            None => (text, 1),
        };
        let (first, last) = match span.split_once('-') {
            Some((first, last)) => (first.trim(), Some(last.trim())),
            None => (span.trim(), None),
        };
        let from = parse_number(first).ok_or_else(bad)?;
        let to = last.map_or(Some(from), parse_number).ok_or_else(bad)?;
        let last = last.unwrap_or(first);
        if step == 0 {
            return Err(bad());
        }
        if step > 1 && !span.contains('-') {
            return Err(NodeSetErrorKind::Step(part()));
        }
        if from > to {
            return Err(NodeSetErrorKind::Reversed(part()));
        }
        let is_padded = |digits: &str| digits.len() > 1 && digits.starts_with('0');
        if is_padded(last) && last.len() != first.len() {
            return Err(NodeSetErrorKind::Padding(part()));
        }
        let width = if is_padded(first) { first.len() } else { 0 };
        Ok(Self { from, to, step, width })
    }
}

/// Parses up to 18 digits, so that no sum of two overflows.
pub(super) fn parse_number(digits: &str) -> Option<u64> {
    let is_plain = !digits.is_empty() && digits.len() <= 18;
    if is_plain && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        digits.parse().ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodeset::expand;

    fn own(groups: &[(&str, &str)]) -> BTreeMap<String, String> {
        groups.iter().map(|(name, set)| ((*name).to_owned(), (*set).to_owned())).collect()
    }

    #[test]
    fn each_circle_of_groups_is_told_once_and_what_leads_there_is_none() {
        let told = |groups: &[(&str, &str)]| {
            find_cycles(&own(groups)).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let circle = |path: &str| {
            vec![format!("these groups contain each other: {path}; remove one of the references")]
        };
        assert!(
            told(&[("a", "n[1-4]"), ("b", "@a,n7"), ("c", "@b!@a"), ("d", "@other")]).is_empty()
        );
        assert_eq!(told(&[("a", "n1,@a")]), circle("@gtop:a → @gtop:a"));
        let three = [("a", "@b"), ("b", "@c"), ("c", "@b"), ("d", "@a"), ("e", "@c")];
        assert_eq!(told(&three), circle("@gtop:b → @gtop:c → @gtop:b"));
        assert_eq!(told(&[("a", "@a"), ("b", "@b")]).len(), 2);
    }

    #[test]
    fn a_long_chain_of_groups_is_no_circle() {
        let chain = |length: usize| {
            let links = (1..length).map(|at| (format!("g{at}"), format!("@g{}", at + 1)));
            links.chain([(format!("g{length}"), "n1".to_owned())]).collect::<BTreeMap<_, _>>()
        };
        let expand =
            |length| expand_with("@g1", &Groups::empty().with_config_groups(chain(length)));
        assert_eq!(expand(MAX_GROUP_DEPTH).unwrap(), ["n1"]);
        let error = expand(MAX_GROUP_DEPTH + 1).unwrap_err().to_string();
        assert!(
            error.contains("groups are nested more than 256 deep: ")
                && error.contains("@gtop:g257"),
            "{error}"
        );
        assert!(!error.contains("each other"), "{error}");
        assert!(find_cycles(&chain(MAX_GROUP_DEPTH + 1)).is_empty());
    }

    #[test]
    fn sets_without_nodes_are_work_too() {
        // Half a million of them, none of which names a node.
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("groups.d")).unwrap();
        let empty = "'', ".repeat(10_000);
        std::fs::write(
            folder.path().join("groups.d/e.yaml"),
            format!("e:\n  none: [ {empty}'' ]\n"),
        )
        .unwrap();
        std::fs::write(folder.path().join("groups.conf"), "[Main]\nautodir: $CFGDIR/groups.d\n")
            .unwrap();
        let groups = || Groups::in_folders(vec![folder.path().to_owned()]);
        assert_eq!(expand_with("@e:none", &groups()).unwrap(), [""; 0]);
        let many = vec!["@e:none"; 50].join(",");
        let error = expand_with(&many, &groups()).unwrap_err().to_string();
        assert!(error.contains("more than 65536 nodes"), "{error}");
    }

    fn check(text: &str, names: &[&str]) {
        assert_eq!(expand(text).unwrap(), names, "{text}");
    }

    #[test]
    fn sets_expand_in_the_order_written() {
        check("gpu1", &["gpu1"]);
        check("gpu[2,1]", &["gpu2", "gpu1"]);
        check("gpu[08-11]", &["gpu08", "gpu09", "gpu10", "gpu11"]);
        check("gpu[001-002,200],login1", &["gpu001", "gpu002", "gpu200", "login1"]);
        check("r[1-2]n[1-2]", &["r1n1", "r1n2", "r2n1", "r2n2"]);
        check("r[1-2]-n[3,5]-ib", &["r1-n3-ib", "r1-n5-ib", "r2-n3-ib", "r2-n5-ib"]);
        check("ada@gpu[1-2]:2222", &["ada@gpu1:2222", "ada@gpu2:2222"]);
        check("n[0-6/3]", &["n0", "n3", "n6"]);
        check("[::1]:22", &["[::1]:22"]);
        check(" a , ,b ", &["a", "b"]);
        check("a b\tc", &["a", "b", "c"]);
        check("n[ 1 - 2 , 4 ]", &["n1", "n2", "n4"]);
        check("", &[]);
        check("n1,n[1-2],n1", &["n1", "n2"]);
        check("[1-2]", &["1", "2"]);
    }

    #[test]
    fn zeros_in_front_are_kept_also_of_several_widths() {
        check("n[1-2,02,003]", &["n1", "n2", "n02", "n003"]);
        check("n[9-10,010]", &["n9", "n10", "n010"]);
        check("n[098-101]", &["n098", "n099", "n100", "n101"]);
        check("n[98-101/3]", &["n98", "n101"]);
        check(
            "n[08-11]x[00-02/2]",
            &["n08x00", "n08x02", "n09x00", "n09x02", "n10x00", "n10x02", "n11x00", "n11x02"],
        );
        assert_eq!(expand("n[01-128]").unwrap()[98..100], ["n99", "n100"]);
        check("n[008-9]", &["n008", "n009"]);
        check("n1[9-10]", &["n19", "n110"]);
        check("n[9-10]1", &["n91", "n101"]);
        check("n[1-2][3-4]", &["n13", "n14", "n23", "n24"]);
        check("n0", &["n0"]);
        check("n[0-1]", &["n0", "n1"]);
    }

    #[test]
    fn operations_go_from_left_to_right() {
        check("n[1-4]!n2", &["n1", "n3", "n4"]);
        check("n[1-4] ! n[2-3] , n2", &["n1", "n4", "n2"]);
        check("n[1-5]&n[3-9]^n4", &["n3", "n5"]);
        check("n[1-2]^n[2-3]", &["n1", "n3"]);
        check("n1^n2,n2!n1", &["n2"]);
        check("a!b,b&b", &["b"]);
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_place() {
        for (text, column, words) in [
            ("gpu[01", 4, "'[' without ']'"),
            ("a,gpu[01,b", 6, "'[' without ']'"),
            ("gpu01]", 6, "']' without '['"),
            ("n[1[2]]", 4, "cannot be nested"),
            ("gpu[]", 5, "\"\" is not a range"),
            ("gpu[a]", 5, "\"a\" is not a range"),
            ("gpu[1-]", 5, "not a range"),
            ("gpu[-1]", 5, "not a range"),
            ("gpu[1,2--3]", 7, "not a range"),
            ("gpu[1/0]", 5, "not a range"),
            ("gpu[1,,2]", 7, "not a range"),
            ("gpu[5/2]", 5, "no range"),
            ("gpu[1-2/x]", 5, "not a range"),
            ("x,gpu[1,5-1]", 9, "is reversed"),
            ("gpu[8-011]", 5, "differ in width"),
            ("gpu[01-010]", 5, "differ in width"),
            ("!a", 1, "both sides"),
            ("a!", 2, "both sides"),
            ("a!!b", 3, "both sides"),
            ("a&^b", 3, "both sides"),
            ("a ^ , b", 3, "both sides"),
            ("n[0-99999999999999999999]", 3, "not a range"),
            ("a,@gpu", 3, "no node groups"),
            ("gpu*", 1, "no node groups"),
        ] {
            let error = expand(text).expect_err(text);
            assert_eq!(error.column, column, "{text}: {error}");
            assert!(error.to_string().contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn a_bomb_is_an_error_and_soon() {
        let deep = "[".repeat(100_000);
        let many = "n[1-9]".repeat(100_000);
        let wide = format!("{}[1-60000]", "x".repeat(1 << 20));
        let long = format!("n[{}1]", "1,".repeat(1 << 19));
        let work = vec!["n[1-60000]"; 70_000].join("&");
        let side = "[1]".repeat(1 << 18);
        for huge in [
            "n[1-10000000]",
            "n[0-999999999]",
            "n[1-9999]m[1-9999]",
            "[1-9][1-9][1-9][1-9][1-9][1-9][1-9][1-9]",
            "n[1-60000],m[1-60000]",
            &deep,
            &many,
            &wide,
            &long,
            &work,
            &side,
        ] {
            let error = expand(huge).expect_err("a bomb");
            assert!(error.to_string().len() < 300, "{error}");
        }
        assert_eq!(expand("n[1-65536]").unwrap().len(), MAX_NAMES);
        let error = expand("n[1-65537]").unwrap_err().to_string();
        assert!(error.contains("more than 65536 nodes; write a smaller set"), "{error}");
        assert_eq!(expand(&"a,".repeat(1 << 17)).unwrap(), ["a"]);
    }

    /// A small generator, always the same numbers.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, bound: usize) -> usize {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(self.0 >> 33).unwrap() % bound
        }
    }

    #[test]
    fn no_text_at_all_does_any_harm() {
        let pieces = [
            "n",
            "[",
            "]",
            "-",
            ",",
            "1",
            "0",
            "01",
            "9",
            "/",
            "!",
            "&",
            "^",
            "@",
            "*",
            "?",
            ":",
            " ",
            "é",
            "\u{0}",
            "\u{1b}",
            "[1-3]",
            "[01-12/5]",
            "99999999999999999999",
            "x",
            ".",
            "%",
            "\n",
        ];
        let mut dice = Dice(7);
        for _ in 0..20_000 {
            let text: String =
                (0..dice.below(14)).map(|_| pieces[dice.below(pieces.len())]).collect();
            match expand(&text) {
                Ok(names) => {
                    let plain = |name: &&String| !name.contains(|c: char| "%*?@!&^,".contains(c));
                    let names: Vec<_> = names.iter().filter(plain).cloned().collect();
                    let folded = crate::nodeset::fold(&names);
                    let mut again = expand(&folded)
                        .unwrap_or_else(|error| panic!("{text:?} {folded:?}: {error}"));
                    let mut names = names;
                    names.sort_unstable();
                    again.sort_unstable();
                    assert_eq!(names, again, "{text:?} {folded:?}");
                }
                Err(error) => assert!(error.column <= text.chars().count() + 1, "{text:?}"),
            }
        }
    }
}
