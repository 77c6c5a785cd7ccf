//! Messages of ONNX, as far as an exported model needs them: fields and numbers are those of the published `onnx.proto`, IR version 8.
//!
//! ```text
//! Model → Graph → nodes, inputs, outputs, initialisers (tensors)
//! ```

/// IR version that is written. Every runtime since 2021 reads it.
pub const IR_VERSION: i64 = 8;
/// Version of the operators. Gather, Cast and ReduceSum have had their present form since 13.
pub const OPSET: i64 = 17;

/// Element types of tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum ElementType {
    /// Floats of 32 bits.
    Float = 1,
    /// Unsigned integers of 8 bits.
    Uint8 = 2,
    /// Signed integers of 64 bits.
    Int64 = 7,
    /// Floats of 16 bits with 11 bits of precision.
    Float16 = 10,
    /// Floats of 16 bits with the range of f32.
    Bfloat16 = 16,
}

impl ElementType {
    /// Bytes of an element.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Float => 4,
            Self::Int64 => 8,
            Self::Float16 | Self::Bfloat16 => 2,
            Self::Uint8 => 1,
        }
    }
}

/// A file with a model.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Model {
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    #[prost(string, tag = "2")]
    pub producer_name: String,
    #[prost(string, tag = "3")]
    pub producer_version: String,
    #[prost(string, tag = "6")]
    pub doc_string: String,
    #[prost(message, optional, tag = "7")]
    pub graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSet>,
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<Entry>,
}

/// A set of operators that a model uses; the empty domain is ONNX's own.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OperatorSet {
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// A name with a value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Entry {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

/// Operations of a model, in an order in which they can be carried out.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<Node>,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<Tensor>,
    #[prost(string, tag = "10")]
    pub doc_string: String,
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfo>,
}

/// An operation.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Node {
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(string, tag = "4")]
    pub op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<Attribute>,
}

/// A setting of an operation: an integer, or several.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Attribute {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    /// 2 for an integer, 7 for several.
    #[prost(int32, tag = "20")]
    pub kind: i32,
}

/// Name, type and meaning of an input or output.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ValueInfo {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<Type>,
    #[prost(string, tag = "3")]
    pub doc_string: String,
}

/// Type of a value, which is always a tensor here.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Type {
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorType>,
}

/// Element type and shape of a tensor.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorType {
    #[prost(int32, tag = "1")]
    pub elem_type: i32,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<Shape>,
}

/// Dimensions of a tensor.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Shape {
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<Dimension>,
}

/// One dimension: a number, or a name for one that the caller chooses.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Dimension {
    #[prost(int64, optional, tag = "1")]
    pub dim_value: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub dim_param: Option<String>,
}

/// A constant tensor: its bytes are in `raw_data`, or in a file beside the model.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Tensor {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    #[prost(string, tag = "8")]
    pub name: String,
    #[prost(bytes = "vec", tag = "9")]
    pub raw_data: Vec<u8>,
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<Entry>,
    /// 0 for `raw_data`, 1 for `external_data`.
    #[prost(int32, tag = "14")]
    pub data_location: i32,
}

/// Number of the field `graph` in [`Model`].
pub const GRAPH_FIELD: u32 = 7;
/// Number of the field `initializer` in [`Graph`].
pub const INITIALIZER_FIELD: u32 = 5;
/// Number of the field `raw_data` in [`Tensor`].
pub const RAW_DATA_FIELD: u32 = 9;
