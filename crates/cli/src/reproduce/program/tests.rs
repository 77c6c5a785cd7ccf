use super::*;
use reproduce::Program;

#[test]
fn every_run_that_a_measurement_starts_is_understood() {
    let program = ThisProgram::new(Console::Quiet).unwrap();
    for flags in reproduce::runs_started() {
        program.run(&flags).unwrap_or_else(|error| panic!("{flags:?}: {error:#}"));
    }
}
