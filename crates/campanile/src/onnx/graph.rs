//! A graph of ONNX operations under construction: values have names, and every operation names the value that it makes.

use super::proto::{
    Attribute, Dimension, ElementType, Graph, Node, Shape, Tensor, TensorType, Type, ValueInfo,
};
use std::ops::Range;

/// Name of a value in a graph.
pub type Value = String;

/// Parameter of the model that becomes an initialiser; its numbers are written later.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Name of the tensor in the graph.
    pub name: String,
    /// Shape of the tensor.
    pub shape: Vec<usize>,
    /// Type of the numbers that are written.
    pub element: ElementType,
    /// What the numbers are.
    pub numbers: Numbers,
}

/// Where the numbers of a parameter come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// All numbers of the checkpoint's tensor of the same name.
    All,
    /// 8-bit codes of the rows of the table of the same name.
    Codes,
    /// Scale and minimum of each row of this table of 8-bit codes.
    Ranges(String),
}

impl Parameter {
    /// Number of bytes of the tensor.
    pub fn bytes(&self) -> u64 {
        self.shape.iter().map(|&n| n as u64).product::<u64>() * self.element.bytes()
    }
}

/// Size of a dimension of an input or output.
pub enum Size {
    /// Always this many.
    Fixed(usize),
    /// As many as the caller gives; inputs with the same name have equally many.
    Free(String),
}

/// A graph that grows operation by operation.
#[derive(Default)]
pub struct GraphBuilder {
    graph: Graph,
    parameters: Vec<Parameter>,
}

impl GraphBuilder {
    /// The graph, and the parameters that its operations read.
    pub fn finish(self, name: &str) -> (Graph, Vec<Parameter>) {
        (Graph { name: name.into(), ..self.graph }, self.parameters)
    }

    /// Adds an input.
    pub fn input(&mut self, name: &str, element: ElementType, sizes: Vec<Size>, doc: &str) -> Value {
        self.graph.input.push(value_info(name, element, sizes, doc));
        name.into()
    }

    /// Makes a value an output, under a name of its own.
    pub fn output(&mut self, value: Value, name: &str, sizes: Vec<Size>, doc: &str) {
        self.push("Identity", &[&value], name.into(), vec![]);
        self.graph.output.push(value_info(name, ElementType::Float, sizes, doc));
    }

    /// Adds a parameter of the model.
    pub fn parameter(&mut self, name: &str, shape: Vec<usize>, element: ElementType) -> Value {
        self.push_parameter(Parameter { name: name.into(), shape, element, numbers: Numbers::All })
    }

    /// Adds a table of 8-bit codes: the codes, and scale and minimum of each row.
    pub fn codes(&mut self, name: &str, [rows, width]: [usize; 2]) -> [Value; 2] {
        let codes = Parameter {
            name: name.into(),
            shape: vec![rows, width],
            element: ElementType::Uint8,
            numbers: Numbers::Codes,
        };
        let ranges = Parameter {
            name: format!("{name}.ranges"),
            shape: vec![rows, 2],
            element: ElementType::Float,
            numbers: Numbers::Ranges(name.into()),
        };
        [codes, ranges].map(|parameter| self.push_parameter(parameter))
    }

    /// A parameter that several operations read is kept once.
    fn push_parameter(&mut self, parameter: Parameter) -> Value {
        let name = parameter.name.clone();
        if !self.parameters.iter().any(|known| known.name == name) {
            self.parameters.push(parameter);
        }
        name
    }

    /// Adds a list of whole numbers.
    pub fn integers(&mut self, values: &[i64]) -> Value {
        let raw_data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(ElementType::Int64, vec![values.len() as i64], raw_data)
    }

    /// Adds a single whole number.
    pub fn integer(&mut self, value: i64) -> Value {
        self.constant(ElementType::Int64, vec![], value.to_le_bytes().to_vec())
    }

    /// Adds a single float.
    pub fn float(&mut self, value: f32) -> Value {
        self.constant(ElementType::Float, vec![], value.to_le_bytes().to_vec())
    }

    /// A constant; equal ones are kept once.
    fn constant(&mut self, element: ElementType, dims: Vec<i64>, raw_data: Vec<u8>) -> Value {
        let data_type = element as i32;
        let same = |t: &&Tensor| (t.data_type, &t.dims, &t.raw_data) == (data_type, &dims, &raw_data);
        if let Some(tensor) = self.graph.initializer.iter().find(same) {
            return tensor.name.clone();
        }
        let name = format!("constant.{}", self.graph.initializer.len());
        let tensor = Tensor { dims, data_type, name: name.clone(), raw_data, ..Tensor::default() };
        self.graph.initializer.push(tensor);
        name
    }

    /// Adds an operation with one output, whose name is made of that of the operation.
    pub fn op(&mut self, op: &str, inputs: &[&Value], attributes: Vec<Attribute>) -> Value {
        let output = format!("{}.{}", op.to_lowercase(), self.graph.node.len());
        self.push(op, inputs, output, attributes)
    }

    fn push(&mut self, op: &str, inputs: &[&Value], output: Value, attribute: Vec<Attribute>) -> Value {
        let input = inputs.iter().map(|&input| input.clone()).collect();
        let name = format!("node.{}", self.graph.node.len());
        let node = Node { input, output: vec![output.clone()], name, op_type: op.into(), attribute };
        self.graph.node.push(node);
        output
    }

    /// Values side by side; a single one stays as it is.
    pub fn concat(&mut self, values: &[Value]) -> Value {
        match values {
            [one] => one.clone(),
            several => {
                let inputs: Vec<&Value> = several.iter().collect();
                self.op("Concat", &inputs, vec![int("axis", 1)])
            }
        }
    }

    /// Sum of values of one shape.
    pub fn sum(&mut self, values: &[Value]) -> Value {
        let mut values = values.iter();
        let first = values.next().cloned().unwrap_or_default();
        values.fold(first, |sum, value| self.op("Add", &[&sum, value], vec![]))
    }

    /// Some adjoining columns of a matrix of `width` columns.
    pub fn slice(&mut self, value: &Value, columns: Range<usize>, width: usize) -> Value {
        if columns == (0..width) {
            return value.clone();
        }
        let [start, end] = [columns.start, columns.end].map(|at| self.integers(&[at as i64]));
        let axis = self.integers(&[1]);
        self.op("Slice", &[value, &start, &end, &axis], vec![])
    }

    /// Columns of a matrix of `width` columns, in the order of the ranges.
    pub fn columns(&mut self, value: &Value, ranges: &[Range<usize>], width: usize) -> Value {
        if let [range] = ranges {
            return self.slice(value, range.clone(), width);
        }
        let indices: Vec<i64> = ranges.iter().cloned().flatten().map(|at| at as i64).collect();
        let indices = self.integers(&indices);
        self.op("Gather", &[value, &indices], vec![int("axis", 1)])
    }

    /// Gives the numbers of `value` another `shape`, in which −1 stands for the dimension that follows from the others.
    pub fn reshape(&mut self, value: &Value, shape: &[i64]) -> Value {
        let shape = self.integers(shape);
        self.op("Reshape", &[value, &shape], vec![])
    }
}

/// A setting that is one integer.
pub fn int(name: &str, value: i64) -> Attribute {
    Attribute { name: name.into(), i: Some(value), kind: 2, ..Attribute::default() }
}

/// A setting that is a list of integers.
pub fn ints(name: &str, values: &[i64]) -> Attribute {
    Attribute { name: name.into(), ints: values.to_vec(), kind: 7, ..Attribute::default() }
}

fn value_info(name: &str, element: ElementType, sizes: Vec<Size>, doc: &str) -> ValueInfo {
    let dimension = |size: Size| match size {
        Size::Fixed(size) => Dimension { dim_value: Some(size as i64), dim_param: None },
        Size::Free(name) => Dimension { dim_value: None, dim_param: Some(name) },
    };
    let shape = Shape { dim: sizes.into_iter().map(dimension).collect() };
    let tensor = TensorType { elem_type: element as i32, shape: Some(shape) };
    ValueInfo { name: name.into(), r#type: Some(Type { tensor_type: Some(tensor) }), doc_string: doc.into() }
}
