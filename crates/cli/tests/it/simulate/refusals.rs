//! What is refused, and how: the file, the field, what to do.

use super::files::{dlrm_a, task, zionex};
use super::{Files, refusal};
use serde_json::{Value, json};

/// The message about a changed file, from the file's name on.
fn about(which: &str, change: impl Fn(&mut Value)) -> String {
    let files = Files::new();
    let mut parts =
        [("model", dlrm_a()), ("system", zionex(128)), ("task", task(128, &[("TP", 8), ("DDP", 16)]))];
    let mut args = Vec::new();
    for (name, value) in &mut parts {
        if *name == which {
            change(value);
        }
        args.extend([format!("--{name}"), files.write(&format!("{name}.json"), &value.to_string())]);
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let message = refusal(&args);
    let from = message.find(&format!("{which}.json")).unwrap_or_else(|| panic!("no file in {message}"));
    message[from..].trim_end().to_string()
}

fn set(field: &'static str, to: Value) -> impl Fn(&mut Value) {
    move |value| value[field] = to.clone()
}

fn without(field: &'static str) -> impl Fn(&mut Value) {
    move |value| {
        value.as_object_mut().unwrap().remove(field);
    }
}

#[test]
fn of_models() {
    let unknown = about("model", set("num_towers", json!(8)));
    assert!(
        unknown.starts_with("model.json: unknown field `num_towers`, expected one of `name`, `type`"),
        "{unknown}"
    );
    assert!(unknown.contains(" at line 1 column "), "{unknown}");
    let wrong = about("model", set("mlp_dim", json!("wide")));
    assert!(
        wrong.starts_with("model.json: invalid type: string \"wide\", expected usize at line 1"),
        "{wrong}"
    );
    let exact: [(&str, Value, &str); 5] = [
        (
            "type",
            json!("cnn"),
            "unknown model type \"cnn\"; the known ones are dlrm, dlrm_transformer, dlrm_moe, llm, llm_moe and vit",
        ),
        ("num_tables", json!(0), "num_tables is 0; it must be more than 0 and at most 1e15"),
        ("emb_dim", json!(1e16), "emb_dim is 10000000000000000; it must be more than 0 and at most 1e15"),
        ("num_top_mlp_layers", json!(65536), "num_top_mlp_layers is 65536; it must be at most 10000"),
        ("num_experts", json!(8), "field num_experts is given, but a model of type dlrm does not have it"),
    ];
    for (field, value, message) in exact {
        assert_eq!(about("model", set(field, value)), format!("model.json: {message}"));
    }
    let missing = about("model", without("pooling_size"));
    assert_eq!(missing, "model.json: field pooling_size is missing; a model of type dlrm needs it");
}

#[test]
fn of_systems() {
    let exact: [(&str, Value, &str); 7] = [
        ("num_devices", json!(0), "num_devices is 0; it must be at least 1"),
        ("num_nodes", json!(0), "num_nodes is 0; it must be at least 1"),
        (
            "num_nodes",
            json!(24),
            "num_devices is 128 and num_nodes is 24: every node must have the same number of devices",
        ),
        (
            "ar_perc_intra",
            json!(27.46),
            "ar_perc_intra is 27.46; it must be between 0 and 1; 27.46 % is 0.2746",
        ),
        ("flops_util", json!(1.5), "flops_util is 1.5; it must be between 1e-6 and 1"),
        ("mem_bw", json!(-1), "mem_bw is -1; it must be more than 0 and at most 1e24"),
        ("num_nvlinks", json!(1.5), "num_nvlinks is 1.5; it must be a whole number from 1 to 1,000,000"),
    ];
    for (field, value, message) in exact {
        assert_eq!(about("system", set(field, value)), format!("system.json: {message}"));
    }
    let missing = about("system", without("mem_cap"));
    assert!(missing.starts_with("system.json: missing field `mem_cap` at line 1 column "), "{missing}");
    let files = Files::new();
    let mut text = toml::to_string(&zionex(8)).unwrap();
    text = text.replace("mem_bw = 1555", "mem_bw = nan");
    let message = refusal(&["--system", &files.write("nan.toml", &text)]);
    assert!(
        message.ends_with("nan.toml: mem_bw is NaN; it must be more than 0 and at most 1e24\n"),
        "{message}"
    );
    assert!(
        refusal(&["--system", "h100:12"])
            .contains("h100:12 is impossible; use 1 to 8 devices, or a multiple of 8")
    );
    assert!(
        refusal(&["--system", "h101"]).contains("unknown system \"h101\"; the known ones are v100, a100")
    );
}

#[test]
fn of_tasks() {
    let exact: [(&str, Value, &str); 7] = [
        (
            "mlp_parallel_degree",
            json!([8, 8]),
            "mlp_parallel is (TP 8, DDP 8): its degrees make 64 devices, but the system zionex has 128; the product of the degrees must be the number of devices",
        ),
        (
            "mlp_parallel_degree",
            json!([128]),
            "mlp_parallel has 2 levels and mlp_parallel_degree has 1; they must have the same",
        ),
        (
            "local_emb_bs",
            json!(1280),
            "local_emb_bs is 1280, for 128 devices: 10 samples a device; local_mlp_bs makes it 512",
        ),
        ("local_mlp_bs", json!(0), "local_mlp_bs is 0; it must be more than 0 and at most 1e15"),
        ("emb_parallel", json!(["TP"]), "emb_parallel has TP; tables are MP or DDP, layers DDP, FSDP or TP"),
        (
            "mlp_parallel",
            json!(["PP", "DDP"]),
            "unknown parallelism \"PP\"; the known ones are DDP, FSDP, FSDP+prefetch, TP, and MP for tables",
        ),
        (
            "freeze_emb",
            json!(true),
            "the task is pre-training, and freezes parts (freeze_bot_mlp, freeze_top_mlp, freeze_experts, freeze_transformer, min_frozen_layer, freeze_emb): only fine-tuning does",
        ),
    ];
    for (field, value, message) in exact {
        assert_eq!(about("task", set(field, value)), format!("task.json: {message}"));
    }
}

#[test]
fn of_flags() {
    let files = Files::new();
    let job = files.write("task.json", &task(128, &[("DDP", 128)]).to_string());
    let run = files.write("run.toml", "[model]\npreset = \"kaggle\"\nheight = 3\n");
    let cases: &[(&[&str], &str)] = &[
        (&["--model", "dlrm", "--mlp", "ddp"], "--mlp: dlrm is a model that is trained"),
        (
            &["--model", "dlrm", "--task", &job],
            "no strategy applies; use --task pretrain, inference or finetune",
        ),
        (
            &["--model", "dlrm-a", "--system", "zionex:128", "--task", &job, "--batch", "4"],
            "--batch is set in the task file",
        ),
        (&["--model", "dlrm-a", "--wire", "bf16"], "--wire applies to models that Campanile trains"),
        (
            &["--model", "dlrm-a", "--all-reduce", "ring"],
            "--all-reduce applies to models that Campanile trains",
        ),
        (&["--model", "dlrm-a", "--mlp", "tp,tp"], "--mlp tp,tp: both levels are TP; give it once"),
        (
            &["--model", "dlrm-a", "--mlp", "mp"],
            "--mlp mp: MP applies to tables only; layers are ddp, fsdp, fsdp+prefetch or tp",
        ),
        (&["--model", "dlrm-a", "--embedding", "tp"], "--embedding tp: tables are mp or ddp, not TP"),
        (
            &["--model", "dlrm-a", "--transformer", "tp"],
            "--transformer tp: dlrm-a has no such layers; leave it out",
        ),
        (&["--model", "dlrm-a", "--mlp", "a,b,c"], "--mlp a,b,c: unknown parallelism \"a\""),
        (
            &["--task", "learn"],
            "--task learn: use pretrain, inference or finetune[:bot,top,experts,transformer,transformer>=N,towers,emb]",
        ),
        (&["--task", "finetune:emb,emb"], "--task finetune:emb,emb: emb is named twice"),
        (
            &["--task", "finetune:head"],
            "unknown part of a model \"head\"; the known ones are bot, top, experts",
        ),
        (
            &["--model", "no-such"],
            "--model no-such: no model has this name, and no file. Simulated are dlrm-a",
        ),
        (&["--model", "none.json"], "none.json: cannot be read"),
        (&["--model", &run], "unknown field `height`"),
        (&["--model", &run], "line 3, column 1"),
        (&["--cost", "exact"], "unknown cost model \"exact\"; use madmax, roofline or hierarchical"),
        (&["--batch", "0"], "0 is not in 1.."),
        (
            &["--batch", "1000000000"],
            "train.batch: 64000000000 samples per step are too many; use at most 67108864",
        ),
    ];
    for (args, message) in cases {
        let said = refusal(args);
        assert!(said.contains(message), "{args:?}: {message:?} is not in {said}");
    }
}
