"""Worker processes do not outlive the one that started them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

PARENT = """
import os, sys, time
from glance.training.workers import worker_pool

if __name__ == "__main__":
    pool = worker_pool(1)
    print(pool.submit(os.getpid).result(), flush=True)
    pool.submit(time.sleep, 3600)
    time.sleep(3600)
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watches a process as Linux does")
def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, env=path) as parent:
        worker = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    gone = select.select([worker], [], [], 60)[0]
    if not gone:
        signal.pidfd_send_signal(worker, signal.SIGKILL)
    os.close(worker)
    assert gone, "the worker lives on"
