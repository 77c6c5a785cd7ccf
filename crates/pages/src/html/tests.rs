use super::*;

#[test]
fn nothing_escapes() {
    let hostile = "<script>alert('1')</script> & \"quotes\"\u{0}";
    let escaped = Escaped(hostile).to_string();
    assert_eq!(escaped, "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &quot;quotes&quot;\u{fffd}");
    assert!(document(hostile, "").contains("<title>&lt;script&gt;"));
}
