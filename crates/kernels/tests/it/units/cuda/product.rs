use ground::precision::Precision;
use kernels::internals::cuda::Pointer;
use kernels::internals::cuda::product::{Epilogue, Form, Product, alignment};

#[test]
fn products_in_words() {
    let mut product = Product {
        precision: Precision::Bf16,
        transposed: [true, false],
        sizes: [512, 65_536, 16],
        strides: [16, 16, 512],
        alignments: [16, 4, 16],
        output: Form::F32,
        epilogue: Epilogue::ReluBias,
        add: false,
    };
    let words = "bf16 tn 512x65536x16 strides 16,16,512 aligned 16,4,16 relu-bias";
    assert_eq!(product.to_string(), words);
    (product.epilogue, product.add, product.transposed) = (Epilogue::None, true, [false, true]);
    assert_eq!(product.to_string(), words.replace("tn", "nt").replace("relu-bias", "add"));
    product.output = Form::Bf16;
    assert_eq!(product.to_string(), words.replace("tn", "nt").replace("relu-bias", "to bf16 add"));
}

#[test]
fn alignments_are_powers_of_two() {
    assert_eq!([0x400, 0x480, 0x404, 0x438].map(|address| alignment(Pointer(address))), [16, 16, 4, 8]);
}
