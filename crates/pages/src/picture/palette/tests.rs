use super::*;

#[test]
fn names_keep_their_colours() {
    let mut palette = Palette::default();
    ["gemm", "all-to-all", "gemm", "embedding"].into_iter().for_each(|name| palette.add(name));
    assert_eq!((palette.colour("gemm"), palette.colour("embedding"), palette.colour("other")), (0, 2, 0));
    let legend = palette.legend(["embedding", "gemm", "embedding"].into_iter(), "block");
    assert_eq!(legend.matches("class=\"key\"").count(), 2);
    assert!(legend.find("gemm").unwrap() < legend.find("embedding").unwrap());
}
