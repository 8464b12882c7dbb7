"""Thread pools of the library, one for each number of threads in use.

They live as long as the process. The child of a fork may use its copies, which start threads of their own.
"""

import ctypes
import os
import threading
from typing import Any, Dict, Optional

from ._library import check, library

_executors: Dict[int, Any] = {}
_lock = threading.Lock()


def _renew() -> None:
    """In the child of a fork nobody would release a lock that another thread held."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def executor(threads: int) -> Optional[Any]:
    """A reference to an executor for calls of the library; None for the calling thread alone."""
    if threads <= 1:
        return None
    found = _executors.get(threads)
    if found is None:
        with _lock:
            found = _executors.get(threads)
            if found is None:
                pool = ctypes.c_void_p()
                check(library.whet_pool_create(threads, ctypes.byref(pool)))
                found = _executors[threads] = library.whet_pool_executor(pool)
    return ctypes.byref(found)
