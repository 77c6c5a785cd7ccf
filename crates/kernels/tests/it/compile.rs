//! Kernels compile for every architecture that they are written for, without a warning, on machines without a GPU too.

use kernels::{Found, compile_kernels, cuda_report};

#[test]
fn all_kernels_compile_without_warnings() {
    if let Found::Missing { problem, remedy } = cuda_report().nvrtc {
        println!("SKIPPED: no kernel was compiled: {problem}; {remedy}");
        return;
    }
    std::thread::scope(|scope| {
        for architecture in ["sm_80", "sm_90"] {
            scope.spawn(move || {
                let bytes = compile_kernels(architecture).unwrap_or_else(|error| panic!("{error}"));
                assert!(bytes > 0, "{architecture}");
            });
        }
    });
}
