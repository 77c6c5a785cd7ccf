use kernels::Found;
use kernels::internals::cuda::library::Library;

/// Packages install `libnccl.so.2`; only those for developers add `libnccl.so`.
#[test]
fn libraries_are_looked_for_by_the_names_that_packages_install() {
    assert_eq!(Library::Nccl.files(), ["libnccl.so.2", "libnccl.so"]);
    for library in [Library::Driver, Library::Nvrtc, Library::CublasLt, Library::Nccl] {
        let [first, .., last] = library.files() else { panic!("{library:?} has one name") };
        assert!(first.contains(".so.") && last.ends_with(".so"), "{library:?}");
    }
}

/// What is missing is named with what needs it and where it comes from.
#[test]
fn a_missing_library_is_one_sentence() {
    match Library::Nccl.find() {
        Found::Present { version, path } => assert!(version.starts_with("2.") && path.contains("libnccl.so")),
        Found::Missing { problem, remedy } => {
            assert!(problem.starts_with("NCCL, libnccl.so.2"), "{problem}");
            assert!(remedy.contains("--transport nccl") && remedy.contains("libnccl2"), "{remedy}");
        }
    }
}
