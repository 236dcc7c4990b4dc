"""Trains a tiny head in a process of `accelerate launch`: launched.py TARGET OUT, with the answers lying in OUT."""

from __future__ import annotations

import sys
from pathlib import Path

from glance.training.heads import train_head
from tests.training.tiny import HEAD

if __name__ == "__main__":
    train_head(HEAD, sys.argv[1], Path(sys.argv[2]), quiet=True, log_every=1)
