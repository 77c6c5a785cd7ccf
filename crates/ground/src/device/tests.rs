use super::DeviceChoice;

#[test]
fn texts_come_back() {
    for text in ["cpu", "cuda", "cuda:0", "cuda:15", "auto"] {
        let device: DeviceChoice = text.parse().unwrap();
        assert_eq!(device.to_string(), text);
        let json = serde_json::to_string(&device).unwrap();
        assert_eq!(json, format!("{text:?}"));
        assert_eq!(serde_json::from_str::<DeviceChoice>(&json).unwrap(), device);
    }
}

#[test]
fn other_texts_are_refused_with_what_there_is() {
    for text in
        ["", "gpu", "CUDA", "cuda:", "cuda:-1", "cuda:+1", "cuda:x", "cuda:99999", "cuda:1:2", "cpu:0"]
    {
        let problem = text.parse::<DeviceChoice>().unwrap_err();
        assert!(problem.contains(&format!("{text:?}")) && problem.contains("cuda:INDEX"), "{problem}");
    }
}

#[test]
fn ranks_take_gpus_in_order() {
    let gpus = |device: DeviceChoice, gpus| [0, 1, 2].map(|rank| device.gpu(rank, gpus));
    assert_eq!(gpus(DeviceChoice::Cuda(None), 2), [Some(0), Some(1), Some(0)]);
    assert_eq!(gpus(DeviceChoice::Cuda(Some(1)), 2), [Some(1); 3]);
    assert_eq!(gpus(DeviceChoice::Cuda(None), 0), [Some(0); 3]);
    assert_eq!(gpus(DeviceChoice::Auto, 1), [Some(0); 3]);
    assert_eq!(gpus(DeviceChoice::Auto, 0), [None; 3]);
    assert_eq!(gpus(DeviceChoice::Cpu, 4), [None; 3]);
}
