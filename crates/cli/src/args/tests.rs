use super::*;

/// A run on a GPU in bf16 that is resumed on the CPU goes on in f32; flags and files that say more are heard.
#[test]
fn another_device_takes_a_run_over() {
    let mut base = Config::default();
    (base.train.device, base.train.precision) = (Some(DeviceChoice::Cuda(None)), Some(Precision::Bf16));
    let over = |flags: &str| {
        let config =
            RunArgs::from_words(flags.split_whitespace()).unwrap().config_over(base.clone()).unwrap();
        (config.train.device, config.train.precision)
    };
    assert_eq!(over(""), (base.train.device, base.train.precision));
    assert_eq!(over("--device cpu"), (Some(DeviceChoice::Cpu), None));
    assert_eq!(over("--device cuda:1"), (Some(DeviceChoice::Cuda(Some(1))), Some(Precision::Bf16)));
    assert_eq!(over("--precision f32"), (base.train.device, Some(Precision::F32)));
    // What cannot be is refused when the run is checked, not mended here.
    assert_eq!(over("--device cpu --precision tf32"), (Some(DeviceChoice::Cpu), Some(Precision::Tf32)));
}
