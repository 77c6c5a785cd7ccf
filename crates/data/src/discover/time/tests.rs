use super::*;

#[test]
fn dates_in_many_forms() {
    let year_first =
        ["2024-03-01", "2024/3/1", "2024-03-01 12:30:00", "2024-03-01T12:30:00.123Z", "2024-03-01 1:05 PM"];
    for text in year_first {
        assert_eq!(of_text(text.as_bytes()), Some(Form::YearFirst), "{text}");
    }
    for text in ["01/03/2024", "31.12.2023", "12/31/2023 23:59"] {
        assert_eq!(of_text(text.as_bytes()), Some(Form::YearLast), "{text}");
    }
    for text in [
        "",
        "2024",
        "2024-13-01",
        "1.2.3",
        "2024-03",
        "3.14159265",
        "2024-03-01-04",
        "2024-03-01 x",
        "ä-ä-ä ä",
    ] {
        assert_eq!(of_text(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn numbers_that_are_times() {
    assert_eq!(unit(1.6e9, 1.7e9), Some("seconds"));
    assert_eq!(unit(1.6e12, 1.7e12), Some("milliseconds"));
    assert_eq!(unit(0.0, 1.7e9), None);
    assert!(digits(14_102_100.0, 14_103_023.0) && digits(20_240_101.0, 20_241_231.0));
    assert!(digits(2_024_010_112.0, 2_024_010_223.0) && !digits(1.0, 5000.0));
}
