//! Trains on a CSV file, evaluates the model, and predicts with it.
//!
//! ```text
//! cargo run --release --example train_evaluate_predict
//! ```

use campanile::{Config, Evaluation, Prediction, Training};
use std::error::Error;
use std::fs;

/// Trains, evaluates and predicts in a temporary folder.
pub fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    fs::write(path("clicks.csv"), clicks(0..8000))?;
    fs::write(path("tomorrow.csv"), clicks(8000..8100))?;

    let mut config = Config::default();
    config.train.epochs = Some(2);
    // Format, columns and label are found; a tenth of the rows is kept for the evaluation.
    let trained = Training::new(config).data(path("clicks.csv"))?.out(path("run")).run()?;
    println!("{} steps, {:.0} samples/s", trained.outcome.steps, trained.outcome.samples_per_s());

    let evaluated = Evaluation::of(path("run"))?.run()?;
    let evaluation = &evaluated.scores.evaluation;
    println!("AUC {:.4} on {} samples", evaluation.auc.unwrap_or(f64::NAN), evaluation.samples);

    let predicted =
        Prediction::of(path("run"))?.data(path("tomorrow.csv")).key("user").to(path("scores.csv"))?;
    let scores = fs::read_to_string(path("scores.csv"))?;
    println!("{} rows scored:\n{}", predicted.scored, scores.lines().take(4).collect::<Vec<_>>().join("\n"));
    Ok(())
}

/// A log in which every user likes one kind of item.
fn clicks(rows: std::ops::Range<u64>) -> String {
    let row = |at: u64| {
        let draw = |salt: u64, most: u64| (at.wrapping_mul(6364136223846793005) ^ salt) % 1_000_003 % most;
        let (user, item, price) = (draw(17, 50), draw(12345, 30), draw(999, 80));
        let clicked = u8::from((user + item).is_multiple_of(3) && price < 60);
        format!("u{user},i{item},{price}.5,{clicked}\n")
    };
    format!("user,item,price,clicked\n{}", rows.map(row).collect::<String>())
}
