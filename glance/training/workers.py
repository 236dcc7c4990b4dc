"""Processes that draw, answer and encode beside the trainer."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process


def worker_pool(processes: int) -> ProcessPoolExecutor:
    """Spawned processes that end with this one, even where it is killed and cannot tell them."""
    return ProcessPoolExecutor(processes, get_context("spawn"), initializer=_end_with_parent)


def _end_with_parent() -> None:
    threading.Thread(target=_wait_and_leave, daemon=True).start()


def _wait_and_leave() -> None:
    parent_process().join()
    os._exit(1)  # what is half made is made again by the next run
