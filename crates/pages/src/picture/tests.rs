//! Pages as they are written, and as a browser sees them.

#[path = "../../../cli/tests/it/support/browser.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod browser;
mod sample;
#[path = "../../../cli/tests/it/support/skipped.rs"]
mod skipped;

use super::*;
use browser::Browser;
use proptest::prelude::*;
use sample::{awkward, every_kind, many_points, many_spans};
use std::fs;

fn page(pictures: Vec<Picture>) -> Page {
    Page { title: "A model".into(), subtitle: "on a system".into(), pictures }
}

fn visible(html: &str) -> &str {
    html.split("<body>").nth(1).unwrap().split("<script>").next().unwrap()
}

#[test]
fn whatever_names_contain_is_text() {
    let hostile = || "</title></text><script>alert('1')</script>\"&\u{0}".to_string();
    let span = Span {
        lane: 0,
        name: hostile(),
        class: hostile(),
        begin_ms: 0.0,
        end_ms: 1.0,
        exposed: true,
        details: vec![(hostile(), hostile())],
    };
    let point = Point { x: 1.0, y: 1.0, name: hostile(), class: hostile(), on_front: true };
    let series = Series { name: hostile(), values: vec![Some(1.0)], reference: vec![Some(1.0)] };
    let pictures = vec![
        Picture::Timeline(Timeline {
            caption: hostile(),
            lanes: vec![hostile()],
            spans: vec![span],
            end_ms: 1.0,
        }),
        Picture::Bars(Bars {
            caption: hostile(),
            unit: hostile(),
            groups: vec![hostile()],
            series: vec![series.clone(), series],
        }),
        Picture::Scatter(Scatter {
            caption: hostile(),
            x_label: hostile(),
            y_label: hostile(),
            points: vec![point],
            limit_x: Some((2.0, hostile())),
        }),
        Picture::Roofline(Roofline {
            caption: hostile(),
            compute: vec![(hostile(), 1e9)],
            memory: vec![(hostile(), 1e9)],
            points: vec![RoofPoint {
                name: hostile(),
                class: hostile(),
                intensity: 1.0,
                speed: 1e8,
                details: vec![(hostile(), hostile())],
            }],
        }),
        Picture::Curves(Curves {
            caption: hostile(),
            x_label: hostile(),
            y_label: hostile(),
            curves: vec![(hostile(), vec![(0.0, 1.0)]), (hostile(), vec![(0.0, 1.0)])],
            markers: vec![(0.5, hostile())],
        }),
        Picture::Table(Table {
            caption: hostile(),
            head: vec![hostile()],
            rows: vec![vec![hostile(), hostile()]],
        }),
    ];
    let html = Page { title: hostile(), subtitle: hostile(), pictures }.to_html();
    assert_eq!(html.matches("<script>").count(), 1, "only the page's own");
    assert!(!html.contains("alert('1')") && html.matches("alert(&#39;1&#39;)").count() > 25);
}

#[test]
fn nothing_is_said_to_be_nothing() {
    let empty = || String::new();
    let pictures = vec![
        Picture::Timeline(Timeline { caption: empty(), lanes: vec![], spans: vec![], end_ms: f64::NAN }),
        Picture::Bars(Bars { caption: empty(), unit: empty(), groups: vec![], series: vec![] }),
        Picture::Scatter(Scatter {
            caption: empty(),
            x_label: empty(),
            y_label: empty(),
            points: vec![],
            limit_x: Some((f64::NAN, empty())),
        }),
        Picture::Roofline(Roofline { caption: empty(), compute: vec![], memory: vec![], points: vec![] }),
        Picture::Curves(Curves {
            caption: empty(),
            x_label: empty(),
            y_label: empty(),
            curves: vec![(empty(), vec![(f64::NAN, 1.0)])],
            markers: vec![],
        }),
        Picture::Table(Table { caption: empty(), head: vec!["a".into()], rows: vec![] }),
    ];
    assert_eq!(page(pictures).to_html().matches("Nothing to show").count(), 6);
    assert!(page(vec![]).to_html().contains("Nothing to show"));
}

#[test]
fn what_cannot_be_drawn_is_counted() {
    let span = |lane, begin_ms, end_ms| Span {
        lane,
        name: "s".into(),
        class: "c".into(),
        begin_ms,
        end_ms,
        exposed: false,
        details: vec![],
    };
    // Before zero is allowed, and so is no length at all.
    let spans = vec![
        span(0, -1.0, 1.0),
        span(0, 2.0, 2.0),
        span(0, 2.0, 1.0),
        span(0, f64::NAN, 1.0),
        span(0, 0.0, f64::INFINITY),
        span(7, 0.0, 1.0),
    ];
    let timeline = Timeline { caption: "t".into(), lanes: vec!["compute".into()], spans, end_ms: 3.0 };
    let html = timeline.html(1, &Palette::default());
    assert!(html.contains("Left out: 4 spans") && html.contains("data-range=\"-1 3\""), "{html}");
    assert_eq!(html.matches("data-t=").count(), 2);

    let point = |x, y| Point { x, y, name: "p".into(), class: "c".into(), on_front: true };
    let points = vec![point(-1.0, -5.0), point(f64::NAN, 1.0), point(1.0, f64::NEG_INFINITY)];
    let scatter =
        Scatter { caption: "s".into(), x_label: "x".into(), y_label: "y".into(), points, limit_x: None };
    let html = scatter.html(&Palette::default());
    assert!(html.contains("Left out: 2 points") && html.matches("<circle").count() == 1, "{html}");

    let series =
        Series { name: "ours".into(), values: vec![Some(f64::NAN), None, Some(-2.0)], reference: vec![] };
    let groups = ["a", "b", "c", "d"].map(Into::into).to_vec();
    let bars = Bars { caption: "b".into(), unit: "u".into(), groups, series: vec![series] };
    let html = bars.html(&Palette::default(), WIDTH);
    assert_eq!((html.matches(">–</text>").count(), html.matches(">-2.00</text>").count()), (3, 1), "{html}");
}

/// Roofs meet where a phase changes from one limit to the other, and names stand beside their points.
#[test]
fn points_lie_below_their_roofs() {
    let point = |name: &str, intensity, speed| RoofPoint {
        name: name.into(),
        class: "c".into(),
        intensity,
        speed,
        details: vec![("share".into(), "50 %".into())],
    };
    let roofline = Roofline {
        caption: "r".into(),
        compute: vec![("products".into(), 1e11)],
        memory: vec![("stream".into(), 1e10)],
        points: vec![point("a", 100.0, 5e10), point("b", 0.1, 1e9), point("copy", 0.0, 1e9)],
    };
    let html = roofline.html(&Palette::default());
    assert!(html.contains("Left out: 1 phases without a number of FLOPs or of bytes."), "{html}");
    let ends = |class: &str| -> Vec<f64> {
        let path = html.split(&format!("<path class=\"{class}\" d=\"M")).nth(1).unwrap();
        let numbers = path.split('"').next().unwrap().replace('L', " ");
        numbers.split(' ').map(|number| number.parse().unwrap()).collect()
    };
    let (flat, slope) = (ends("roof"), ends("roof memory"));
    assert_eq!((flat[0], flat[1]), (slope[2], slope[3]), "the roofs meet");
    let at = |name: &str, key: &str| -> f64 {
        let circle =
            html.split(&format!("><title>{name}\n")).next().unwrap().rsplit("<circle").next().unwrap();
        circle.split(&format!("{key}=\"")).nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
    };
    // b is at the bandwidth of the stream, a at half of the products' peak: .3 of a power of ten below it.
    let on_slope = slope[1] + (at("b", "cx") - slope[0]) * (slope[3] - slope[1]) / (slope[2] - slope[0]);
    assert!((at("b", "cy") - on_slope).abs() < 0.2, "{} and {on_slope}", at("b", "cy"));
    assert!(at("a", "cx") > flat[0] && at("a", "cy") > flat[1], "below the flat roof");
    for text in
        ["products: 100 G FLOP/s</text>", "stream: 10 GB/s</text>", ">a</text>", ">b</text>", "share\t50 %"]
    {
        assert!(html.contains(text), "{text} is not in {html}");
    }
}

#[test]
fn large_pictures_are_whole_and_not_too_large() {
    let html = page(vec![Picture::Timeline(many_spans(5000))]).to_html();
    assert_eq!(html.matches("data-t=").count(), 5000);
    assert!(html.len() < 2_000_000, "{} bytes", html.len());
    let html = page(vec![Picture::Scatter(many_points(10_000))]).to_html();
    assert_eq!(html.matches("<circle").count(), 10_000);
    assert!(html.len() < 2_500_000, "{} bytes", html.len());
}

#[test]
fn two_small_pictures_share_a_row() {
    let curves = || every_kind().into_iter().find(|p| matches!(p, Picture::Curves(_))).unwrap();
    let table = || every_kind().into_iter().find(|p| matches!(p, Picture::Table(_))).unwrap();
    let pictures = vec![curves(), table(), curves(), curves(), curves()];
    assert_eq!(widths(&pictures), [WHOLE_WIDTH, WHOLE_WIDTH, WIDTH, WIDTH, WHOLE_WIDTH]);
}

proptest! {
    #[test]
    fn no_number_breaks_a_page(numbers in prop::collection::vec(any::<f64>(), 24)) {
        let at = |i: usize| numbers[i % numbers.len()];
        let mut pictures = every_kind();
        for picture in &mut pictures {
            match picture {
                Picture::Timeline(timeline) => {
                    timeline.end_ms = at(0);
                    for (i, span) in timeline.spans.iter_mut().enumerate() {
                        (span.begin_ms, span.end_ms) = (at(i).min(at(i + 1)), at(i).max(at(i + 1)));
                    }
                }
                Picture::Bars(bars) => {
                    for series in &mut bars.series {
                        series.values = (0..3).map(|i| Some(at(i))).collect();
                        series.reference = (5..9).map(|i| Some(at(i))).collect();
                    }
                }
                Picture::Scatter(scatter) => {
                    scatter.limit_x = Some((at(3), "limit".into()));
                    let points = scatter.points.iter_mut().enumerate();
                    points.for_each(|(i, point)| (point.x, point.y) = (at(2 * i), at(2 * i + 1)));
                }
                Picture::Roofline(roofline) => {
                    roofline.compute = vec![("c".into(), at(0)), ("d".into(), at(1))];
                    roofline.memory = vec![("m".into(), at(2)), ("n".into(), at(3))];
                    let points = roofline.points.iter_mut().enumerate();
                    points.for_each(|(i, point)| (point.intensity, point.speed) = (at(2 * i), at(2 * i + 1)));
                }
                Picture::Curves(curves) => {
                    curves.curves[0].1 = numbers.iter().map(|&x| (x, -x)).collect();
                    curves.markers = vec![(at(1), "marker".into())];
                }
                Picture::Table(_) => {}
            }
        }
        let html = page(pictures).to_html();
        for word in ["NaN", "inf"] {
            prop_assert!(!visible(&html).contains(word), "{word}");
        }
    }
}

/// Writes a page and opens it; nothing where there is no browser.
fn opened(html: &str, name: &str, fragment: &str) -> Option<browser::View> {
    let browser = Browser::found()?;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(format!("{name}.html"));
    fs::write(&path, html).unwrap();
    let view = browser.open_at(&path, fragment, 1200, 2600);
    view.is_quiet_and_painted();
    Some(view)
}

/// What is in the window, as the script of timelines left it.
fn window(dom: &str) -> Vec<f64> {
    let text = dom.split("data-window=\"").nth(1).expect("the script ran").split('"').next().unwrap();
    text.split(' ').map(|number| number.parse().unwrap()).collect()
}

#[test]
fn a_page_opens_in_a_browser() {
    let html = page(every_kind()).to_html();
    let Some(view) = opened(&html, "picture-every-kind", "") else { return };
    assert_eq!(window(&view.dom), [0.0, 12.0]);
    for part in ["Zoom in", "Zoom out", "Show all", "Wheel or", "Pareto front", "published"] {
        assert!(view.dom.contains(part), "{part} is missing");
    }
}

#[test]
fn a_link_leads_to_a_window() {
    let html = page(every_kind()).to_html();
    let Some(view) = opened(&html, "picture-window", "#from=2&to=4") else { return };
    assert_eq!(window(&view.dom), [2.0, 4.0]);
    let spans = view.dom.split("class=\"spans\"").nth(1).unwrap().split("class=\"labels\"").next().unwrap();
    let hidden = spans.matches("display: none").count();
    assert!(hidden > 0 && hidden < spans.matches("<rect").count(), "{hidden}");
    assert!(view.dom.contains("2.000 – 4.000 ms"));
}

#[test]
fn what_is_not_there_is_not_shown() {
    let html = page(every_kind()).to_html();
    let Some(view) = opened(&html, "picture-beyond", "#from=10&to=1000") else { return };
    assert_eq!(window(&view.dom), [0.0, 12.0]);
    let Some(view) = opened(&html, "picture-nonsense", "#from=x&to=4&chart=none") else { return };
    assert_eq!(window(&view.dom), [0.0, 12.0]);
}

/// What a script of a test wrote into the document.
fn seen(view: &browser::View) -> Vec<&str> {
    let list = view.dom.split("id=\"seen\">").nth(1).expect("the list").split("</ol>").next().unwrap();
    list.split("<li>").skip(1).map(|item| item.split("</li>").next().unwrap()).collect()
}

/// Time is virtual where the document is written out, and frames are few: timers stand in for them.
const FRAMES: &str = "<head><script>requestAnimationFrame = draw => setTimeout(draw, 16); cancelAnimationFrame = clearTimeout;</script>";

/// Uses a page as a hand would, and writes what it sees into the document.
const HAND: &str = concat!("<script>{", include_str!("tests/hand.js"), "}</script></body>");

#[test]
fn zoom_and_read_outs_work() {
    let html = page(every_kind()).to_html().replace("</body>", HAND).replace("<head>", FRAMES);
    let Some(view) = opened(&html, "picture-hand", "") else { return };
    let expected = [
        "zoomed in: 6",
        "all: 12",
        "in and out: 6",
        "double click: 12",
        "wheel at the left: 0 4.414553",
        "wider: true",
        "dragged: true",
        "key 0: 12",
        "key +: 6",
        "moved: 4.2 10.2",
        "hover: lookupbegin0.0000 msend0.9000 msduration900.0 µsclassembeddingFLOPs12.4 Grate93 TFLOP/s",
        "second span: bottom forwardbegin0.9000 msend1.6000 msduration700.0 µsclassgemmFLOPs12.4 Grate93 TFLOP/s",
        "next lane: pooled exchangebegin0.9000 msend3.1000 msduration2.200 msclassall-to-all\
         exposedyes: nothing hides itbytes92.4 MBrate7.0 GB/s",
        "closed: 0",
        "point: placement 159memory of a device, GB6.015samples a second129294classtable-wise",
        "front: placement 159memory of a device, GB6.015samples a second129294classtable-wise",
        "address: #from=3&amp;to=9",
    ];
    assert_eq!(seen(&view), expected);
}

/// Says which texts of a drawing leave it, or lie on each other.
const LOOK: &str = concat!("<script>{", include_str!("tests/look.js"), "}</script></body>");

#[test]
fn texts_leave_each_other_room() {
    for (name, pictures) in [("picture-room", every_kind()), ("picture-awkward", awkward())] {
        let html = page(pictures).to_html().replace("</body>", LOOK);
        let Some(view) = opened(&html, name, "") else { return };
        assert_eq!(seen(&view), Vec::<&str>::new(), "{name}");
    }
}

#[test]
fn thousands_of_spans_and_points_open() {
    let pictures = vec![Picture::Timeline(many_spans(5000)), Picture::Scatter(many_points(10_000))];
    let Some(view) = opened(&page(pictures).to_html(), "picture-many", "#from=10&to=12") else { return };
    assert_eq!(window(&view.dom), [10.0, 12.0]);
}
