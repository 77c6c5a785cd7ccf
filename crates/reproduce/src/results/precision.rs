//! AUC of trainings in f32x3 and bf16, beside those in f32.

use super::Sources;
use crate::error::{Error, Result};
use crate::precision::report::{Change, HEAD, changes, described};
use crate::precision::{Setting, TrainedIn};
use campanile::records::Records;
use pages::markdown::table;

/// Changes of AUC and logloss, from the records of a folder of `reports/precision` or `reports/table-formats`.
pub(super) fn quality(sources: &Sources, folder: &str) -> Result<String> {
    let records = Records::<TrainedIn>::existing(&sources.reports.join(folder));
    if !records.path().exists() {
        return Ok(format!(
            "{}\nNot measured yet: `campanile reproduce precision` will.\n",
            table(1, &HEAD, &[])
        ));
    }
    let setting: Setting = serde_json::from_value(records.what()?).map_err(Error::json("settings"))?;
    let cells: Vec<Vec<String>> = changes(&records.all()?).iter().map(Change::cells).collect();
    Ok(format!(
        "{}\n{} Measured by `campanile reproduce precision`; records: `reports/{folder}/records.jsonl`, whose first line has \
         all settings.\n",
        table(1, &HEAD, &cells),
        described(&setting),
    ))
}
