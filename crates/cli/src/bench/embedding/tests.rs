use super::*;
use kernels::Device;

#[derive(clap::Parser)]
struct Parsed {
    #[command(flatten)]
    args: Args,
}

fn args(flags: &str) -> Args {
    let words = std::iter::once("bench").chain(flags.split_whitespace());
    <Parsed as clap::Parser>::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).args
}

/// The measurements of a GPU, carried out by the CPU: whatever the device, they are the same code.
#[test]
fn rows_of_the_same_tables_are_measured_bare() {
    let args = args("--rows 50 --tables 3 --dim 8 --batch 16 --hotness 2 --optimizer adagrad");
    let device = Device::cpu(1).unwrap();
    let mut bench = Bench::new(&args, args.rows().unwrap(), device.clone()).unwrap();
    let memory = DeviceMemory::new(&device, 1 << 16).unwrap();
    let record = card::measure(&mut bench, memory, 2).unwrap();
    let json = record.to_json(&bench);
    assert_eq!((&json["rows"], &json["tables"], &json["hotness"]), (&50.into(), &3.into(), &2.into()));
    let different = json["different_rows"].as_f64().unwrap();
    assert!((1.0..=96.0).contains(&different), "{json}");
    let number = |name: &str| json[name].as_f64().unwrap_or_else(|| panic!("{name} in {json}"));
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
    assert!(near(number("lookup_of_copy"), number("lookup_gbs") / number("copy_gbs")));
    // 96 ids and rows in, 48 vectors out.
    let bytes = 96.0 * (4.0 + 32.0) + 48.0 * 32.0;
    assert!(near(number("lookup_gbs"), bytes / (1e6 * number("lookup_ms"))), "{json}");
    // 96 ids, 48 gradients, rows and their state in and out.
    let bytes = 96.0 * 4.0 + 48.0 * 32.0 + different * 2.0 * 64.0;
    assert!(near(number("update_least_gbs"), bytes / (1e6 * number("update_ms"))), "{json}");
    let text = record.to_text(&bench);
    assert!(text.contains("lookup, a launch per table") && text.contains("times in updates"), "{text}");
}

#[test]
fn keys_name_every_row_once() {
    let args = args("--rows 10 --tables 2 --dim 4 --batch 2 --hotness 2");
    let bench = Bench::new(&args, 10, Device::cpu(1).unwrap()).unwrap();
    let keys = bench.distinct(&[7, 3, 7, 7, 0, 0, 9, 0]);
    assert_eq!(keys, [3, 7, 1 << 32, 1 << 32 | 9]);
}

#[test]
fn rows_and_gigabytes_say_how_large_tables_are() {
    assert_eq!(args("--rows 1000 --dim 16").rows().unwrap(), 1000);
    assert_eq!(args("--gigabytes 0.001 --dim 5 --tables 2").rows().unwrap(), 25_000);
    let refused = |flags: &str| args(flags).rows().unwrap_err().to_string();
    assert!(refused("--rows 0").contains("--rows 0"));
    assert!(refused("--batch 1000000 --hotness 1000000").contains("at most 2^32 ids"));
    // 64 tables × 1 M rows × 128 with their ids, vectors and gradients.
    let neo = args("--rows 1000000 --tables 64 --hotness 32 --batch 2048");
    let bytes = neo.bytes(1_000_000, true);
    assert!((32.768e9..36e9).contains(&bytes), "{bytes}");
}
