//! Numbers as bytes.

use pco::ChunkConfig;
use pco::standalone::{simple_compress, simple_decompress_into};

/// Fewer numbers are written as differences: packed ones have about 30 bytes beside them.
const MIN_PACKED: usize = 48;

/// Appends a size in one to ten bytes: seven bits each, the lowest first; all but the last have the highest bit set.
pub(super) fn write_size(out: &mut Vec<u8>, mut size: u64) {
    while let Ok(byte) = u8::try_from(size & 0x7f)
        && size >= 0x80
    {
        out.push(byte | 0x80);
        size >>= 7;
    }
    out.extend(u8::try_from(size));
}

/// Appends the length of a list.
pub(super) fn write_length(out: &mut Vec<u8>, length: usize) {
    write_size(out, u64::try_from(length).unwrap_or(u64::MAX));
}

/// Appends a text after its length.
pub(super) fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    write_length(out, text.len());
    out.extend_from_slice(text);
}

/// Appends numbers after their count: few as differences, whose sign is the lowest bit, more packed by pco.
pub(super) fn write_numbers(out: &mut Vec<u8>, numbers: &[i64]) -> Option<()> {
    write_length(out, numbers.len());
    if numbers.len() >= MIN_PACKED {
        write_text(out, &simple_compress(numbers, &ChunkConfig::default()).ok()?);
        return Some(());
    }
    let mut before = 0;
    for number in numbers {
        let change = number.wrapping_sub(before);
        write_size(out, ((change << 1) ^ (change >> 63)).cast_unsigned());
        before = *number;
    }
    Some(())
}

/// Bytes that are read one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByteReader<'a>(pub(super) &'a [u8]);

impl<'a> ByteReader<'a> {
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads what [`write_size`] writes.
    fn size(&mut self) -> Option<u64> {
        let mut size = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = *self.take(1)? else { return None };
            size |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(size);
            }
        }
        None
    }

    /// Reads what [`write_length`] writes.
    pub(super) fn length(&mut self) -> Option<usize> {
        usize::try_from(self.size()?).ok()
    }

    /// Reads what [`write_text`] writes.
    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    /// Reads what [`write_numbers`] writes; `None` if there are more than `max`.
    pub(super) fn numbers(&mut self, max: usize) -> Option<Vec<i64>> {
        let count = Some(self.length()?).filter(|count| *count <= max)?;
        if count >= MIN_PACKED {
            let mut numbers = vec![0; count];
            let progress = simple_decompress_into(self.text()?, &mut numbers).ok()?;
            return (progress.n_processed == count).then_some(numbers);
        }
        let mut numbers = Vec::with_capacity(count);
        let mut before = 0_i64;
        for _ in 0..count {
            let change = self.size()?;
            let sign = (change & 1).cast_signed();
            before = before.wrapping_add((change >> 1).cast_signed() ^ -sign);
            numbers.push(before);
        }
        Some(numbers)
    }
}
