use super::*;
use spec::codec::Codec;

const ELEMENTS: usize = 1010;

/// Tensors among the elements, with padding between them.
const TENSORS: [Range<usize>; 4] = [0..300, 304..305, 320..1000, 1001..1003];

/// A vector of each member; padding holds zeros.
fn vectors(device: &Device, members: usize) -> Vec<Buffer<f32>> {
    let value = |member: usize, i: usize| match TENSORS.iter().any(|tensor| tensor.contains(&i)) {
        true => ((member * 7919 + i * 104_729) % 2003) as f32 / 1001.0 - 1.0,
        false => 0.0,
    };
    let vector = |member| (0..ELEMENTS).map(|i| value(member, i)).collect::<Vec<f32>>();
    (0..members).map(|member| Buffer::from_slice(device, &vector(member)).unwrap()).collect()
}

fn units(codec: Codec) -> Units {
    Units::of_tensors(codec, ELEMENTS, &TENSORS)
}

/// The emulation in which every member makes its result.
fn complete(
    device: &Device,
    algorithm: Algorithm,
    codec: Codec,
    hosts: &[usize],
    compensation: Compensation,
) -> EmulatedAllReduce {
    let units = units(codec);
    let mut emulated = EmulatedAllReduce::new(device, algorithm, units.clone(), hosts, compensation).unwrap();
    let programs: Vec<Program> =
        (0..hosts.len()).map(|me| Program::all_reduce(algorithm, &units, hosts, me, compensation)).collect();
    emulated.exchanges = transfers(&programs, false);
    emulated.members = programs.iter().map(|program| Member::new(device, program, false).unwrap()).collect();
    emulated
}

#[test]
fn members_that_only_help_change_no_bit_and_sums_are_near() {
    let device = Device::cpu(1).unwrap();
    let hosts: Vec<usize> = (0..16).map(|member| member / 4).collect();
    let exact: Vec<f64> = (0..ELEMENTS)
        .map(|i| vectors(&device, 16).iter().map(|v| f64::from(v.to_vec().unwrap()[i])).sum())
        .collect();
    for algorithm in Algorithm::ORDERED {
        for (codec, most) in [(Codec::F32, 1e-5), (Codec::Bf16, 0.3), (Codec::U8, 0.6)] {
            for compensation in [Compensation::None, Compensation::Every] {
                let units = units(codec);
                let mut short =
                    EmulatedAllReduce::new(&device, algorithm, units, &hosts, compensation).unwrap();
                let mut whole = complete(&device, algorithm, codec, &hosts, compensation);
                for _ in 0..2 {
                    let [mut a, mut b] = [(); 2].map(|()| vectors(&device, 16));
                    short.run(&device, &mut a, |_| Round::Nearest).unwrap();
                    whole.run(&device, &mut b, |_| Round::Nearest).unwrap();
                    let result = a[0].to_vec().unwrap();
                    for other in &b {
                        assert!(result == other.to_vec().unwrap(), "{algorithm:?} {codec} {compensation:?}");
                    }
                    for (sum, exact) in result.iter().zip(&exact) {
                        let error = (f64::from(*sum) - exact).abs();
                        assert!(error < most, "{algorithm:?} {codec}: {exact} is {sum}");
                    }
                }
            }
        }
    }
}
