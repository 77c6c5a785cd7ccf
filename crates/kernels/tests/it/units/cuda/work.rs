use kernels::internals::cuda::work::{Kernel, Queue, WorkList};

fn list(rate: u64, to: u64, grid: u32) -> WorkList {
    let queue = Queue(1);
    let kernel = |name, function| Kernel::new(name, function, queue, [grid, 1, 1], 128, 0);
    let mut list = WorkList::default();
    list.push_kernel(kernel("first", 1), &[7, 8], &[0, 1]);
    list.push_copy(queue, to, 5, 4);
    list.push_kernel(kernel("second", 2), &[9, rate], &[0, 1]);
    list
}

#[test]
fn kernels_with_other_arguments_are_told_apart_from_other_work() {
    let before = list(1, 10, 3);
    assert_eq!(before.changed(&list(1, 10, 3)), Some(vec![]));
    assert_eq!(before.changed(&list(2, 10, 3)), Some(vec![2]), "the rate of the second kernel");
    assert_eq!(before.changed(&list(1, 11, 3)), None, "another copy");
    assert_eq!(before.changed(&list(1, 10, 4)), None, "another grid");
}

#[test]
fn a_shape_is_without_the_arguments_of_kernels() {
    let (before, rate, copy) = (list(1, 10, 3), list(2, 10, 3), list(1, 11, 3));
    assert_eq!(before.fingerprints().shape, rate.fingerprints().shape);
    assert_ne!(before.fingerprints().whole, rate.fingerprints().whole);
    assert_ne!(before.fingerprints().shape, copy.fingerprints().shape);
    assert_eq!(before.fingerprints(), list(1, 10, 3).fingerprints());
}
