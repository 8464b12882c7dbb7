# needs: pytest numpy torch
"""The package among threads, processes and signals: thread counts, fork, DataLoader workers, the GIL, Ctrl-C."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch
import whet
import whet._numpy

Q, K = torch.randn(1, 4, 64, 64, generator=torch.Generator().manual_seed(1)), torch.randn(1, 4, 256, 64, generator=torch.Generator().manual_seed(2))


LARGE = torch.randn(1100, 1024, generator=torch.Generator().manual_seed(3))


def attend():
    q = Q.clone().requires_grad_()
    out = whet.attention(q, K, K)
    return out.detach(), torch.autograd.grad(out.square().sum(), q)[0]


def with_threads(count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        return attend()
    finally:
        torch.set_num_threads(before)


def test_results_are_the_same_bits_for_any_number_of_threads():
    from whet._pool import _executors
    from whet.torch._attention import SMALL_WORK

    assert Q.shape[1] * Q.shape[2] * K.shape[2] * Q.shape[3] >= SMALL_WORK
    one = with_threads(1)
    for count in (2, 3, 5):
        assert all(torch.equal(a, b) for a, b in zip(one, with_threads(count)))
    assert {2, 3, 5} <= set(_executors), "no pool was used"


def test_rows_are_the_same_bits_for_any_number_of_threads(monkeypatch):
    from whet import _threads

    monkeypatch.setattr(_threads, "VALUES_EACH", 64)
    x = np.random.default_rng(1).standard_normal((3, 50, 40), dtype=np.float32)[:, ::2]
    mask, sink, beta = x[0] / 2, x[..., 0], np.abs(x[..., 1])
    for options in (dict(), dict(mask=mask, sink=sink), dict(policy="entmax15", beta=beta)):
        results = []
        for count in (1, 2, 5):
            monkeypatch.setattr(whet._numpy, "threads", lambda count=count: count)
            out, aux = whet.softmax(x, **options, return_aux=("entropy", "argmax"))
            results.append((out, aux.entropy, aux.argmax, whet.entropy(x)))
        for other in results[1:]:
            assert all(np.array_equal(a, b) for a, b in zip(results[0], other))
    assert {2, 5} <= set(_threads._pools), "no threads were used"
    with pytest.raises(ValueError, match="beta"):
        whet.softmax(x, "adaptive", beta=beta)
    assert _threads.shares(10, 64, 4) == [range(0, 2), range(2, 5), range(5, 7), range(7, 10)] and len(_threads.shares(10, 6, 4)) == 1


def test_calls_from_several_threads_at_once():
    expected, failures = with_threads(2), []

    def work():
        for _ in range(20):
            if not all(torch.equal(a, b) for a, b in zip(expected, attend())):
                failures.append(1)

    workers = [threading.Thread(target=work) for _ in range(4)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    assert not failures


def child(queue):
    torch.set_num_threads(2)
    queue.put([tensor.numpy() for tensor in attend()])


def test_a_forked_child_computes_the_same():
    expected = with_threads(2)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    found = queue.get()
    process.join(30)
    assert process.exitcode == 0
    assert all(np.array_equal(a.numpy(), b) for a, b in zip(expected, found))


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        x = torch.randn(32, generator=torch.Generator().manual_seed(i))
        return whet.softmax(x, whet.Policy("adaptive")), attend()[0], whet.softmax(LARGE.numpy(), "topk:9")[i]


def test_dataloader_workers_after_fork():
    with_threads(2)
    direct = [Rows()[i] for i in range(8)]
    loaded = list(torch.utils.data.DataLoader(Rows(), batch_size=None, num_workers=2))
    for a, b in zip(direct, loaded):
        assert all(np.array_equal(x, y) for x, y in zip(a, b))


def test_the_gil_is_released_during_a_call():
    x = np.random.default_rng(1).standard_normal((1 << 15, 512), dtype=np.float32)
    out = np.empty_like(x)
    turns, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            turns[0] += 1
            time.sleep(0)

    before = sys.getswitchinterval()
    sys.setswitchinterval(100)  # nobody hands the GIL over unless it is released
    thread = threading.Thread(target=count)
    thread.start()
    try:
        first = turns[0]
        whet.softmax(x, "entmax15", out=out)
        assert turns[0] > first, "the other thread did not run"
    finally:
        stop.set()
        sys.setswitchinterval(before)
        thread.join()


def test_ctrl_c_works_between_calls():
    code = ("import numpy, whet\nx = numpy.zeros((64, 64), numpy.float32)\nprint('ready', flush=True)\n"
            "while True: whet.softmax(x)")
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in errors and process.returncode != 0


def test_ctrl_c_in_a_policy_of_one_s_own_arrives():
    def interrupted(row):
        raise KeyboardInterrupt

    try:
        whet.softmax(np.zeros(4, np.float32), interrupted)
    except KeyboardInterrupt:
        return
    raise AssertionError("nothing was raised")
