//! Pictures that look like real ones.

use super::super::*;

/// A step, its speedups, what was explored, a distribution, a table.
pub fn every_kind() -> Vec<Picture> {
    vec![
        Picture::Timeline(step()),
        Picture::Bars(speedups()),
        Picture::Curves(distribution()),
        Picture::Scatter(many_points(600)),
        Picture::Roofline(phases()),
        Picture::Table(strategies()),
    ]
}

fn span(lane: usize, name: &str, class: &str, times: (f64, f64), exposed: bool) -> Span {
    let details = match lane {
        0 => vec![("FLOPs".into(), "12.4 G".into()), ("rate".into(), "93 TFLOP/s".into())],
        _ => vec![("bytes".into(), "92.4 MB".into()), ("rate".into(), "7.0 GB/s".into())],
    };
    Span {
        lane,
        name: name.into(),
        class: class.into(),
        begin_ms: times.0,
        end_ms: times.1,
        exposed,
        details,
    }
}

fn step() -> Timeline {
    let spans = vec![
        span(0, "lookup", "embedding", (0.0, 0.9), false),
        span(0, "bottom forward", "gemm", (0.9, 1.6), false),
        span(1, "pooled exchange", "all-to-all", (0.9, 3.1), true),
        span(0, "interaction forward", "interaction", (3.1, 3.7), false),
        span(0, "top forward", "gemm", (3.7, 5.0), false),
        span(0, "top backward", "gemm", (5.0, 7.4), false),
        span(1, "ids exchange", "all-to-all", (3.7, 4.2), false),
        span(2, "reduce bucket 0", "all-reduce", (6.1, 7.9), false),
        span(0, "interaction backward", "interaction", (7.4, 8.3), false),
        span(1, "gradient exchange", "all-to-all", (8.3, 10.6), true),
        span(0, "bottom backward", "gemm", (8.3, 9.5), false),
        span(2, "reduce bucket 1", "all-reduce", (7.9, 9.0), false),
        span(2, "reduce bucket 2", "all-reduce", (8.6, 10.1), false),
        span(0, "update tables", "embedding", (10.6, 11.8), false),
        span(0, "update dense", "elementwise", (11.8, 12.0), false),
    ];
    Timeline {
        caption: "A step of DLRM-A on 128 GPUs".into(),
        lanes: ["compute", "exchange", "gradients"].map(Into::into).to_vec(),
        spans,
        end_ms: 12.0,
    }
}

fn speedups() -> Bars {
    let series = |name: &str, values: [f64; 4], reference: [Option<f64>; 4]| Series {
        name: name.into(),
        values: values.into_iter().map(Some).collect(),
        reference: reference.to_vec(),
    };
    Bars {
        caption: "Speedup over the flat dataflow".into(),
        unit: "speedup, ×".into(),
        groups: ["16 GPUs", "64 GPUs", "256 GPUs", "512 GPUs"].map(Into::into).to_vec(),
        series: vec![
            series("SPTT", [1.12, 1.31, 1.42, 1.55], [Some(1.1), Some(1.2), Some(1.5), Some(1.6)]),
            series("DMT", [1.25, 1.52, 1.77, 1.86], [None, Some(1.6), Some(1.8), Some(1.9)]),
        ],
    }
}

fn distribution() -> Curves {
    let curve = |middle: f64, spread: f64| -> Vec<(f64, f64)> {
        let points = (0..=80).map(f64::from).map(|i| i * 0.25);
        points.map(|x| (x, 1.0 / (1.0 + (-(x - middle) / spread).exp()))).collect()
    };
    Curves {
        caption: "How long steps take".into(),
        x_label: "step, ms".into(),
        y_label: "share of steps".into(),
        curves: vec![("flat".into(), curve(12.0, 1.2)), ("SPTT".into(), curve(8.0, 0.8))],
        markers: vec![(12.0, "median, flat".into()), (8.0, "median, SPTT".into()), (8.4, "paper".into())],
    }
}

/// Placements, by what they need and what they give.
pub fn many_points(number: usize) -> Scatter {
    let mut points: Vec<Point> = (0..number)
        .map(|i| {
            let (a, b) = (noise(i), noise(i + number));
            let memory = 6.0 + 90.0 * a;
            let class = ["table-wise", "row-wise", "column-wise"][i % 3];
            Point {
                x: memory,
                y: (0.4 + 0.6 * b) * 9e5 * (1.0 - (-memory / 30.0).exp()) * (1.0 - 0.08 * (i % 3) as f64),
                name: format!("placement {i}"),
                class: class.into(),
                on_front: false,
            }
        })
        .collect();
    let mut order: Vec<usize> = (0..number).collect();
    order.sort_by(|&a, &b| points[a].x.total_cmp(&points[b].x));
    let mut best = f64::NEG_INFINITY;
    for i in order {
        points[i].on_front = points[i].y > best && points[i].x <= 80.0;
        best = best.max(points[i].y);
    }
    Scatter {
        caption: "Placements".into(),
        x_label: "memory of a device, GB".into(),
        y_label: "samples a second".into(),
        points,
        limit_x: Some((80.0, "80 GB of an A100".into())),
    }
}

/// Phases of a step, some of them close together.
fn phases() -> Roofline {
    let point = |name: &str, class: &str, intensity: f64, speed: f64| RoofPoint {
        name: name.into(),
        class: class.into(),
        intensity,
        speed,
        details: vec![("time".into(), "1.2 ms".into())],
    };
    Roofline {
        caption: "Phases below the roofs of this machine".into(),
        compute: vec![("products in bf16".into(), 3.1e12), ("products in f32".into(), 2.4e11)],
        memory: vec![
            ("stream".into(), 2.2e10),
            ("random rows".into(), 1.4e10),
            ("changed rows".into(), 1.3e10),
        ],
        points: vec![
            point("bottom forward", "products", 87.0, 1.7e11),
            point("bottom backward", "products", 160.0, 1.6e11),
            point("top forward", "products", 290.0, 1.9e11),
            point("top backward 1-4", "products", 300.0, 1.88e11),
            point("top backward 0", "products", 320.0, 1.86e11),
            point("lookup", "embeddings", 0.125, 1.2e9),
            point("update tables", "embeddings", 0.167, 1.5e9),
            point("update bucket 0", "everything else", 0.167, 1.4e9),
            point("update bucket 1", "everything else", 0.167, 1.6e9),
            point("interaction forward", "everything else", 12.0, 6e10),
            point("interaction backward", "everything else", 24.0, 5e10),
        ],
    }
}

fn strategies() -> Table {
    let rows = [
        ["flat", "row-wise", "12.00", "1.00", "62.1"],
        ["SPTT", "column-wise", "8.02", "1.50", "58.4"],
        ["DMT", "table-wise, 8 towers", "6.45", "1.86", "58.9"],
    ];
    Table {
        caption: "Strategies".into(),
        head: ["dataflow", "placement", "step, ms", "speedup", "memory, GB"].map(Into::into).to_vec(),
        rows: rows.map(|row| row.map(Into::into).to_vec()).to_vec(),
    }
}

/// A long timeline: `number` spans on three lanes, 2.5 per millisecond.
pub fn many_spans(number: usize) -> Timeline {
    let mut ends = [0.0; 3];
    let spans = (0..number)
        .map(|i| {
            let lane = i % 3;
            let begin = ends[lane] + 0.3 * noise(i);
            ends[lane] = begin + 1.8 * noise(i + number) * noise(i);
            let class = ["gemm", "embedding", "elementwise", "all-to-all", "all-reduce"]
                [if lane == 0 { i / 3 % 3 } else { lane + 2 }];
            let exposed = lane == 1 && i % 4 == 1;
            span(lane, &format!("operation {i}"), class, (begin, ends[lane]), exposed)
        })
        .collect();
    let end_ms = ends.into_iter().fold(0.0, f64::max);
    Timeline {
        caption: "Many layers".into(),
        lanes: ["compute", "exchange", "gradients"].map(Into::into).to_vec(),
        spans,
        end_ms,
    }
}

/// Something between 0 and 1 that looks like chance.
fn noise(i: usize) -> f64 {
    let mixed = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 40) as f64 / (1u64 << 24) as f64
}

/// Names that are too long, bars that are too many or below zero, markers that are too close.
pub fn awkward() -> Vec<Picture> {
    let long = |i: usize| format!("a name that goes on and on, number {i}");
    let series = |name: &str, sign: f64, number: usize| Series {
        name: name.into(),
        values: (0..number).map(|i| (i % 7 != 3).then(|| sign * (0.2 + 40.0 * noise(i)))).collect(),
        reference: (0..number).map(|i| (i % 2 == 0).then(|| 45.0 * noise(i))).collect(),
    };
    let many = Bars {
        caption: "Many bars".into(),
        unit: "ms".into(),
        groups: (0..40).map(long).collect(),
        series: vec![series("ours", 1.0, 40), series("theirs", 1.0, 40), series("less", -0.5, 40)],
    };
    let few = Bars {
        caption: "Long names".into(),
        unit: "GB/s".into(),
        groups: (0..5).map(long).collect(),
        series: vec![series("ours", 1.0, 5)],
    };
    let close = Curves {
        caption: "Close markers".into(),
        x_label: "µs".into(),
        y_label: "share".into(),
        curves: vec![("one point".into(), vec![(3.0, 0.5)]), (long(1), vec![(0.0, 0.0), (9.0, 1.0)])],
        markers: [8.9, 8.8, 0.1, 0.2, 0.3, 5.0].map(|x| (x, format!("marker at {x}"))).to_vec(),
    };
    let mut timeline = many_spans(300);
    timeline.lanes.push(long(3));
    timeline.spans.extend((0..30).map(|i| span(3, &long(i), "copy", (f64::from(i as u32), 60.0), false)));
    vec![Picture::Bars(many), Picture::Bars(few), Picture::Curves(close), Picture::Timeline(timeline)]
}
