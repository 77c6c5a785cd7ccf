//! The program `campanile`: see the library of this crate.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    campanile_cli::main()
}
