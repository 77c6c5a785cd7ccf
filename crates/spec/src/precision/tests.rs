use super::Precision;
use crate::device::DeviceChoice;

#[test]
fn texts_come_back() {
    for precision in Precision::ALL {
        let text = precision.to_string();
        assert_eq!(text.parse(), Ok(precision));
        assert_eq!(serde_json::to_string(&precision).unwrap(), format!("{text:?}"));
    }
    assert_eq!("fp16".parse::<Precision>().unwrap_err(), "unknown precision \"fp16\"; use f32, tf32 or bf16");
}

#[test]
fn the_cpu_has_f32_only() {
    for precision in Precision::ALL {
        assert_eq!(precision.problem_on(DeviceChoice::Cpu).is_none(), precision == Precision::F32);
        assert_eq!(precision.problem_on(DeviceChoice::Cuda(Some(0))), None);
        assert_eq!(precision.problem_on(DeviceChoice::Auto), None);
    }
}
