use super::*;

#[test]
fn every_case_has_a_name_and_flags_of_its_own() {
    for (i, case) in ALL.iter().enumerate() {
        assert!(
            ALL[..i].iter().all(|other| other.name != case.name && other.flags != case.flags),
            "{}",
            case.name
        );
    }
}
