"""Threads for rows: the library normalises them on the calling thread, so many rows are divided among threads of Python, which
the library's calls do not hold up."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Sequence

# With fewer values to a thread, handing them over takes longer than it saves.
VALUES_EACH = 1 << 18

_pools: Dict[int, ThreadPoolExecutor] = {}
_lock = threading.Lock()


def _forget() -> None:
    """The child of a fork has none of its parent's threads."""
    global _lock
    _lock = threading.Lock()
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def shares(rows: int, n: int, threads: int) -> List[range]:
    """Rows for each thread: one share if there is little to do."""
    count = max(1, min(threads, rows, rows * n // VALUES_EACH))
    return [range(rows * i // count, rows * (i + 1) // count) for i in range(count)]


def run(function: Callable[[range], Any], parts: Sequence[range], threads: int) -> None:
    """Calls the function on every part, on this thread and others; raises what one of them raised."""
    if len(parts) > 1:
        with _lock:
            pool = _pools.get(threads)
            if pool is None:
                pool = _pools[threads] = ThreadPoolExecutor(threads - 1, "whet")
        waiting = [pool.submit(function, part) for part in parts[1:]]
        try:
            function(parts[0])
        finally:
            results = [future.exception() for future in waiting]
        for failure in results:
            if failure is not None:
                raise failure
    else:
        function(parts[0])
