//! A page in headless Chromium: what it made of it, what it complained about, what it asked the network for.
//! `CAMPANILE_KEEP_SCREENSHOTS` names a folder for the pictures.

use super::skipped::skipped;
use serde_json::Value;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A Chromium.
pub struct Browser {
    program: PathBuf,
}

/// What the browser made of a page.
pub struct View {
    /// The document after its scripts ran, as HTML.
    pub dom: String,
    /// Lines of the console.
    pub console: Vec<String>,
    /// What the page asked the network for.
    pub requests: Vec<String>,
    screenshot: Vec<u8>,
    page: String,
}

impl Browser {
    /// The Chromium of this machine, if there is one.
    pub fn found() -> Option<Self> {
        let named = env::var_os("CAMPANILE_CHROMIUM").map(PathBuf::from);
        let folders: Vec<PathBuf> = env::var_os("PATH").iter().flat_map(env::split_paths).collect();
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let on_path = || {
            names.iter().flat_map(|name| folders.iter().map(move |dir| dir.join(name))).find(|p| p.is_file())
        };
        let program = named.or_else(on_path);
        if program.is_none() {
            skipped(
                "browser",
                "no Chromium on the path and CAMPANILE_CHROMIUM is not set; no page was opened",
            );
        }
        program.map(|program| Self { program })
    }

    /// Opens a file.
    pub fn open(&self, page: &Path, width: u32, height: u32) -> View {
        self.open_at(page, "", width, height)
    }

    /// Opens a file at a fragment: `#from=2&to=4`.
    pub fn open_at(&self, page: &Path, fragment: &str, width: u32, height: u32) -> View {
        let dir = tempfile::tempdir().unwrap();
        let (shot, net_log) = (dir.path().join("shot.png"), dir.path().join("net.json"));
        let page = format!("file://{}", encoded(page));
        let run = |action: &[String], profile: &str| {
            let output = Command::new(&self.program)
                .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
                .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
                .args([
                    "--disable-dev-shm-usage",
                    "--enable-logging=stderr",
                    "--host-resolver-rules=MAP * ~NOTFOUND",
                ])
                .arg(format!("--user-data-dir={}", dir.path().join(profile).display()))
                .arg(format!("--window-size={width},{height}"))
                .args(action)
                .arg(format!("{page}{fragment}"))
                .output()
                .unwrap_or_else(|e| panic!("{}: {e}", self.program.display()));
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let shoot =
            [format!("--screenshot={}", shot.display()), format!("--log-net-log={}", net_log.display())];
        let (_, complaints) = run(&shoot, "one");
        let (dom, _) = run(&["--dump-dom".into(), "--virtual-time-budget=3000".into()], "two");
        if let Some(kept) = env::var_os("CAMPANILE_KEEP_SCREENSHOTS") {
            let name = page.rsplit('/').next().unwrap().replace(".html", ".png");
            fs::copy(&shot, Path::new(&kept).join(name)).unwrap();
        }
        View {
            dom,
            console: complaints.lines().filter(|line| line.contains("CONSOLE")).map(Into::into).collect(),
            requests: requests(&fs::read_to_string(&net_log).unwrap()),
            screenshot: fs::read(&shot).unwrap(),
            page,
        }
    }
}

impl View {
    /// No complaint, and no request but for the page itself.
    pub fn is_quiet(&self) {
        assert!(self.console.is_empty(), "{:?}", self.console);
        let outside: Vec<_> = self.requests.iter().filter(|url| **url != self.page).collect();
        assert!(outside.is_empty(), "{outside:?}");
    }

    /// The same, and something to see.
    pub fn is_quiet_and_painted(&self) {
        self.is_quiet();
        assert!(self.is_painted(), "a blank page? {} bytes", self.screenshot.len());
    }

    /// Whether there is something to see on a page of some thousand lines. An empty one compresses to some 15 kB; curves
    /// and text do not.
    pub fn is_painted(&self) -> bool {
        self.screenshot.starts_with(b"\x89PNG") && self.screenshot.len() > 60_000
    }
}

/// What the page asked the network for. A Chromium has errands of its own; those of a page carry its origin.
fn requests(log: &str) -> Vec<String> {
    let log: Value = serde_json::from_str(log).expect("a net log");
    let events = log["events"].as_array().expect("events");
    let of_page = |params: &&Value| {
        let key = |name| params[name].as_str().unwrap_or_default();
        key("initiator") == "null"
            || key("network_isolation_key").starts_with("file:")
            || key("network_anonymization_key").starts_with("file:")
    };
    let asked = events.iter().map(|event| &event["params"]).filter(of_page);
    asked.filter_map(|params| params["url"].as_str().or(params["host"].as_str())).map(Into::into).collect()
}

/// A path as part of an address.
fn encoded(path: &Path) -> String {
    let bytes = path.to_str().unwrap().bytes();
    bytes
        .map(|b| match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => char::from(b).to_string(),
            b => format!("%{b:02X}"),
        })
        .collect()
}
