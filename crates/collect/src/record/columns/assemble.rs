//! Puts lines together from columns.

use crate::record::columns::bytes::ByteReader;
use crate::record::columns::decimal::{Decimal, MAX_SCALE};
use crate::record::columns::{Kind, MAX_COLUMNS, MAX_DEPTH, MAX_PLACES, MAX_VALUES};

/// A column that is read, and how many of its values belong to places.
#[derive(Debug, Default)]
struct ReadColumn<'a> {
    key: &'a [u8],
    keys: Vec<usize>,
    element: Option<usize>,
    scale: usize,
    kinds: Vec<Kind>,
    numbers: Vec<i64>,
    placed_kinds: usize,
    placed_numbers: usize,
}

/// The values of a column at one place that are not written yet: the next ones are at these positions.
#[derive(Debug)]
struct ReadPlace {
    column: usize,
    kind: usize,
    number: usize,
    /// Without those that none of its objects has.
    keys: Vec<usize>,
    elements: Vec<usize>,
}

#[derive(Debug, Default)]
struct Assembler<'a> {
    texts: Vec<&'a [u8]>,
    columns: Vec<ReadColumn<'a>>,
    places: Vec<ReadPlace>,
    out: Vec<u8>,
    max_bytes: usize,
}

/// Returns the lines of columns, at most of this size; `None` if something is wrong.
pub(super) fn assemble(columns: &[u8], max_bytes: usize) -> Option<Vec<u8>> {
    let mut bytes = ByteReader(columns);
    let nodes = bytes.numbers(MAX_VALUES)?;
    let nodes = nodes.into_iter().map(|node| usize::try_from(node).ok());
    let nodes = nodes.collect::<Option<Vec<usize>>>()?;
    let mut assembler = Assembler { max_bytes, ..Assembler::default() };
    for _ in 0..Some(bytes.length()?).filter(|count| *count <= MAX_VALUES)? {
        assembler.texts.push(bytes.text()?);
    }
    assembler.read_column(&mut bytes, b"", 0)?;
    assembler.read_values(&mut bytes)?;
    assembler.write_lines(&nodes)
}

impl<'a> Assembler<'a> {
    /// Reads the keys of a column and its parts.
    fn read_column(
        &mut self,
        bytes: &mut ByteReader<'a>,
        key: &'a [u8],
        depth: usize,
    ) -> Option<usize> {
        let number = self.columns.len();
        if number >= MAX_COLUMNS || depth > MAX_DEPTH {
            return None;
        }
        self.columns.push(ReadColumn { key, ..ReadColumn::default() });
        let count = bytes.length()?;
        let has_element = bytes.take(1)? == [1];
        for _ in 0..count {
            let key = bytes.text()?;
            let key = self.read_column(bytes, key, depth + 1)?;
            self.columns.get_mut(number)?.keys.push(key);
        }
        if has_element {
            self.columns.get_mut(number)?.element =
                Some(self.read_column(bytes, b"", depth + 1)?);
        }
        Some(number)
    }

    fn read_values(&mut self, bytes: &mut ByteReader<'a>) -> Option<()> {
        let mut rest = MAX_VALUES;
        for column in &mut self.columns {
            column.scale = Some(bytes.length()?).filter(|scale| *scale <= MAX_SCALE)?;
            let kinds = bytes.text()?;
            rest = rest.checked_sub(kinds.len())?;
            let kinds = kinds.iter().map(|byte| Kind::from_byte(*byte));
            column.kinds = kinds.collect::<Option<_>>()?;
        }
        for column in &mut self.columns {
            column.numbers = bytes.numbers(column.kinds.len())?;
        }
        Some(())
    }

    /// Writes the lines of each node, and returns them in the order in which they were.
    fn write_lines(mut self, nodes: &[usize]) -> Option<Vec<u8>> {
        let mut counts = vec![0_usize; nodes.iter().max().filter(|max| **max < nodes.len())? + 1];
        for node in nodes {
            *counts.get_mut(*node)? += 1;
        }
        let mut ends = Vec::with_capacity(nodes.len());
        let mut next = Vec::with_capacity(counts.len());
        for count in counts {
            next.push(ends.len());
            let root = self.place(0, count)?;
            for _ in 0..count {
                self.write(root)?;
                self.out.push(b'\n');
                ends.push(self.out.len());
            }
        }
        let mut lines = Vec::with_capacity(self.out.len());
        for node in nodes {
            let next = next.get_mut(*node)?;
            let start = next.checked_sub(1).and_then(|before| ends.get(before));
            lines.extend_from_slice(self.out.get(start.copied().unwrap_or(0)..*ends.get(*next)?)?);
            *next += 1;
        }
        Some(lines)
    }

    /// Gives the next values of a column to a place, and those of its parts to the places below.
    fn place(&mut self, number: usize, rows: usize) -> Option<usize> {
        let column = self.columns.get_mut(number)?;
        let (kind, first_number) = (column.placed_kinds, column.placed_numbers);
        column.placed_kinds = kind.checked_add(rows)?;
        let (mut objects, mut next) = (0, first_number);
        let mut lists: Vec<usize> = Vec::new();
        for kind in column.kinds.get(kind..column.placed_kinds)? {
            objects += usize::from(*kind == Kind::Object);
            if *kind == Kind::List {
                lists.push(usize::try_from(*column.numbers.get(next)?).ok()?);
            }
            next += usize::from(kind.has_number());
        }
        column.placed_numbers = Some(next).filter(|next| *next <= column.numbers.len())?;
        let element = column.element;
        let key_count = if objects > 0 { column.keys.len() } else { 0 };
        let mut keys = Vec::with_capacity(key_count);
        for position in 0..key_count {
            let key = *self.columns.get(number)?.keys.get(position)?;
            if !self.pass_absent(key, objects)? {
                keys.push(self.place(key, objects)?);
            }
        }
        let mut elements = Vec::new();
        lists.retain(|length| *length > 0);
        while !lists.is_empty() {
            elements.push(self.place(element?, lists.len())?);
            lists.retain(|length| *length > elements.len());
        }
        self.places.push(ReadPlace { column: number, kind, number: first_number, keys, elements });
        Some(self.places.len() - 1).filter(|number| *number < MAX_PLACES)
    }

    /// Returns true if the next values of a column are all absent, and passes them.
    fn pass_absent(&mut self, number: usize, rows: usize) -> Option<bool> {
        let column = self.columns.get_mut(number)?;
        let end = column.placed_kinds.checked_add(rows)?;
        let kinds = column.kinds.get(column.placed_kinds..end)?;
        let is_absent = kinds.iter().all(|kind| *kind == Kind::Absent);
        if is_absent {
            column.placed_kinds = end;
        }
        Some(is_absent)
    }

    /// Writes the next value of a place.
    fn write(&mut self, place: usize) -> Option<()> {
        let at = self.places.get_mut(place)?;
        let column = self.columns.get(at.column)?;
        let kind = *column.kinds.get(at.kind)?;
        at.kind += 1;
        let mut digits = 0;
        if kind.has_number() {
            digits = *column.numbers.get(at.number)?;
            at.number += 1;
        }
        let out = &mut self.out;
        match kind {
            Kind::Absent => return None,
            Kind::Null => out.extend_from_slice(b"null"),
            Kind::False => out.extend_from_slice(b"false"),
            Kind::True => out.extend_from_slice(b"true"),
            Kind::Whole => Decimal { digits, scale: 0 }.write(out),
            Kind::Decimal => Decimal { digits, scale: column.scale }.shortest().write(out),
            Kind::Padded(decimals) => {
                Decimal { digits, scale: column.scale }
                    .with_scale(usize::from(decimals))?
                    .write(out);
            }
            Kind::Text => {
                out.push(b'"');
                out.extend_from_slice(self.texts.get(usize::try_from(digits).ok()?)?);
                out.push(b'"');
            }
            Kind::Written => out.extend_from_slice(self.texts.get(usize::try_from(digits).ok()?)?),
            Kind::Object => self.write_object(place)?,
            Kind::List => self.write_list(place, usize::try_from(digits).ok()?)?,
        }
        (self.out.len() <= self.max_bytes).then_some(())
    }

    fn write_object(&mut self, place: usize) -> Option<()> {
        let keys = std::mem::take(&mut self.places.get_mut(place)?.keys);
        self.out.push(b'{');
        let mut is_first = true;
        for number in &keys {
            let key = self.places.get_mut(*number)?;
            let column = self.columns.get(key.column)?;
            if column.kinds.get(key.kind) == Some(&Kind::Absent) {
                key.kind += 1;
                continue;
            }
            let separator: &[u8] = if std::mem::take(&mut is_first) { b"\"" } else { b",\"" };
            self.out.extend_from_slice(separator);
            self.out.extend_from_slice(column.key);
            self.out.extend_from_slice(b"\":");
            self.write(*number)?;
        }
        self.out.push(b'}');
        self.places.get_mut(place)?.keys = keys;
        Some(())
    }

    fn write_list(&mut self, place: usize, length: usize) -> Option<()> {
        self.out.push(b'[');
        for position in 0..length {
            if position > 0 {
                self.out.push(b',');
            }
            let element = *self.places.get(place)?.elements.get(position)?;
            self.write(element)?;
        }
        self.out.push(b']');
        Some(())
    }
}
