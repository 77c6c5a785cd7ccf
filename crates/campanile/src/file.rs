//! Files of users: read as a whole, replaced as a whole.

use spec::plan::{PlanChoice, PlanFile};
use spec::run::Config;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Suffix of the name of a file that is not complete.
pub const PARTIAL: &str = ".partial";

/// Reason why a file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("{}: cannot be written", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A value cannot be written as JSON.
    #[error("{}: cannot be written", path.display())]
    Json {
        /// Path of the file.
        path: PathBuf,
        /// Error of encoding the value.
        source: serde_json::Error,
    },
    /// A file is not the JSON that is expected.
    #[error("{}", path.display())]
    JsonText {
        /// Path of the file.
        path: PathBuf,
        /// Error in the contents of the file.
        source: serde_json::Error,
    },
    /// A folder or file cannot be created.
    #[error("{}: cannot be created", path.display())]
    Create {
        /// The folder or file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A folder cannot be listed.
    #[error("{}: cannot be listed", path.display())]
    List {
        /// Path of the folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file is not the TOML that is expected.
    #[error("{}", path.display())]
    Toml {
        /// Path of the file.
        path: PathBuf,
        /// Error in the contents of the file.
        source: Box<toml::de::Error>,
    },
    /// The schema that a config names cannot be read.
    #[error("{}: data.schema", config.display())]
    Schema {
        /// The config.
        config: PathBuf,
        /// Error of reading the schema file.
        source: Box<FileError>,
    },
    /// The plan that a config names cannot be read.
    #[error("{}: placement.plan", config.display())]
    Plan {
        /// The config.
        config: PathBuf,
        /// Error of reading the plan file.
        source: Box<FileError>,
    },
    /// A text is no path.
    #[error("{path}: not a path")]
    NoPath {
        /// The text.
        path: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A path is no Unicode, and so cannot stand in a config.
    #[error("{path}: not valid Unicode")]
    Unicode {
        /// The path as far as it can be shown.
        path: String,
    },
}

impl FileError {
    pub(crate) fn reading(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Read { path: path.to_owned(), source }
    }

    pub(crate) fn writing(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Write { path: path.to_owned(), source }
    }

    pub(crate) fn creating(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Create { path: path.to_owned(), source }
    }

    pub(crate) fn listing(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self::List { path: path.to_owned(), source }
    }

    fn toml(path: &Path) -> impl FnOnce(toml::de::Error) -> Self {
        |source| Self::Toml { path: path.to_owned(), source: Box::new(source) }
    }
}

/// A path that means the same from every folder.
pub fn whole(path: &str) -> Result<String, FileError> {
    let absolute =
        std::path::absolute(path).map_err(|source| FileError::NoPath { path: path.into(), source })?;
    absolute.into_os_string().into_string().map_err(|_| FileError::Unicode { path: path.into() })
}

/// The config in a TOML file. Its `data.schema` may be a table, or the name of a file that holds one, relative to the
/// config's own folder; so may its `placement.plan`.
pub fn read_config(path: &Path) -> Result<Config, FileError> {
    /// The parts of a config that may hold a file name in place of a value.
    #[derive(serde::Deserialize)]
    struct Named {
        data: Option<NamedSchema>,
        placement: Option<NamedPlan>,
    }
    #[derive(serde::Deserialize)]
    struct NamedSchema {
        schema: Option<toml::Spanned<toml::Value>>,
    }
    #[derive(serde::Deserialize)]
    struct NamedPlan {
        plan: Option<toml::Spanned<toml::Value>>,
    }
    let name = |value: Option<toml::Spanned<toml::Value>>| match value.map(|s| (s.span(), s.into_inner())) {
        Some((span, toml::Value::String(name))) => Some((span, name)),
        _ => None,
    };
    let text = read_text(path)?;
    let Ok(named) = toml::from_str::<Named>(&text) else {
        return toml::from_str(&text).map_err(FileError::toml(path));
    };
    let schema = name(named.data.and_then(|data| data.schema));
    let plan = name(named.placement.and_then(|placement| placement.plan)).filter(|(_, name)| name != "auto");
    let beside = |name: &str| path.parent().unwrap_or(Path::new("")).join(name);
    let schema_read = schema.as_ref().map(|(_, name)| read_toml(&beside(name))).transpose();
    let schema_read = schema_read
        .map_err(|source| FileError::Schema { config: path.to_owned(), source: Box::new(source) })?;
    let plan_read = plan.as_ref().map(|(_, name)| read_plan(&beside(name))).transpose();
    let plan_read =
        plan_read.map_err(|source| FileError::Plan { config: path.to_owned(), source: Box::new(source) })?;
    // A value in place of the name leaves every other line where it is, so that errors name the right one.
    let mut inline = text;
    let mut values: Vec<_> =
        schema.map(|(span, _)| (span, "{ label = { column = \"\" } }")).into_iter().collect();
    values.extend(plan.map(|(span, _)| (span, "\"auto\"")));
    values.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    for (span, value) in values {
        inline.replace_range(span, value);
    }
    let mut config: Config = toml::from_str(&inline).map_err(FileError::toml(path))?;
    if schema_read.is_some() {
        config.data.schema = schema_read;
    }
    if let Some(plan) = plan_read {
        config.placement.plan = Some(PlanChoice::File(Box::new(plan)));
    }
    Ok(config)
}

/// The plan in a JSON file, as `campanile plan --out` writes it.
pub fn read_plan(path: &Path) -> Result<PlanFile, FileError> {
    read_json(path)
}

/// A JSON file as a value.
pub fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, FileError> {
    let text = read_text(path)?;
    serde_json::from_str(&text).map_err(|source| FileError::JsonText { path: path.to_owned(), source })
}

/// A TOML file as a value.
pub fn read_toml<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, FileError> {
    toml::from_str(&read_text(path)?).map_err(FileError::toml(path))
}

/// A file's text, which must be UTF-8.
pub fn read_text(path: &Path) -> Result<String, FileError> {
    fs::read_to_string(path).map_err(FileError::reading(path))
}

/// A file's text. What is no UTF-8 is shown as such, not refused.
pub fn read(path: &Path) -> Result<String, FileError> {
    let bytes = fs::read(path).map_err(FileError::reading(path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A file's text as [`read`] gives it; `None` when there is no such file.
pub fn read_if_there(path: &Path) -> Result<Option<String>, FileError> {
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        _ => read(path).map(Some),
    }
}

/// Writes a file beside `path`, then gives it that name: whoever reads sees the old file or the new one. What is no plain
/// file (a pipe, a device) is written to as it is, and a link stays one.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
        return fs::write(&target, bytes).map_err(FileError::writing(path));
    }
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(PARTIAL);
    let partial = target.with_file_name(name);
    let written = File::create(&partial).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let replaced = written.and_then(|()| fs::rename(&partial, &target));
    if replaced.is_err() {
        // The temporary file may never have been made.
        let _ = fs::remove_file(&partial);
    }
    replaced.map_err(FileError::writing(path))
}
