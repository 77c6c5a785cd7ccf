#[cfg(target_arch = "x86_64")]
mod codec;
mod gemm {
    mod right;
}
mod halves;
mod lookup;
mod optimizer {
    mod row;
}
mod peak {
    mod memory;
}
mod sort;
mod stream;
mod team;
#[cfg(target_arch = "x86_64")]
mod tile {
    mod size;
}

use ground::Activation;
use kernels::{
    Buffer, Cpu, Device, DotShape, InputGradient, LinearAt, LinearBackward, LinearCrossForward,
    LinearForward, LinearShape,
};

/// Two threads with no more than AVX2; `None` where the machine has less.
#[cfg(target_arch = "x86_64")]
fn avx2() -> Option<Device> {
    let mut levels = std::iter::successors(Some(Cpu::new(2).unwrap()), Cpu::below);
    levels.find(|cpu| cpu.instructions() == "avx2").map(Device::Cpu)
}

/// Other tests run the machine's best level and the portable one; this runs the level between.
#[cfg(target_arch = "x86_64")]
#[test]
fn avx2_agrees_with_the_reference() {
    let Some(device) = avx2() else { return };
    let (rows, inputs, outputs, count, dim) = (37, 300, 45, 21, 20);
    let shape = LinearShape { rows, inputs, outputs };
    let floats = |len: usize| {
        let data: Vec<f32> = (0..len).map(|i| (i * 7919 % 1000) as f32 / 500.0 - 1.0).collect();
        Buffer::from_slice(&device, &data).unwrap()
    };
    let run = |device: &Device| {
        let (x, w) = (floats(rows * inputs), floats(inputs * outputs + outputs));
        let (mut y, mut dx, mut dw) =
            (floats(rows * outputs), floats(rows * inputs), floats(inputs * outputs + outputs));
        let at = LinearAt { weight: 0, bias: Some(inputs * outputs) };
        let relu = Activation::Relu;
        device
            .linear_forward(LinearForward {
                shape,
                x: &x,
                parameters: &w,
                at,
                packed: None,
                activation: relu,
                y: &mut y,
            })
            .unwrap();
        let (dy, mut z, mut out) = (floats(rows * outputs), floats(rows * outputs), floats(rows * outputs));
        let dx_as = Some((&mut dx, InputGradient { accumulate: true, relu: true }));
        let (parameters, gradients) = (&w, std::slice::from_mut(&mut dw));
        device
            .linear_backward(LinearBackward {
                shape,
                x: &x,
                parameters,
                at,
                packed: None,
                dy: &dy,
                dx: dx_as,
                gradients,
            })
            .unwrap();
        let (h, x0, x) = (&x, &dy, &y);
        device
            .linear_cross_forward(LinearCrossForward {
                shape,
                h,
                parameters,
                at,
                packed: None,
                x0,
                x,
                z: &mut z,
                out: &mut out,
            })
            .unwrap();
        let dots_shape = DotShape { rows, count, dim };
        let width = dots_shape.width();
        let (vectors, dout) = (floats(rows * count * dim), floats(rows * width));
        let (mut dots, mut dvectors) = (floats(rows * width), floats(rows * count * dim));
        device.dot_forward(dots_shape, &vectors, &mut dots).unwrap();
        device.dot_backward(dots_shape, &vectors, &dout, &mut dvectors).unwrap();
        [y, dx, dw, z, out, dots, dvectors].map(|buffer| buffer.to_vec().unwrap()).concat()
    };
    for (got, expected) in run(&device).iter().zip(run(&Device::Reference)) {
        assert!((got - expected).abs() < 1e-4 * (1.0 + expected.abs()), "{got}, expected {expected}");
    }
}

/// A batch may be larger than the work that is worth a thread.
#[test]
fn one_output_has_gradients_of_any_number_of_rows() {
    let shape = LinearShape { rows: (16 << 10) + 1, inputs: 3, outputs: 1 };
    let run = |device: &Device| {
        let ones = |len: usize| Buffer::from_slice(device, &vec![1.0f32; len]).unwrap();
        let (x, w, dy, mut dw) = (ones(3 * shape.rows), ones(3), ones(shape.rows), ones(3));
        let (at, gradients) = (LinearAt { weight: 0, bias: None }, std::slice::from_mut(&mut dw));
        let (x, parameters, dy) = (&x, &w, &dy);
        device
            .linear_backward(LinearBackward {
                shape,
                x,
                parameters,
                at,
                packed: None,
                dy,
                dx: None,
                gradients,
            })
            .unwrap();
        dw.to_vec().unwrap()
    };
    assert_eq!(run(&Device::cpu(2).unwrap()), vec![shape.rows as f32; 3]);
}
