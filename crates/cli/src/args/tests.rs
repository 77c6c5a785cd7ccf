use super::*;
use spec::precision::Precision;

fn one(precision: Precision) -> PrecisionConfig {
    PrecisionConfig::all(precision)
}

/// A run that is resumed on a device which lacks its precision goes on in f32; flags and files that say more are heard.
#[test]
fn another_device_takes_a_run_over() {
    let mut base = Config::default();
    (base.train.device, base.train.precision) = (Some(DeviceChoice::Cuda(None)), Some(one(Precision::Tf32)));
    let over = |flags: &str| {
        let config =
            RunArgs::from_words(flags.split_whitespace()).unwrap().config_over(base.clone()).unwrap();
        (config.train.device, config.train.precision)
    };
    assert_eq!(over(""), (base.train.device, base.train.precision.clone()));
    assert_eq!(over("--device cpu"), (Some(DeviceChoice::Cpu), None));
    assert_eq!(over("--device cuda:1"), (Some(DeviceChoice::Cuda(Some(1))), Some(one(Precision::Tf32))));
    assert_eq!(over("--precision f32"), (base.train.device, Some(one(Precision::F32))));
    let parts = "tf32,top=f32".parse().ok();
    assert_eq!(over("--precision top=f32"), (base.train.device, parts));
    // What cannot be is refused when the run is checked, not mended here.
    assert_eq!(over("--device cpu --precision tf32"), (Some(DeviceChoice::Cpu), Some(one(Precision::Tf32))));
}
