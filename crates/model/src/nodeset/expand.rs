//! Expands a node set to names: operands, operators, brackets, groups.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::nodeset::groups::{GroupError, GroupId, Groups, format_path};
use crate::nodeset::ordered_names::OrderedNames;
use crate::nodeset::{MAX_NAME_LENGTH, MAX_NAMES, NodeSetError, NodeSetErrorKind};
use gtop_local::text::{HTTP, HTTPS, matches_pattern, strip_scheme};

/// Maximum number of names generated while a set is expanded, including removed ones.
const MAX_EXPANSIONS: usize = 4 * MAX_NAMES;

/// Maximum length of what follows the host in an address of a page, in bytes.
const MAX_TAIL_LENGTH: usize = 1024;

/// Maximum length of a range in an error, in characters.
const MAX_QUOTED: usize = 32;

/// Maximum depth of groups in groups.
const MAX_GROUP_DEPTH: usize = 256;

/// Expands a node set with groups, in the order of the text, without duplicates.
pub fn expand_with(text: &str, groups: &Groups) -> Result<Vec<String>, NodeSetError> {
    let mut expander = Expander { groups, budget: MAX_EXPANSIONS, path: Vec::new() };
    expander.expand_set(text, None).map(OrderedNames::into_vec)
}

/// Returns an error for each cycle among the groups in gtop's settings.
pub fn find_cycles(config_groups: &BTreeMap<String, String>) -> Vec<GroupError> {
    let groups = Groups::empty().with_config_groups(config_groups.clone());
    let mut expander = Expander { groups: &groups, budget: MAX_EXPANSIONS, path: Vec::new() };
    let mut seen: Vec<GroupId> = Vec::new();
    let mut cycles = Vec::new();
    // A group without `@` is in no cycle.
    for name in config_groups.iter().filter(|(_, set)| set.contains('@')).map(|(name, _)| name) {
        expander.path.clear();
        let operand = SetOperand { set: name, text: name, at: 0, operator: ',', tail: "" };
        let Err(error) = expander.expand_group(name, None, operand) else { continue };
        let NodeSetErrorKind::Group(error @ GroupError::Cycle(_)) = *error.kind else { continue };
        // Groups that lead into a cycle are reported with it.
        if !expander.path.iter().any(|id| seen.contains(id)) {
            cycles.push(error);
        }
        seen.append(&mut expander.path);
    }
    cycles
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
struct SetOperand<'a> {
    /// The whole set.
    set: &'a str,
    text: &'a str,
    /// The byte it begins at.
    at: usize,
    /// The operator before it.
    operator: char,
    /// What follows the host of an address of a page, which is literal.
    tail: &'a str,
}

impl SetOperand<'_> {
    /// Returns an error at its position.
    fn error(self, kind: NodeSetErrorKind) -> NodeSetError {
        NodeSetError::at(self.set, self.at, kind)
    }
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
            let operand_names = self.expand_operand(operand, source)?;
            match operand.operator {
                '!' => {
                    for name in &operand_names {
                        names.remove(name);
                    }
                }
                '&' => names.intersect(&operand_names.into_iter().collect()),
                '^' => {
                    for name in operand_names.into_iter().collect::<OrderedNames>().into_vec() {
                        if !names.remove(&name) {
                            names.insert(name);
                        }
                    }
                }
                _ => operand_names.into_iter().for_each(|name| names.insert(name)),
            }
            if names.len() > MAX_NAMES {
                return Err(operand.error(NodeSetErrorKind::TooMany));
            }
        }
        Ok(names)
    }

    fn expand_operand(
        &mut self,
        operand: SetOperand<'_>,
        source: Option<&str>,
    ) -> Result<Vec<String>, NodeSetError> {
        let names = self.expand_brackets(operand)?;
        if !operand.tail.is_empty() {
            return Ok(names.into_iter().map(|name| name + operand.tail).collect());
        }
        let mut expanded = Vec::new();
        for name in names {
            if let Some(group) = name.strip_prefix('@') {
                expanded.extend(self.expand_group(group, source, operand)?);
            } else if name.contains(['*', '?']) {
                let all = self.expand_group("*", source, operand)?;
                expanded.extend(all.into_iter().filter(|known| matches_pattern(known, &name)));
            } else {
                expanded.push(name);
            }
        }
        Ok(expanded)
    }

    /// Expands a group that an operand names, which may contain other groups.
    fn expand_group(
        &mut self,
        name: &str,
        source: Option<&str>,
        operand: SetOperand<'_>,
    ) -> Result<Vec<String>, NodeSetError> {
        let (source, name) = match name.split_once(':') {
            Some((source, name)) => (Some(source), name),
            None => (source, name),
        };
        let definition =
            self.groups.lookup(source, name).map_err(|error| operand.error(error.into()))?;
        let cycle = self.path.iter().position(|id| *id == definition.id);
        if cycle.is_some() || self.path.len() >= MAX_GROUP_DEPTH {
            let path = self.path.iter().skip(cycle.unwrap_or(0)).chain([&definition.id]);
            let path = format_path(path);
            let error = match cycle {
                Some(_) => GroupError::Cycle(path),
                None => GroupError::TooDeep(path, self.path.len()),
            };
            return Err(operand.error(error.into()));
        }
        let title = definition.title();
        let group_source = definition.id.source.clone();
        self.path.push(definition.id);
        let mut names = OrderedNames::default();
        for text in &definition.texts {
            let part = self
                .expand_set(text, Some(&group_source))
                .map_err(|error| error.in_group(title.clone()))?;
            self.spend_budget(part.len(), operand)?;
            part.into_vec().into_iter().for_each(|name| names.insert(name));
        }
        self.path.pop();
        Ok(names.into_vec())
    }

    fn spend_budget(&mut self, count: usize, operand: SetOperand<'_>) -> Result<(), NodeSetError> {
        let left = self.budget.checked_sub(count.max(1));
        self.budget = left.ok_or_else(|| operand.error(NodeSetErrorKind::TooMany))?;
        Ok(())
    }

    /// Expands the brackets of an operand.
    fn expand_brackets(&mut self, operand: SetOperand<'_>) -> Result<Vec<String>, NodeSetError> {
        let pieces = split_brackets(operand)?;
        let mut count = 1_usize;
        let mut max_length = 0_usize;
        for piece in &pieces {
            count = count.saturating_mul(piece.len());
            max_length += piece.iter().map(String::len).max().unwrap_or(0);
        }
        if max_length > MAX_NAME_LENGTH || operand.tail.len() > MAX_TAIL_LENGTH {
            return Err(operand.error(NodeSetErrorKind::TooLong));
        }
        if count > MAX_NAMES {
            return Err(operand.error(NodeSetErrorKind::TooMany));
        }
        self.spend_budget(count, operand)?;
        let mut names = vec![String::new()];
        for piece in pieces {
            let longer =
                names.iter().flat_map(|name| piece.iter().map(move |part| format!("{name}{part}")));
            names = longer.collect();
        }
        Ok(names)
    }
}

/// Splits a set at the operators outside brackets; a space without an operator counts as a comma.
fn split_operands(text: &str) -> Result<Vec<SetOperand<'_>>, NodeSetError> {
    let error_at = |at, kind| Err(NodeSetError::at(text, at, kind));
    let mut operands: Vec<SetOperand<'_>> = Vec::new();
    let mut open_bracket = None;
    let mut start = None;
    // The operator that has no right operand yet.
    let mut pending_operator: Option<(char, usize)> = None;
    let mut tail = None;
    for (at, letter) in text.char_indices().chain([(text.len(), ',')]) {
        if start.is_none() && open_bracket.is_none() {
            tail = address_tail(text, at);
        }
        if tail.as_ref().is_some_and(|tail| tail.contains(&at)) {
            continue;
        }
        match letter {
            '[' if open_bracket.is_some() => return error_at(at, NodeSetErrorKind::Nested),
            '[' => open_bracket = Some(at),
            ']' if open_bracket.is_none() => return error_at(at, NodeSetErrorKind::Unopened),
            ']' => open_bracket = None,
            _ => {}
        }
        let ends = letter.is_whitespace() || matches!(letter, ',' | '!' | '&' | '^');
        if !ends || (open_bracket.is_some() && at < text.len()) {
            start = start.or(Some(at));
            continue;
        }
        if let Some(bracket) = open_bracket {
            return error_at(bracket, NodeSetErrorKind::Unclosed);
        }
        if let Some(from) = start.take() {
            let operator = pending_operator.take().map_or(',', |(operator, _)| operator);
            let end = tail.as_ref().map_or(at, |tail| tail.start);
            let tail = tail.clone().and_then(|tail| text.get(tail)).unwrap_or_default();
            let part = text.get(from..end).unwrap_or_default();
            operands.push(SetOperand { set: text, text: part, at: from, operator, tail });
        }
        match (letter, pending_operator) {
            // Extra commas are ignored.
            (',', Some((operator, at_operator))) => {
                return error_at(at_operator, NodeSetErrorKind::NoOperand(operator));
            }
            ('!' | '&' | '^', None) if !operands.is_empty() => {
                pending_operator = Some((letter, at));
            }
            ('!' | '&' | '^', _) => return error_at(at, NodeSetErrorKind::NoOperand(letter)),
            _ => {}
        }
    }
    Ok(operands)
}

/// Returns where the part after the host is in the address of a page that begins at a byte of a set, if one does. It goes to
/// the next blank, or to a comma before another address, and is taken as it stands.
fn address_tail(set: &str, at: usize) -> Option<Range<usize>> {
    let after_scheme_here = after_scheme(set.get(at..)?)?;
    let tail = after_scheme_here.get(host_length(after_scheme_here)..)?;
    if !tail.starts_with(['/', '?', '#']) {
        return None;
    }
    let end = tail.char_indices().find(|(position, letter)| {
        let is_before_address =
            *letter == ',' && tail.get(position + 1..).and_then(after_scheme).is_some();
        is_before_address || letter.is_whitespace()
    });
    let length = end.map_or(tail.len(), |(end, _)| end);
    let from = set.len() - tail.len();
    Some(from..from + length)
}

/// Returns how many bytes the host of an address has, with its port: brackets keep what ends it elsewhere.
fn host_length(address: &str) -> usize {
    let mut is_in_bracket = false;
    for (position, letter) in address.char_indices() {
        match letter {
            '[' => is_in_bracket = true,
            ']' => is_in_bracket = false,
            _ if !is_in_bracket && (letter.is_whitespace() || "/?#,!&^".contains(letter)) => {
                return position;
            }
            _ => {}
        }
    }
    address.len()
}

/// Returns what follows the scheme of the address of a page.
fn after_scheme(text: &str) -> Option<&str> {
    strip_scheme(text, HTTP).or_else(|| strip_scheme(text, HTTPS))
}

/// Splits an operand into alternatives: a literal text, or the numbers of a bracket.
fn split_brackets(mut rest: SetOperand<'_>) -> Result<Vec<Vec<String>>, NodeSetError> {
    let mut pieces = Vec::new();
    while let Some((before, inside, after)) = bracket(rest.text) {
        if pieces.len() > MAX_NAME_LENGTH {
            return Err(rest.error(NodeSetErrorKind::TooLong));
        }
        pieces.push(vec![before.to_owned()]);
        let list = SetOperand { text: inside, at: rest.at + before.len() + 1, ..rest };
        // An IPv6 address in brackets is literal.
        pieces.push(if inside.contains(':') {
            vec![format!("[{inside}]")]
        } else {
            expand_list(list)?
        });
        rest = SetOperand { text: after, at: list.at + inside.len() + 1, ..rest };
    }
    pieces.push(vec![rest.text.to_owned()]);
    Ok(pieces)
}

fn bracket(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('[')?;
    let (inside, after) = rest.split_once(']')?;
    Some((before, inside, after))
}

/// Expands the list in a bracket.
fn expand_list(mut list: SetOperand<'_>) -> Result<Vec<String>, NodeSetError> {
    let mut numbers = Vec::new();
    for range in list.text.split(',') {
        let parsed = NumberRange::parse(range).map_err(|kind| list.error(kind))?;
        let NumberRange { from, to, step, width } = parsed;
        let count = usize::try_from((to - from) / step).unwrap_or(usize::MAX);
        if count.saturating_add(numbers.len()) >= MAX_NAMES {
            return Err(list.error(NodeSetErrorKind::TooMany));
        }
        let step = usize::try_from(step).unwrap_or(usize::MAX);
        numbers.extend((from..=to).step_by(step).map(|value| format!("{value:0width$}")));
        list.at += range.len() + 1;
    }
    Ok(numbers)
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
        let quoted = text.trim().chars().take(MAX_QUOTED).collect();
        let (span, step) = text.split_once('/').unwrap_or((text, "1"));
        let (first, last) = span.split_once('-').unwrap_or((span, span));
        let (first, last) = (first.trim(), last.trim());
        let numbers = [first, last, step.trim()].map(parse_number);
        let [Some(from), Some(to), Some(step @ 1..)] = numbers else {
            return Err(NodeSetErrorKind::BadRange(quoted));
        };
        if step > 1 && !span.contains('-') {
            return Err(NodeSetErrorKind::Step(quoted));
        }
        if from > to {
            return Err(NodeSetErrorKind::Reversed(quoted));
        }
        if is_padded(last) && last.len() != first.len() {
            return Err(NodeSetErrorKind::Padding(quoted));
        }
        let width = if is_padded(first) { first.len() } else { 0 };
        Ok(Self { from, to, step, width })
    }
}

fn is_padded(digits: &str) -> bool {
    digits.len() > 1 && digits.starts_with('0')
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

    fn group_map(groups: &[(&str, &str)]) -> BTreeMap<String, String> {
        groups.iter().map(|(name, set)| ((*name).to_owned(), (*set).to_owned())).collect()
    }

    #[test]
    fn each_cycle_of_groups_is_reported_once_without_the_groups_that_lead_to_it() {
        let cycles = |groups: &[(&str, &str)]| {
            find_cycles(&group_map(groups)).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let cycle = |path: &str| {
            vec![format!("these groups contain each other: {path}; remove one of the references")]
        };
        assert!(
            cycles(&[("a", "n[1-4]"), ("b", "@a,n7"), ("c", "@b!@a"), ("d", "@other")]).is_empty()
        );
        assert_eq!(cycles(&[("a", "n1,@a")]), cycle("@gtop:a → @gtop:a"));
        let three = [("a", "@b"), ("b", "@c"), ("c", "@b"), ("d", "@a"), ("e", "@c")];
        assert_eq!(cycles(&three), cycle("@gtop:b → @gtop:c → @gtop:b"));
        assert_eq!(cycles(&[("a", "@a"), ("b", "@b")]).len(), 2);
    }

    #[test]
    fn a_long_chain_of_groups_is_not_a_cycle() {
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
    fn empty_sets_count_towards_the_limit_too() {
        // Half a million sets without a node.
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("groups.d")).unwrap();
        let empty_sets = "'', ".repeat(10_000);
        std::fs::write(
            folder.path().join("groups.d/e.yaml"),
            format!("e:\n  none: [ {empty_sets}'' ]\n"),
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
        check("http://n[1-2]:9100/metrics", &["http://n1:9100/metrics", "http://n2:9100/metrics"]);
        check("n1,n[1-2],n1", &["n1", "n2"]);
        check("[1-2]", &["1", "2"]);
    }

    #[test]
    fn leading_zeros_are_kept_for_all_widths() {
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
    fn operators_apply_from_left_to_right() {
        check("n[1-4]!n2", &["n1", "n3", "n4"]);
        check("n[1-4] ! n[2-3] , n2", &["n1", "n4", "n2"]);
        check("n[1-5]&n[3-9]^n4", &["n3", "n5"]);
        check("n[1-2]^n[2-3]", &["n1", "n3"]);
        check("n1^n2,n2!n1", &["n2"]);
        check("a!b,b&b", &["b"]);
    }

    #[test]
    fn what_follows_the_host_of_an_address_is_literal() {
        for address in [
            "http://n1:9400/metrics?collect[]=cpu&collect[]=load",
            "http://n1/metrics?job=1,2",
            "http://n1/federate?match[]={job=\"a!b^c\"}&x=@all*",
            "http://n1/a,b/[7]!c&d]",
            "HTTP://n1?[",
            "http://[::1]:9100/metrics?a[]=[::1]",
            "https://n1/a?b,c",
        ] {
            check(address, &[address]);
            check(&format!("x,{address} y!z"), &["x", address, "y"]);
            check(&format!("x {address},http://n9/ y"), &["x", address, "http://n9/", "y"]);
        }
        check("http://n[1,3]/a[1-2] n7", &["http://n1/a[1-2]", "http://n3/a[1-2]", "n7"]);
        check("http://n1,n2!n2,Http://n3", &["http://n1", "Http://n3"]);
        check("http://n[1-2]/a !http://n2/a", &["http://n1/a"]);
        for (text, column) in [("http://n[1/a", 9), ("http://n1]/a", 10), ("n1 http://n[x]/a", 13)]
        {
            assert_eq!(expand(text).expect_err(text).column, column, "{text}");
        }
        let long = format!("http://n1/{}", "a".repeat(MAX_TAIL_LENGTH));
        assert!(expand(&long).unwrap_err().to_string().contains("longer than"));
    }

    #[test]
    fn errors_have_a_position_and_a_reason() {
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
    fn huge_sets_fail_quickly() {
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
            let error = expand(huge).expect_err("a huge set");
            assert!(error.to_string().len() < 300, "{error}");
        }
        assert_eq!(expand("n[1-65536]").unwrap().len(), MAX_NAMES);
        let error = expand("n[1-65537]").unwrap_err().to_string();
        assert!(error.contains("more than 65536 nodes; write a smaller set"), "{error}");
        assert_eq!(expand(&"a,".repeat(1 << 17)).unwrap(), ["a"]);
    }

    /// A pseudo-random generator with a fixed seed.
    struct TestRng(u64);

    impl TestRng {
        fn below(&mut self, bound: usize) -> usize {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(self.0 >> 33).unwrap() % bound
        }
    }

    #[test]
    fn random_text_never_panics_and_folds_back() {
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
            "http://",
            "/",
        ];
        let mut rng = TestRng(7);
        for _ in 0..20_000 {
            let text: String =
                (0..rng.below(14)).map(|_| pieces[rng.below(pieces.len())]).collect();
            match expand(&text) {
                Ok(names) => {
                    // No node has an address as its name.
                    let plain = |name: &&String| {
                        !name.contains("://") && !name.contains(|c: char| "%*?@!&^,".contains(c))
                    };
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
