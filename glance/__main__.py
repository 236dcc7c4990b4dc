"""`python -m glance`."""

import sys

from .cli import app

if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # a terminal or a file that has no letter τ
    app(prog_name="python -m glance")
