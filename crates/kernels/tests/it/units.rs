//! Unit tests of what the crate shows in `kernels::internals`, each in the file that it has in the crate.

mod cpu;
mod cuda {
    mod algorithms;
    mod columns;
    mod cross_product;
    mod fault;
    mod gradient;
    mod index;
    mod library;
    mod product;
    mod weight_gradient;
    mod wire;
    mod work;
}
mod half_float;
mod int8_row;
mod memory {
    mod host;
}
mod peak;
