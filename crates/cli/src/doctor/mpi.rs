//! MPI: whether this build has it, which library it found, and the launcher.

use super::part::Part;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;

/// What there is of MPI.
pub struct MpiParts {
    library: Part,
    launcher: Part,
}

impl MpiParts {
    /// What this build and this machine have.
    pub fn here() -> Self {
        let library = match campanile::cluster::mpi_library() {
            Some(version) => Part::present("MPI library", version, None),
            None => Part::absent(
                "MPI library",
                "this campanile was built without MPI",
                "ranks that are processes, on several machines, need it: install openmpi-bin, libopenmpi-dev and libclang-dev, \
                 and build with `cargo build --release --features mpi`",
            ),
        };
        Self { library, launcher: launcher() }
    }

    /// Why `--transport mpi` cannot be used, with what to do; `None` where it can.
    pub fn problem(&self) -> Option<String> {
        self.library.missing().map(|(_, problem, remedy)| format!("{problem}; {remedy}"))
    }

    /// Parts that were looked for.
    pub fn parts(&self) -> [&Part; 2] {
        [&self.library, &self.launcher]
    }

    /// MPI in lines.
    pub fn lines(&self) -> Vec<String> {
        self.parts().map(Part::line).to_vec()
    }

    /// MPI as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "usable": self.problem().is_none(),
            "library": self.library.to_json(),
            "launcher": self.launcher.to_json(),
        })
    }
}

/// The program that starts ranks.
fn launcher() -> Part {
    let missing = |problem: &str| {
        let remedy = "it starts the processes of --transport mpi: install openmpi-bin or mpich; other launchers, such as srun, \
                      will do";
        Part::absent("mpirun", problem, remedy)
    };
    let folders = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect::<Vec<PathBuf>>());
    let files = folders.unwrap_or_default().into_iter().map(|folder| folder.join("mpirun"));
    let Some(path) = files.into_iter().find(|file| file.is_file()) else {
        return missing("no folder of PATH has it");
    };
    let Ok(output) = Command::new(&path).arg("--version").output() else {
        return missing("it is in PATH, but does not start");
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let version = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("of unknown version");
    let version = version.strip_prefix("mpirun ").unwrap_or(version);
    Part::present("mpirun", version, Some(path.display().to_string()))
}
