use ground::Pooling;
use ground::optimizer::UpdateRule;
use kernels::peak::{BareProduct, Touch, touch_rows};
use kernels::{Buffer, Device, LinearShape, Table};

#[test]
fn rows_are_changed_where_the_keys_say() {
    let device = Device::cpu(1).unwrap();
    let mut tables: Vec<Table> =
        (0..2).map(|_| Table::zeroed(&device, 5, 3, Pooling::Sum, &UpdateRule::Sgd).unwrap()).collect();
    for table in &mut tables {
        table.weights.write(0, &[1.0; 15]).unwrap();
    }
    let keys = Buffer::from_slice(&device, &[1u64 << 32 | 4, 2]).unwrap();
    touch_rows(&device, Touch::Read, &mut tables, &keys, 1).unwrap();
    assert!(
        tables.iter().all(|table| table.weights.to_vec().unwrap() == [1.0; 15]),
        "reading changes nothing"
    );
    touch_rows(&device, Touch::Change, &mut tables, &keys, 8).unwrap();
    let changed = |table: usize| -> Vec<usize> {
        let weights = tables[table].weights.to_vec().unwrap();
        (0..5).filter(|row| weights[row * 3..row * 3 + 3].iter().all(|&x| x != 1.0)).collect()
    };
    assert_eq!((changed(0), changed(1)), (vec![2], vec![4]));
}

#[test]
fn tables_of_other_dims_and_keys_of_no_table_are_refused() {
    let device = Device::cpu(1).unwrap();
    let table = |dim| Table::zeroed(&device, 5, dim, Pooling::Sum, &UpdateRule::Sgd).unwrap();
    let keys = Buffer::from_slice(&device, &[1u64 << 32]).unwrap();
    let refused = touch_rows(&device, Touch::Read, &mut [table(3), table(4)], &keys, 1).unwrap_err();
    assert_eq!(refused.to_string(), "touch_rows: dim of a table: expected 3, got 4");
    let refused = touch_rows(&device, Touch::Read, &mut [table(3)], &keys, 1).unwrap_err();
    assert_eq!(refused.to_string(), "table 1: id 0 is not below the number of rows, 0");
}

#[test]
fn a_bare_product_knows_its_size() {
    let shape = LinearShape { rows: 3, inputs: 5, outputs: 7 };
    assert_eq!(BareProduct::bytes(ground::precision::Precision::F32, true, shape), 4 * (15 + 35 + 21));
    assert_eq!(BareProduct::bytes(ground::precision::Precision::Bf16, true, shape), 2 * (15 + 35 + 21));
    let mut product = BareProduct::new(&Device::cpu(1).unwrap(), shape).unwrap();
    product.run().unwrap();
    assert_eq!(product.flops(), 210.0);
}
