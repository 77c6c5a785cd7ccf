use kernels::internals::cuda::algorithms::{Algorithm, Algorithms};
use std::convert::Infallible;
use std::path::PathBuf;

/// A folder of its own for a test, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("campanile-algorithms-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn pick(of: &Algorithms, product: &str, chosen: u64) -> Algorithm {
    of.pick(product, |_| true, || Ok::<_, Infallible>([chosen; 8])).unwrap()
}

#[test]
fn a_choice_is_made_once_and_outlives_the_process() {
    let folder = Folder::new("once");
    let first = Algorithms::open(Some(&folder.0));
    assert_eq!(pick(&first, "a", u64::MAX - 7), [u64::MAX - 7; 8]);
    assert_eq!(pick(&first, "a", 2), [u64::MAX - 7; 8]);
    assert_eq!(pick(&first, "b", 3), [3; 8]);
    let second = Algorithms::open(Some(&folder.0));
    assert_eq!((pick(&second, "a", 4), pick(&second, "b", 4)), ([u64::MAX - 7; 8], [3; 8]));
}

#[test]
fn processes_agree_on_what_was_written_first() {
    let folder = Folder::new("agree");
    let [one, other] = [(); 2].map(|()| Algorithms::open(Some(&folder.0)));
    assert_eq!(pick(&one, "a", 1), [1; 8]);
    assert_eq!(pick(&other, "a", 2), [1; 8], "chosen while the other was open");
    let race = other.pick(
        "b",
        |_| true,
        || {
            pick(&one, "b", 5);
            Ok::<_, Infallible>([6; 8])
        },
    );
    assert_eq!(race.unwrap(), [5; 8]);
    assert_eq!(pick(&Algorithms::open(Some(&folder.0)), "b", 7), [5; 8]);
}

#[test]
fn what_cannot_be_used_is_chosen_anew() {
    let folder = Folder::new("anew");
    pick(&Algorithms::open(Some(&folder.0)), "a", 1);
    let later = Algorithms::open(Some(&folder.0));
    let usable = |algorithm: &Algorithm| algorithm[0] != 1;
    assert_eq!(later.pick("a", usable, || Ok::<_, Infallible>([9; 8])).unwrap(), [9; 8]);
    assert_eq!(pick(&Algorithms::open(Some(&folder.0)), "a", 7), [9; 8]);
}

#[test]
fn files_that_are_none_pin_nothing() {
    let folder = Folder::new("none");
    let file = folder.0.join("products.json");
    for bad in ["", "{", "[]", r#"{"a": "12"}"#, r#"{"a": 1}"#, &format!(r#"{{"a": "{}"}}"#, "é".repeat(64))]
    {
        std::fs::write(&file, bad).unwrap();
        assert_eq!(pick(&Algorithms::open(Some(&folder.0)), "a", 3), [3; 8], "{bad}");
        assert_eq!(pick(&Algorithms::open(Some(&folder.0)), "a", 4), [3; 8], "{bad}");
    }
    assert_eq!(pick(&Algorithms::open(None), "a", 5), [5; 8]);
}
