//! Takes lines apart into columns.

use std::collections::BTreeMap;

use crate::record::columns::bytes::{write_length, write_numbers, write_text};
use crate::record::columns::decimal::{Decimal, MAX_SCALE};
use crate::record::columns::scan::{JsonToken, scan};
use crate::record::columns::{Kind, MAX_COLUMNS, MAX_PLACES, MAX_VALUES};

/// The values of one path of keys.
#[derive(Debug, Default)]
struct ShreddedColumn {
    /// The last key of the path, as it is written.
    key: Vec<u8>,
    /// The columns of the keys of its objects, in their order. A key that comes out of order has a second one.
    keys: Vec<usize>,
    /// The column of the elements of its lists.
    element: Option<usize>,
    /// Its number among the keys of its parent, in the order of their appearance.
    slot: usize,
    kinds: Vec<Kind>,
    numbers: Vec<i64>,
    /// The decimals of each number that has some.
    scales: Vec<usize>,
    /// How many of its values are objects.
    objects: usize,
}

/// The values of a column that are not in it yet: of one node, and at one place in each list.
#[derive(Debug, Default)]
struct ShreddedPlace {
    column: usize,
    kinds: Vec<Kind>,
    numbers: Vec<i64>,
    scales: Vec<usize>,
    objects: usize,
    /// The places of its keys, by slot.
    keys: Vec<Option<usize>>,
    elements: Vec<usize>,
    /// The number of the last text, which often comes again.
    last_text: i64,
}

/// Different texts, each with a number.
#[derive(Debug, Default)]
struct Texts<'a> {
    numbers: BTreeMap<&'a [u8], i64>,
    list: Vec<&'a [u8]>,
}

impl<'a> Texts<'a> {
    fn number(&mut self, text: &'a [u8], last: i64) -> Option<i64> {
        if self.list.get(usize::try_from(last).ok()?) == Some(&text) {
            return Some(last);
        }
        let next = i64::try_from(self.list.len()).ok()?;
        let number = *self.numbers.entry(text).or_insert(next);
        self.list.extend((number == next).then_some(text));
        Some(number)
    }
}

/// The columns of the lines so far.
#[derive(Debug)]
pub(super) struct Shredder<'a> {
    columns: Vec<ShreddedColumn>,
    places: Vec<ShreddedPlace>,
    texts: Texts<'a>,
    /// The number of the node of each line.
    nodes: Vec<i64>,
    /// Values that are absent.
    absent: usize,
}

/// The column of lines, and their place.
const ROOT: usize = 0;

impl Default for Shredder<'_> {
    fn default() -> Self {
        Self {
            columns: vec![ShreddedColumn::default()],
            places: vec![ShreddedPlace::default()],
            texts: Texts::default(),
            nodes: Vec::new(),
            absent: 0,
        }
    }
}

impl<'a> Shredder<'a> {
    /// Takes lines apart, those of each node after each other; `None` if there are too many columns.
    pub(super) fn add(&mut self, lines: &[&'a [u8]]) -> Option<()> {
        let mut numbers = BTreeMap::new();
        let mut by_node: Vec<Vec<&[u8]>> = Vec::new();
        for line in lines {
            let number = *numbers.entry(node_of(line)).or_insert(by_node.len());
            if number == by_node.len() {
                by_node.push(Vec::new());
            }
            by_node.get_mut(number)?.push(line);
            self.nodes.push(i64::try_from(number).ok()?);
        }
        let mut tokens = Vec::new();
        for lines in by_node {
            for line in &lines {
                if scan(line, &mut tokens).is_some() {
                    self.add_value(ROOT, &mut &*tokens)?;
                } else {
                    self.add_text(ROOT, Kind::Written, line)?;
                }
            }
            self.join(Some(ROOT), ROOT, lines.len())?;
        }
        Some(())
    }

    fn add_value(&mut self, place: usize, rest: &mut &[JsonToken<'a>]) -> Option<()> {
        let (token, after) = rest.split_first()?;
        *rest = after;
        match *token {
            JsonToken::Object => self.add_object(place, rest),
            JsonToken::List => self.add_list(place, rest),
            JsonToken::Text(text) => self.add_text(place, Kind::Text, text),
            JsonToken::Number(text) => self.add_number(place, text),
            JsonToken::Null => self.add_kind(place, Kind::Null),
            JsonToken::False => self.add_kind(place, Kind::False),
            JsonToken::True => self.add_kind(place, Kind::True),
            JsonToken::Key(_) | JsonToken::End => None,
        }
    }

    fn add_kind(&mut self, place: usize, kind: Kind) -> Option<()> {
        self.places.get_mut(place)?.kinds.push(kind);
        Some(())
    }

    fn add_text(&mut self, place: usize, kind: Kind, text: &'a [u8]) -> Option<()> {
        let place = self.places.get_mut(place)?;
        place.last_text = self.texts.number(text, place.last_text)?;
        place.kinds.push(kind);
        place.numbers.push(place.last_text);
        Some(())
    }

    fn add_number(&mut self, place: usize, text: &'a [u8]) -> Option<()> {
        let Some(Decimal { digits, scale }) = Decimal::parse(text) else {
            return self.add_text(place, Kind::Written, text);
        };
        let place = self.places.get_mut(place)?;
        place.numbers.push(digits);
        if scale == 0 {
            place.kinds.push(Kind::Whole);
        } else {
            place.kinds.push(Kind::Decimal);
            place.scales.push(scale);
        }
        Some(())
    }

    fn add_list(&mut self, place: usize, rest: &mut &[JsonToken<'a>]) -> Option<()> {
        let mut length = 0;
        while *rest.first()? != JsonToken::End {
            let element = self.element(place, length)?;
            self.add_value(element, rest)?;
            length += 1;
        }
        *rest = rest.get(1..)?;
        let place = self.places.get_mut(place)?;
        place.kinds.push(Kind::List);
        place.numbers.push(i64::try_from(length).ok()?);
        Some(())
    }

    fn add_object(&mut self, place: usize, rest: &mut &[JsonToken<'a>]) -> Option<()> {
        let ShreddedPlace { column, objects, .. } = *self.places.get(place)?;
        let mut position = 0;
        while let (JsonToken::Key(key), after) = rest.split_first()? {
            *rest = after;
            let of_key = self.key_column(column, position, key)?;
            position = of_key.0 + 1;
            let child = self.key_place(place, of_key.1)?;
            let kinds = &mut self.places.get_mut(child)?.kinds;
            let absent = objects.saturating_sub(kinds.len());
            kinds.resize(objects, Kind::Absent);
            self.count_absent(absent)?;
            self.add_value(child, rest)?;
        }
        *rest = rest.get(1..)?;
        let place = self.places.get_mut(place)?;
        place.kinds.push(Kind::Object);
        place.objects += 1;
        Some(())
    }

    /// Returns the place of the elements at a position of lists.
    fn element(&mut self, place: usize, position: usize) -> Option<usize> {
        let ShreddedPlace { column, elements, .. } = self.places.get(place)?;
        if let Some(element) = elements.get(position) {
            return Some(*element);
        }
        let column = *column;
        let element = if let Some(element) = self.columns.get(column)?.element {
            element
        } else {
            let element = self.new_column(ShreddedColumn::default())?;
            *self.columns.get_mut(column)?.element.insert(element)
        };
        let element = self.new_place(element)?;
        self.places.get_mut(place)?.elements.push(element);
        Some(element)
    }

    /// Returns the column of a key at a position of the keys or after it, and where it is.
    fn key_column(&mut self, column: usize, from: usize, key: &[u8]) -> Option<(usize, usize)> {
        let ShreddedColumn { keys, objects, .. } = self.columns.get(column)?;
        for (position, known) in keys.iter().enumerate().skip(from) {
            if self.columns.get(*known)?.key == key {
                return Some((position, *known));
            }
        }
        let (slot, before) = (keys.len(), *objects);
        self.count_absent(before)?;
        let added = self.new_column(ShreddedColumn {
            key: key.to_vec(),
            slot,
            // The objects before have no such key.
            kinds: vec![Kind::Absent; before],
            ..ShreddedColumn::default()
        })?;
        self.columns.get_mut(column)?.keys.insert(from, added);
        Some((from, added))
    }

    fn key_place(&mut self, place: usize, column: usize) -> Option<usize> {
        let slot = self.columns.get(column)?.slot;
        if let Some(Some(known)) = self.places.get(place)?.keys.get(slot) {
            return Some(*known);
        }
        let added = self.new_place(column)?;
        let keys = &mut self.places.get_mut(place)?.keys;
        keys.resize(keys.len().max(slot + 1), None);
        *keys.get_mut(slot)? = Some(added);
        Some(added)
    }

    fn count_absent(&mut self, count: usize) -> Option<()> {
        self.absent += count;
        (self.absent <= MAX_VALUES).then_some(())
    }

    fn new_column(&mut self, column: ShreddedColumn) -> Option<usize> {
        self.columns.push(column);
        Some(self.columns.len() - 1).filter(|number| *number < MAX_COLUMNS)
    }

    fn new_place(&mut self, column: usize) -> Option<usize> {
        self.places.push(ShreddedPlace { column, ..ShreddedPlace::default() });
        Some(self.places.len() - 1).filter(|number| *number < MAX_PLACES)
    }

    /// Moves the values of a place to its column, one for each of `rows`, and those of the places below.
    fn join(&mut self, place: Option<usize>, column: usize, rows: usize) -> Option<()> {
        let known =
            place.and_then(|place| self.places.get(place)).map_or(0, |known| known.kinds.len());
        self.count_absent(rows.saturating_sub(known))?;
        let into = self.columns.get_mut(column)?;
        let total = into.kinds.len() + rows;
        let Some(ShreddedPlace { kinds, numbers, scales, objects, .. }) =
            place.and_then(|place| self.places.get_mut(place))
        else {
            into.kinds.resize(total, Kind::Absent);
            return Some(());
        };
        into.kinds.append(kinds);
        into.kinds.resize(total, Kind::Absent);
        into.numbers.append(numbers);
        into.scales.append(scales);
        into.objects += *objects;
        let objects = std::mem::take(objects);
        for position in 0..self.columns.get(column)?.keys.len() {
            if objects == 0 {
                break;
            }
            let key = *self.columns.get(column)?.keys.get(position)?;
            let slot = self.columns.get(key)?.slot;
            let keys = &self.places.get(place?)?.keys;
            self.join(keys.get(slot).copied().flatten(), key, objects)?;
        }
        for position in 0..self.places.get(place?)?.elements.len() {
            let element = *self.places.get(place?)?.elements.get(position)?;
            let ShreddedPlace { column, kinds, .. } = self.places.get(element)?;
            let (column, rows) = (*column, kinds.len());
            if rows == 0 {
                break;
            }
            self.join(Some(element), column, rows)?;
        }
        Some(())
    }

    /// Writes the columns; `None` if a number does not come back from one.
    pub(super) fn finish(mut self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        write_numbers(&mut out, &self.nodes)?;
        write_length(&mut out, self.texts.list.len());
        for text in &self.texts.list {
            write_text(&mut out, text);
        }
        let mut listed = Vec::new();
        self.list(ROOT, &mut listed, &mut out)?;
        for number in &listed {
            let column = self.columns.get_mut(*number)?;
            let scale = column.unify_scales()?;
            write_length(&mut out, scale);
            write_length(&mut out, column.kinds.len());
            out.extend(column.kinds.iter().map(|kind| kind.to_byte()));
        }
        for number in &listed {
            write_numbers(&mut out, &self.columns.get(*number)?.numbers)?;
        }
        Some(out)
    }

    /// Writes the keys of a column and its parts, each with those of its own after it, and lists them in this order.
    fn list(&self, number: usize, listed: &mut Vec<usize>, out: &mut Vec<u8>) -> Option<()> {
        let column = self.columns.get(number)?;
        listed.push(number);
        write_length(out, column.keys.len());
        out.push(u8::from(column.element.is_some()));
        for key in &column.keys {
            write_text(out, &self.columns.get(*key)?.key);
            self.list(*key, listed, out)?;
        }
        if let Some(element) = column.element {
            self.list(element, listed, out)?;
        }
        Some(())
    }
}

impl ShreddedColumn {
    /// Gives its numbers the same decimals, and returns how many.
    fn unify_scales(&mut self) -> Option<usize> {
        let Some(scale) = self.scales.iter().copied().max() else { return Some(0) };
        let mut scales = self.scales.iter();
        let mut is_padded = [false; MAX_SCALE + 1];
        let numbers = self.kinds.iter().filter(|kind| kind.has_number()).zip(&mut self.numbers);
        for (_, number) in numbers.filter(|(kind, _)| **kind == Kind::Decimal) {
            let decimal = Decimal { digits: *number, scale: *scales.next()? };
            *is_padded.get_mut(decimal.scale)? |= !decimal.is_shortest();
            *number = decimal.digits_at(scale)?;
        }
        // Where some are not the shortest, all with as many decimals are written alike.
        let decimals = self.kinds.iter_mut().filter(|kind| **kind == Kind::Decimal);
        for (kind, scale) in decimals.zip(&self.scales) {
            if *is_padded.get(*scale)? {
                *kind = Kind::Padded(u8::try_from(*scale).ok()?);
            }
        }
        Some(scale)
    }
}

/// Returns the name of the node of a line, as it is written. Lines may be put together by anything.
fn node_of(line: &[u8]) -> &[u8] {
    const KEY: &[u8] = b"\"node\":\"";
    let start = line.get(..64).unwrap_or(line);
    let found = memchr::memmem::find(start, KEY).and_then(|at| line.get(at + KEY.len()..));
    let name = found.and_then(|name| name.split(|byte| *byte == b'"').next());
    name.unwrap_or_default()
}
