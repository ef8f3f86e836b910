//! Rows as Apache Parquet, in row groups of bounded size: of those written, only their places are kept in memory.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{
    Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as PhysicalType, ZstdLevel,
};
use parquet::column::writer::ColumnWriterImpl;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnPath, Type};

use crate::export::table::{SampleCell, SampleColumn};
use gtop_fleet::metrics::ValueKind;

/// Rows of a row group, about as many as readers make them.
const MAX_ROWS: usize = 120_000;
/// Bytes that the cells of a row group take in memory.
const MAX_BYTES: usize = 32 << 20;
/// Bytes of a cell with a text, without the text, and of another.
const TEXT_BYTES: usize = 48;
const VALUE_BYTES: usize = 10;

/// Encodes rows.
#[derive(Debug)]
pub(super) struct ParquetEncoder {
    /// Row groups are encoded in memory, and then go to the output.
    file: SerializedFileWriter<Vec<u8>>,
    chunks: Vec<ColumnChunk>,
    rows: usize,
    /// About how many bytes the rows take.
    bytes: usize,
}

/// The cells of a column in a row group.
#[derive(Debug)]
struct ColumnChunk {
    values: KnownValues,
    /// 1 for each row with a value, 0 for each without.
    levels: Vec<i16>,
}

#[derive(Debug)]
enum KnownValues {
    Integers(Vec<i64>),
    Numbers(Vec<f64>),
    Flags(Vec<bool>),
    Texts(Vec<ByteArray>),
}

impl ParquetEncoder {
    /// Begins a file.
    pub(super) fn new(columns: &[SampleColumn]) -> io::Result<Self> {
        let fields = columns.iter().map(|column| Ok(Arc::new(field_type(column)?)));
        let fields = fields.collect::<Result<_, ParquetError>>()?;
        let schema = Type::group_type_builder("samples").with_fields(fields).build()?;
        let properties = Arc::new(properties(columns));
        Ok(Self {
            file: SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties)?,
            chunks: columns.iter().map(|column| ColumnChunk::new(column.kind)).collect(),
            rows: 0,
            bytes: 0,
        })
    }

    /// Takes a row, and writes the row group if it is full.
    pub(super) fn push(&mut self, row: &[SampleCell], out: &mut impl Write) -> io::Result<()> {
        for (chunk, cell) in self.chunks.iter_mut().zip(row) {
            let is_known = chunk.values.push(cell);
            chunk.levels.push(is_known.into());
            self.bytes += match cell {
                SampleCell::Text(text) => TEXT_BYTES + text.len(),
                SampleCell::Unknown
                | SampleCell::Time(_)
                | SampleCell::Number(_)
                | SampleCell::Integer(_)
                | SampleCell::Flag(_) => VALUE_BYTES,
            };
        }
        self.rows += 1;
        if self.rows >= MAX_ROWS || self.bytes >= MAX_BYTES {
            self.write_row_group(out)?;
        }
        Ok(())
    }

    /// Writes the last rows and the end of the file.
    pub(super) fn finish(mut self, out: &mut impl Write) -> io::Result<()> {
        if self.rows > 0 {
            self.write_row_group(out)?;
        }
        self.file.finish()?;
        out.write_all(self.file.inner())
    }

    fn write_row_group(&mut self, out: &mut impl Write) -> io::Result<()> {
        let mut group = self.file.next_row_group()?;
        let mut chunks = self.chunks.iter_mut();
        while let Some((mut column, chunk)) = group.next_column()?.zip(chunks.next()) {
            chunk.write(&mut column)?;
            column.close()?;
        }
        group.close()?;
        (self.rows, self.bytes) = (0, 0);
        out.write_all(self.file.inner())?;
        self.file.inner_mut().clear();
        Ok(())
    }
}

impl ColumnChunk {
    const fn new(kind: ValueKind) -> Self {
        let values = match kind {
            ValueKind::Timestamp | ValueKind::Integer => KnownValues::Integers(Vec::new()),
            ValueKind::Number | ValueKind::Share => KnownValues::Numbers(Vec::new()),
            ValueKind::Flag => KnownValues::Flags(Vec::new()),
            ValueKind::Text => KnownValues::Texts(Vec::new()),
        };
        Self { values, levels: Vec::new() }
    }

    /// Moves the values to a column of the file.
    fn write(&mut self, column: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = &mut self.levels;
        match &mut self.values {
            KnownValues::Integers(values) => write(column.typed::<Int64Type>(), values, levels),
            KnownValues::Numbers(values) => write(column.typed::<DoubleType>(), values, levels),
            KnownValues::Flags(values) => write(column.typed::<BoolType>(), values, levels),
            KnownValues::Texts(values) => write(column.typed::<ByteArrayType>(), values, levels),
        }
    }
}

fn write<T: DataType>(
    column: &mut ColumnWriterImpl<'_, T>,
    values: &mut Vec<T::T>,
    levels: &mut Vec<i16>,
) -> Result<(), ParquetError> {
    column.write_batch(values, Some(levels), None)?;
    values.clear();
    levels.clear();
    Ok(())
}

impl KnownValues {
    /// Adds the value of a cell; returns false if it has none of this type.
    #[expect(clippy::cast_precision_loss, reason = "a column of numbers has amounts, too")]
    fn push(&mut self, cell: &SampleCell) -> bool {
        match (self, cell) {
            (Self::Integers(values), SampleCell::Time(at)) => values.push(at.as_micros()),
            (Self::Integers(values), SampleCell::Integer(number)) => match i64::try_from(*number) {
                Ok(number) => values.push(number),
                Err(_) => return false,
            },
            (Self::Numbers(values), SampleCell::Number(number)) => values.push(*number),
            (Self::Numbers(values), SampleCell::Integer(number)) => values.push(*number as f64),
            (Self::Flags(values), SampleCell::Flag(flag)) => values.push(*flag),
            (Self::Texts(values), SampleCell::Text(text)) => values.push((&**text).into()),
            (Self::Integers(_) | Self::Numbers(_) | Self::Flags(_) | Self::Texts(_), _) => {
                return false;
            }
        }
        true
    }
}

fn field_type(column: &SampleColumn) -> Result<Type, ParquetError> {
    let (physical, logical) = match column.kind {
        ValueKind::Timestamp => {
            (PhysicalType::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS)))
        }
        ValueKind::Integer => (PhysicalType::INT64, None),
        ValueKind::Number | ValueKind::Share => (PhysicalType::DOUBLE, None),
        ValueKind::Flag => (PhysicalType::BOOLEAN, None),
        ValueKind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let repetition = if column.is_required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
    Type::primitive_type_builder(&column.id, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .build()
}

/// Returns how the file is written, and its metadata: the unit and the description of each column.
fn properties(columns: &[SampleColumn]) -> WriterProperties {
    let metadata = columns.iter().flat_map(|column| {
        [("unit", column.unit), ("help", column.help)]
            .map(|(key, text)| KeyValue::new(format!("{key}.{}", column.id), text.to_owned()))
    });
    let metadata = metadata.filter(|pair| pair.value.as_ref().is_some_and(|text| !text.is_empty()));
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("gtop version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        // Indexes of pages are kept until the end, and rows are not in the order of any column but that of time.
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_key_value_metadata(Some(metadata.collect()));
    for column in columns.iter().filter(|column| column.kind == ValueKind::Timestamp) {
        let path = ColumnPath::from(&*column.id);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::RowAccessor as _;

    use super::*;
    use gtop_local::time::Timestamp;

    fn column(id: &'static str, kind: ValueKind) -> SampleColumn {
        let is_required = kind == ValueKind::Timestamp;
        SampleColumn { id: id.into(), kind, unit: "", help: "", is_required }
    }

    fn text(text: &str) -> SampleCell {
        SampleCell::Text(text.into())
    }

    /// Returns a table and what reads it.
    fn read(
        columns: &[SampleColumn],
        rows: impl IntoIterator<Item = Vec<SampleCell>>,
    ) -> SerializedFileReader<bytes::Bytes> {
        let (mut encoder, mut out) = (ParquetEncoder::new(columns).unwrap(), Vec::new());
        for row in rows {
            encoder.push(&row, &mut out).unwrap();
            assert!(encoder.rows < MAX_ROWS && encoder.bytes < MAX_BYTES);
            assert!(encoder.file.inner().is_empty());
        }
        encoder.finish(&mut out).unwrap();
        SerializedFileReader::new(out.into()).unwrap()
    }

    #[test]
    fn a_value_is_read_as_it_was_written_and_an_unknown_one_is_null() {
        let columns = [
            column("time", ValueKind::Timestamp),
            column("integer", ValueKind::Integer),
            column("number", ValueKind::Number),
            column("flag", ValueKind::Flag),
            column("text", ValueKind::Text),
        ];
        let long = "🦀\"',\n".repeat(8000);
        let time = SampleCell::Time(Timestamp::from_micros(1_795_226_046_497_001));
        let known = |words: &str| {
            let (integer, number) = (SampleCell::Integer(1 << 62), SampleCell::Number(0.1));
            vec![time.clone(), integer, number, SampleCell::Flag(true), text(words)]
        };
        let mut unknown = vec![SampleCell::Unknown; 5];
        unknown[0] = time.clone();
        // No signed number of 64 bits is as large, and a text is no flag.
        let mut other = unknown.clone();
        (other[1], other[3]) = (SampleCell::Integer(u64::MAX), text("true"));
        let rows = vec![known("=cmd()"), unknown, known(&long), other, known("")];
        let found = read(&columns, rows);
        let found: Vec<_> = found.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(found.len(), 5);
        for (row, words) in found.iter().zip([Some("=cmd()"), None, Some(&long), None, Some("")]) {
            assert_eq!(row.get_timestamp_micros(0).unwrap(), 1_795_226_046_497_001);
            assert_eq!(row.get_long(1).ok(), words.map(|_| 1 << 62));
            assert_eq!(row.get_double(2).ok(), words.map(|_| 0.1));
            assert_eq!(row.get_bool(3).ok(), words.map(|_| true));
            assert_eq!(row.get_string(4).ok().map(String::as_str), words);
        }
    }

    #[test]
    fn a_row_group_is_bounded_in_rows_and_in_bytes() {
        let integers = [column("integer", ValueKind::Integer)];
        let numbers = 0..MAX_ROWS as u64 * 2 + 1;
        let file = read(&integers, numbers.clone().map(|number| vec![SampleCell::Integer(number)]));
        let sizes = |file: &SerializedFileReader<_>| {
            let groups = file.metadata().row_groups().iter();
            groups.map(|group| usize::try_from(group.num_rows()).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(sizes(&file), [MAX_ROWS, MAX_ROWS, 1]);
        let found = file.get_row_iter(None).unwrap();
        let found = found.map(|row| row.unwrap().get_long(0).unwrap().cast_unsigned());
        assert!(found.eq(numbers));
        let texts = (0..40)
            .map(|number: u8| vec![text(&char::from(b'0' + number).to_string().repeat(1 << 20))]);
        let file = read(&[column("text", ValueKind::Text)], texts);
        assert_eq!(sizes(&file), [32, 8]);
    }

    #[test]
    fn a_table_without_rows_has_its_columns() {
        let file = read(&[column("text", ValueKind::Text)], []);
        let metadata = file.metadata().file_metadata();
        assert_eq!((metadata.num_rows(), metadata.schema_descr().num_columns()), (0, 1));
    }

    #[test]
    fn a_row_without_a_required_value_is_an_error() {
        let mut encoder = ParquetEncoder::new(&[column("time", ValueKind::Timestamp)]).unwrap();
        let mut out = Vec::new();
        encoder.push(&[SampleCell::Unknown], &mut out).unwrap();
        assert!(encoder.finish(&mut out).is_err());
    }
}
