use super::Precision;
use crate::device::DeviceChoice;

#[test]
fn texts_come_back() {
    for precision in Precision::ALL {
        let text = precision.to_string();
        assert_eq!(text.parse(), Ok(precision));
        assert_eq!(serde_json::to_string(&precision).unwrap(), format!("{text:?}"));
    }
    assert_eq!(
        "fp16".parse::<Precision>().unwrap_err(),
        "unknown precision \"fp16\"; use f32, f32x3, tf32 or bf16"
    );
}

#[test]
fn devices_have_three_precisions_each() {
    for precision in Precision::ALL {
        assert_eq!(precision.problem_on(DeviceChoice::Cpu).is_none(), precision != Precision::Tf32);
        assert_eq!(
            precision.problem_on(DeviceChoice::Cuda(Some(0))).is_none(),
            precision != Precision::F32x3
        );
        assert_eq!(precision.problem_on(DeviceChoice::Auto), None);
    }
    assert_eq!(
        Precision::Tf32.problem_on(DeviceChoice::Cpu).unwrap(),
        "the CPU computes in f32, f32x3 or bf16, not in tf32; choose one of them or --device cuda"
    );
}
