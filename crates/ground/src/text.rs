//! Values that files and JSON hold as the texts that users write.

/// Implements `Serialize` by `Display`, and `Deserialize` by `FromStr`.
#[macro_export]
macro_rules! as_text {
    ($($type:ty),*) => {$(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <String as serde::Deserialize>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

pub use as_text;

/// Names as a sentence lists them: `a, b or c`.
pub fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [name] => (*name).into(),
        [names @ .., last] => format!("{} or {last}", names.join(", ")),
    }
}
