//! The JSON Schema of the snapshot, generated from the types that write the snapshot and from the field table, so
//! that the two cannot disagree.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::json;

use crate::export::json::Snapshot;
use gtop_fleet::Node;
use gtop_fleet::metrics::{
    Field, HOST, JOB, JobAt, PROCESS, Usage, Value, ValueKind, device_fields, measured_digits,
};
use gtop_model::{Device, Reason};

/// Writes the JSON Schema (2020-12) of a snapshot.
pub fn write_json_schema(out: &mut impl Write) -> io::Result<()> {
    let mut objects = Objects::default();
    let top = Snapshot::shape(&mut objects);
    let schema = Schema {
        dialect: "https://json-schema.org/draft/2020-12/schema",
        title: "gtop --json",
        description: COMPATIBILITY,
        top,
        objects,
    };
    serde_json::to_writer_pretty(&mut *out, &schema)?;
    out.write_all(b"\n")
}

/// A value of the snapshot: it serialises itself and describes its schema.
pub(super) trait Shaped: Serialize {
    /// Returns the shape and declares the objects it uses.
    fn shape(objects: &mut Objects) -> JsonShape;
}

/// The shape of a value.
#[derive(Debug)]
pub(super) enum JsonShape {
    /// The type of a metric.
    Metric(ValueKind),
    /// A constant number.
    Const(u32),
    /// This or null.
    Nullable(Box<Self>),
    /// An array of these.
    Array(Box<Self>),
    /// One of two.
    AnyOf(Box<[Self; 2]>),
    /// A reference to the object of this name.
    Ref(&'static str),
    /// An object with the reasons why some of these metrics are null.
    Reasons(Vec<&'static str>),
}

/// The objects of a snapshot, by name.
#[derive(Debug, Default, Serialize)]
pub(super) struct Objects(BTreeMap<&'static str, Object>);

#[derive(Debug, Default)]
struct Object {
    description: String,
    keys: Vec<SchemaKey>,
}

/// A key of an object. An object always has all its keys, and no others.
#[derive(Debug, Serialize)]
pub(super) struct SchemaKey {
    #[serde(skip)]
    pub(super) name: &'static str,
    pub(super) description: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) unit: &'static str,
    #[serde(flatten)]
    pub(super) shape: JsonShape,
}

impl Objects {
    /// Adds an object, unless it is already declared.
    pub(super) fn declare(
        &mut self,
        name: &'static str,
        description: &[&str],
        keys: impl FnOnce(&mut Self) -> Vec<SchemaKey>,
    ) -> JsonShape {
        if !self.0.contains_key(name) {
            self.0.insert(name, Object::default());
            let keys = keys(self);
            self.0.insert(name, Object { description: doc_text(description), keys });
        }
        JsonShape::Ref(name)
    }
}

/// Joins the lines of a doc comment into one, without backticks and the final full stop.
pub(super) fn doc_text(lines: &[&str]) -> String {
    let text = lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ").replace('`', "");
    text.strip_suffix('.').unwrap_or(&text).to_owned()
}

/// Declares an object of the snapshot: a struct whose fields are its keys, in order, and whose doc comments become
/// the schema's descriptions. `..metrics: Metrics<S>` stands for all fields of an `S` and the `unknown` key. With
/// `of`, each key has its value too, computed from these parameters and the `let`s after `with`.
macro_rules! object {
    (
        $(#[doc = $doc:literal])+
        $vis:vis $name:ident $(<$life:lifetime>)? as $title:literal
            of ($($parameter:ident: $given:ty),+ $(,)?) $(with { $($lets:tt)+ })? {
            $($(#[doc = $help:literal])+ $key:ident: $type:ty = $value:expr,)*
            $(
                ..$metrics:ident: $measured:ty = $metric_values:expr,
                $($(#[doc = $more_help:literal])+ $more:ident: $more_type:ty = $more_value:expr,)*
            )?
        }
    ) => {
        $crate::export::json::schema::object! {
            $(#[doc = $doc])+
            $vis $name $(<$life>)? as $title {
                $($(#[doc = $help])+ $key: $type,)*
                $(
                    ..$metrics: $measured,
                    $($(#[doc = $more_help])+ $more: $more_type,)*
                )?
            }
        }

        impl $(<$life>)? $name $(<$life>)? {
            $vis fn of($($parameter: $given),+) -> Self {
                $($($lets)+)?
                Self {
                    $($key: $value,)*
                    $(
                        $metrics: $metric_values,
                        $($more: $more_value,)*
                    )?
                }
            }
        }
    };
    (
        $(#[doc = $doc:literal])+
        $vis:vis $name:ident $(<$life:lifetime>)? as $title:literal {
            $($(#[doc = $help:literal])+ $key:ident: $type:ty,)*
            $(
                ..$metrics:ident: $measured:ty,
                $($(#[doc = $more_help:literal])+ $more:ident: $more_type:ty,)*
            )?
        }
    ) => {
        $(#[doc = $doc])+
        $vis struct $name $(<$life>)? {
            $($(#[doc = $help])+ $key: $type,)*
            $(
                /// The metrics.
                $metrics: $measured,
                $($(#[doc = $more_help])+ $more: $more_type,)*
            )?
        }

        impl $(<$life>)? serde::Serialize for $name $(<$life>)? {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                let mut map = serializer.serialize_map(None)?;
                $(map.serialize_entry(stringify!($key), &self.$key)?;)*
                $(
                    self.$metrics.write(&mut map)?;
                    $(map.serialize_entry(stringify!($more), &self.$more)?;)*
                )?
                map.end()
            }
        }

        impl $(<$life>)? $crate::export::json::schema::Shaped for $name $(<$life>)? {
            fn shape(
                objects: &mut $crate::export::json::schema::Objects,
            ) -> $crate::export::json::schema::JsonShape {
                use $crate::export::json::schema::{SchemaKey, doc_text};
                use gtop_fleet::metrics::unit_of;
                objects.declare($title, &[$($doc),+], |objects| {
                    let keys = vec![$(SchemaKey {
                        name: stringify!($key),
                        description: doc_text(&[$($help),+]),
                        unit: unit_of(stringify!($key)),
                        shape: <$type>::shape(objects),
                    },)*];
                    $(
                        let more = [$(SchemaKey {
                            name: stringify!($more),
                            description: doc_text(&[$($more_help),+]),
                            unit: unit_of(stringify!($more)),
                            shape: <$more_type>::shape(objects),
                        },)*];
                        let keys = keys.into_iter().chain(<$measured>::keys()).chain(more).collect();
                    )?
                    keys
                })
            }
        }
    };
}

pub(super) use object;

/// A type whose metrics are in the field table.
pub(super) trait HasMetrics: Clone + 'static {
    /// Keys that are not fields and can be null with a reason.
    const EXTRA_KEYS: &[&str] = &[];

    fn fields() -> impl Iterator<Item = &'static Field<Self>>;
}

impl HasMetrics for Device {
    const EXTRA_KEYS: &[&str] = &["processes"];

    fn fields() -> impl Iterator<Item = &'static Field<Self>> {
        device_fields()
    }
}

impl HasMetrics for Node {
    fn fields() -> impl Iterator<Item = &'static Field<Self>> {
        HOST.iter()
    }
}

impl HasMetrics for Usage {
    fn fields() -> impl Iterator<Item = &'static Field<Self>> {
        PROCESS.iter()
    }
}

impl HasMetrics for JobAt {
    fn fields() -> impl Iterator<Item = &'static Field<Self>> {
        JOB.iter()
    }
}

/// All metrics of a subject, and why some are unknown.
pub(super) struct Metrics<'a, S: HasMetrics> {
    pub(super) subject: Cow<'a, S>,
    /// One of [`HasMetrics::EXTRA_KEYS`] with the reason, if it is unknown.
    pub(super) unknown_extra: Option<(&'static str, Reason)>,
    /// Why a value is missing that was never sampled.
    pub(super) unsampled: Reason,
}

impl<'a, S: HasMetrics> Metrics<'a, S> {
    pub(super) fn of(subject: &'a S) -> Self {
        let unsampled = Reason::NotSampled;
        Self { subject: Cow::Borrowed(subject), unknown_extra: None, unsampled }
    }

    /// Writes each field by its id, and why the unknown ones are unknown.
    pub(super) fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let mut unknown: BTreeMap<&str, &str> =
            self.unknown_extra.into_iter().map(|(key, why)| (key, why.text())).collect();
        for field in S::fields() {
            let value = (field.read)(&self.subject);
            if let Value::Unknown(reason) = value {
                let reason = if reason == Reason::NotSampled { self.unsampled } else { reason };
                unknown.insert(field.id, reason.text());
            }
            write_value(map, field.id, &value)?;
        }
        map.serialize_entry("unknown", &unknown)
    }

    pub(super) fn keys() -> Vec<SchemaKey> {
        let ids = S::fields().map(|field| field.id).chain(S::EXTRA_KEYS.iter().copied()).collect();
        let reasons = SchemaKey {
            name: "unknown",
            description: "reason for each metric that is null".to_owned(),
            unit: "",
            shape: JsonShape::Reasons(ids),
        };
        let metrics = S::fields().map(|field| SchemaKey {
            name: field.id,
            description: field.help.to_owned(),
            unit: field.unit(),
            shape: JsonShape::Nullable(Box::new(JsonShape::Metric(field.kind))),
        });
        metrics.chain([reasons]).collect()
    }
}

/// Writes a value, null if it is unknown.
pub(super) fn write_value<M: SerializeMap>(
    map: &mut M,
    key: &str,
    value: &Value,
) -> Result<(), M::Error> {
    match value {
        Value::Unknown(_) => map.serialize_entry(key, &()),
        Value::Number(number) => map.serialize_entry(key, &measured_digits(*number)),
        Value::Integer(number) => map.serialize_entry(key, number),
        Value::Text(text) => map.serialize_entry(key, &**text),
        Value::Flag(flag) => map.serialize_entry(key, flag),
    }
}

/// The version of the schema.
pub(super) struct SchemaVersion;

impl SchemaVersion {
    const NUMBER: u32 = 2;
}

impl Serialize for SchemaVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(Self::NUMBER)
    }
}

impl Shaped for SchemaVersion {
    fn shape(_: &mut Objects) -> JsonShape {
        JsonShape::Const(Self::NUMBER)
    }
}

/// A time in RFC 3339 format.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct Moment(pub(super) String);

macro_rules! scalar_shapes {
    ($($type:ty => $kind:ident,)*) => {
        $(impl Shaped for $type {
            fn shape(_: &mut Objects) -> JsonShape {
                JsonShape::Metric(ValueKind::$kind)
            }
        })*
    };
}

scalar_shapes! {
    &str => Text,
    String => Text,
    Moment => Timestamp,
    bool => Flag,
    u8 => Integer,
    u32 => Integer,
    u64 => Integer,
    usize => Integer,
    f64 => Number,
}

impl<T: Shaped> Shaped for Option<T> {
    fn shape(objects: &mut Objects) -> JsonShape {
        JsonShape::Nullable(Box::new(T::shape(objects)))
    }
}

impl<T: Shaped> Shaped for Vec<T> {
    fn shape(objects: &mut Objects) -> JsonShape {
        JsonShape::Array(Box::new(T::shape(objects)))
    }
}

/// What may change without a new version.
const COMPATIBILITY: &str = "Within a version, no key is removed or renamed or changes its type, unit or meaning. New \
    keys may be added, lists of words may become longer, and texts for people may change. Snapshots with --fields have \
    other devices";

#[derive(Serialize)]
struct Schema {
    #[serde(rename = "$schema")]
    dialect: &'static str,
    title: &'static str,
    description: &'static str,
    #[serde(flatten)]
    top: JsonShape,
    #[serde(rename = "$defs")]
    objects: Objects,
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let names: Vec<&str> = self.keys.iter().map(|key| key.name).collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("description", &self.description)?;
        map.serialize_entry("type", "object")?;
        map.serialize_entry("properties", &Properties(&self.keys))?;
        map.serialize_entry("required", &names)?;
        map.serialize_entry("additionalProperties", &false)?;
        map.end()
    }
}

struct Properties<'a>(&'a [SchemaKey]);

impl Serialize for Properties<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|key| (key.name, key)))
    }
}

impl Serialize for JsonShape {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.write(&mut map)?;
        map.end()
    }
}

impl JsonShape {
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        match self {
            Self::Metric(kind) => metric(map, *kind, false),
            Self::Const(number) => map.serialize_entry("const", number),
            Self::Nullable(shape) => match &**shape {
                Self::Metric(kind) => metric(map, *kind, true),
                Self::Array(items) => {
                    map.serialize_entry("type", &["array", "null"])?;
                    map.serialize_entry("items", items)
                }
                shape @ (Self::Const(_)
                | Self::Nullable(_)
                | Self::AnyOf(_)
                | Self::Ref(_)
                | Self::Reasons(_)) => {
                    map.serialize_entry("anyOf", &(shape, json!({"type": "null"})))
                }
            },
            Self::Array(items) => {
                map.serialize_entry("type", "array")?;
                map.serialize_entry("items", items)
            }
            Self::AnyOf(shapes) => map.serialize_entry("anyOf", shapes),
            Self::Ref(name) => map.serialize_entry("$ref", &format!("#/$defs/{name}")),
            Self::Reasons(ids) => {
                map.serialize_entry("type", "object")?;
                map.serialize_entry("propertyNames", &json!({"enum": ids}))?;
                map.serialize_entry("additionalProperties", &json!({"type": "string"}))
            }
        }
    }
}

fn metric<M: SerializeMap>(
    map: &mut M,
    kind: ValueKind,
    is_nullable: bool,
) -> Result<(), M::Error> {
    let name = match kind {
        ValueKind::Number | ValueKind::Share => "number",
        ValueKind::Integer => "integer",
        ValueKind::Text | ValueKind::Timestamp => "string",
        ValueKind::Flag => "boolean",
    };
    if is_nullable {
        map.serialize_entry("type", &[name, "null"])?;
    } else {
        map.serialize_entry("type", name)?;
    }
    match kind {
        ValueKind::Share => {
            map.serialize_entry("minimum", &0)?;
            map.serialize_entry("maximum", &100)
        }
        ValueKind::Integer => map.serialize_entry("minimum", &0),
        ValueKind::Timestamp => map.serialize_entry("format", "date-time"),
        ValueKind::Number | ValueKind::Text | ValueKind::Flag => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::export::write_json;
    use gtop_fleet::Fleet;
    use gtop_local::time::Timestamp;
    use gtop_model::NodeName;
    use serde_json::Value as Json;

    fn schema() -> Json {
        let mut text = Vec::new();
        write_json_schema(&mut text).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    fn check_fields<S: HasMetrics>(schema: &Json, object: &str) {
        let properties = &schema["$defs"][object]["properties"];
        for field in S::fields() {
            let types = &properties[field.id]["type"];
            assert_eq!(types[1], "null", "{} of {object}", field.id);
            assert_eq!(properties[field.id]["description"], field.help);
        }
        let named = properties["unknown"]["propertyNames"]["enum"].as_array().unwrap();
        assert_eq!(named.len(), S::fields().count() + S::EXTRA_KEYS.len());
    }

    #[test]
    fn every_field_is_in_the_schema() {
        let schema = schema();
        check_fields::<Device>(&schema, "device");
        check_fields::<Node>(&schema, "host");
        check_fields::<Usage>(&schema, "process");
        check_fields::<JobAt>(&schema, "job");
        let power = &schema["$defs"]["device"]["properties"]["power_watts"];
        assert_eq!((&power["type"], &power["unit"]), (&json!(["number", "null"]), &json!("W")));
        let share = &schema["$defs"]["device"]["properties"]["utilization_percent"];
        assert_eq!((&share["minimum"], &share["maximum"]), (&json!(0), &json!(100)));
        // The intended fan speed may exceed 100.
        let fan = &schema["$defs"]["device"]["properties"]["fan_percent"];
        assert!(fan["maximum"].is_null(), "{fan}");
    }

    #[test]
    fn every_object_is_described_and_has_all_its_keys() {
        let schema = schema();
        for (name, object) in schema["$defs"].as_object().unwrap() {
            let required = object["required"].as_array().unwrap();
            let properties = object["properties"].as_object().unwrap();
            assert_eq!(object["additionalProperties"], false, "{name}");
            assert!(required.iter().all(|key| properties.contains_key(key.as_str().unwrap())));
            assert_eq!(required.len(), properties.len(), "{name}: duplicate key");
            for (key, property) in properties {
                let description = property["description"].as_str().unwrap();
                assert!(!description.is_empty() && !description.ends_with('.'), "{key} of {name}");
            }
        }
    }

    #[test]
    fn a_node_without_samples_has_all_keys() {
        let node = Node::new(NodeName::new("gpu01").unwrap(), std::time::Duration::from_secs(60));
        let fleet = Fleet::new([Arc::new(node)].into());
        let mut text = Vec::new();
        write_json(&mut text, &fleet, Timestamp::default(), "test").unwrap();
        let snapshot: Json = serde_json::from_slice(&text).unwrap();
        let schema = schema();
        for (object, value) in [
            ("snapshot", &snapshot),
            ("node", &snapshot["nodes"][0]),
            ("host", &snapshot["nodes"][0]["host"]),
        ] {
            let keys: Vec<_> = value.as_object().unwrap().keys().collect();
            let known: Vec<_> =
                schema["$defs"][object]["properties"].as_object().unwrap().keys().collect();
            assert_eq!(keys, known, "{object}");
        }
    }
}
