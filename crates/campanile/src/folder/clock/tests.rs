use super::*;

#[test]
fn moments_read_as_they_should() {
    let at = |seconds| rfc3339(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
    assert_eq!(at(0), "1970-01-01T00:00:00Z");
    assert_eq!(at(951_782_399), "2000-02-28T23:59:59Z");
    assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
    assert_eq!(at(1_794_726_736), "2026-11-15T07:12:16Z");
    assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
}

#[test]
fn days_follow_each_other() {
    let mut last = civil(0);
    for days in 1..200_000 {
        let next = civil(days);
        let same_month = (next.0, next.1) == (last.0, last.1) && next.2 == last.2 + 1;
        let next_month = next.2 == 1 && last.2 >= 28 && (next.1 == last.1 + 1 || (next.1, last.1) == (1, 12));
        assert!(same_month || next_month, "{last:?} is followed by {next:?}");
        last = next;
    }
}
