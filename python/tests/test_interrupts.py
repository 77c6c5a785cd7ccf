"""Ctrl-C and exceptions of callbacks end a run cleanly, with its state; it goes on with the same bits."""

import os
import signal
import threading
import time

import pytest

import campanile
from conftest import config, flat, needed


def long_run(epochs):
    run = config()
    run["train"].update(epochs=epochs, eval_every=100_000)
    return run


def test_ctrl_c_keeps_the_state(shop, tmp_path):
    expected = campanile.train(long_run(60), data=flat(shop)).summary.parameters_sha256
    folder = str(tmp_path / "run")
    stop = {"after": 5}

    def progress(event):
        if event["event"] == "training":
            stop["after"] -= 1
            if stop["after"] == 0:
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        campanile.train(long_run(60), data=flat(shop), out=folder, progress=progress)
    assert "the state is saved in" in str(caught.value) and "campanile.resume" in str(caught.value)
    # The table is gone; the run has its rows.
    model = campanile.resume(folder)
    assert model.summary.parameters_sha256 == expected


def test_ctrl_c_without_progress_is_seen(shop, tmp_path):
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        campanile.train(long_run(100_000), data=flat(shop), out=tmp_path / "run", progress=False)
    assert campanile.load(tmp_path / "run").step > 0


def test_the_stop_button_of_a_notebook(tmp_path):
    needed("ipykernel")
    manager = needed("jupyter_client").manager.KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(tmp_path))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        run = {"train": {"steps": 1_000_000, "batch": 64}, "data": {"synthetic": {"eval_samples": 256}}}
        asked = client.execute(f"import campanile; campanile.train({run!r}, out='run')")
        shown, error = False, None
        while error is None:
            message = client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") != asked:
                continue
            if message["msg_type"] == "stream" and "training:" in message["content"]["text"] and not shown:
                shown = True
                manager.interrupt_kernel()
            if message["msg_type"] == "error":
                error = message["content"]
        assert shown and error["ename"] == "KeyboardInterrupt" and "the state is saved in run" in error["evalue"]
        # The interpreter lives on. What is asked right after an error is not carried out.
        statuses = []
        while "ok" not in statuses and len(statuses) < 20:
            reply = client.execute("print('step', campanile.load('run').step)", reply=True, timeout=60)
            statuses.append(reply["content"]["status"])
            time.sleep(0.2)
        assert statuses[-1] == "ok", statuses
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert campanile.load(tmp_path / "run").step > 0


def test_an_exception_of_a_callback_is_the_callers(shop, tmp_path):
    class Enough(Exception):
        pass

    def progress(event):
        if event["event"] == "training":
            raise Enough("enough")

    with pytest.raises(Enough, match="enough"):
        campanile.train(long_run(100_000), data=flat(shop), out=tmp_path / "run", progress=progress)
    assert campanile.load(tmp_path / "run").step > 0


def test_other_threads_run_while_training(shop):
    seen = []
    done = threading.Event()

    def count():
        while not done.wait(0.01):
            seen.append(1)

    counter = threading.Thread(target=count)
    counter.start()
    campanile.train(long_run(60), data=flat(shop), progress=False)
    done.set()
    counter.join()
    assert len(seen) > 5, "the interpreter's lock was held"


def test_events_tell_what_happens(shop):
    events = []
    campanile.train(config(), data=flat(shop), progress=events.append)
    kinds = {event["event"] for event in events}
    assert {"started", "finished", "training", "evaluated", "saved"} <= kinds, kinds
    training = [event for event in events if event["event"] == "training"]
    assert training[-1]["step"] <= training[-1]["steps"] and training[0]["loss"] > 0
