"""The corpus on disk: shards of answers and of the target's states, made where missing, by several processes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import torch
from tqdm import tqdm

from glance.checkpoints import TargetParts, load_target
from glance.checkpoints.files import local
from glance.errors import BadInput
from glance.synth.generate import MAKERS
from glance.synth.vocabulary import Split
from glance.training.corpus import Answered, build_corpus, load_corpus, save_corpus
from glance.training.photos import listed
from glance.training.states import Reads, Row, load_rows, save_rows, teacher_forced
from glance.training.workers import worker_pool

_ANSWERS, _STATES = ".jsonl", ".pt"
SIZE = 768  # samples a shard of the embedded target: enough that images of one size fill batches


@dataclass(frozen=True)
class Shard:
    """Samples `start` … `stop` − 1 of a corpus; what they are depends on the seed and `start` alone."""

    families: dict[str, float]
    seed: int
    split: Split
    start: int
    stop: int

    def file(self, folder: Path, kind: str) -> Path:
        return folder / f"{self.split}-{self.start:06d}-{self.stop:06d}{kind}"


def shards_of(families: dict[str, float], seed: int, split: Split, count: int, size: int = SIZE) -> list[Shard]:
    """A corpus of `count` samples in shards."""
    return [Shard(families, seed, split, start, min(start + size, count)) for start in range(0, count, size)]


@dataclass(frozen=True)
class Job:
    """One shard to make, in `folder`: the target (`dtype` as torch names it), what to keep of it, and the limit."""

    target: Path
    device: str
    dtype: str
    shard: Shard
    folder: Path
    reads: Reads
    max_new_tokens: int


def make_shards(
    target: Path,
    shards: Sequence[Shard],
    folder: Path,
    reads: Reads,
    workers: int = 1,
    device: str = "cpu",
    dtype: str = "float32",
    max_new_tokens: int = 160,
    quiet: bool = False,
    parts: TargetParts | None = None,
) -> None:
    """Make the answers, and the target's states over them, that `folder` lacks, in `workers` processes.

    The result does not depend on their number. A process a core with one thread of arithmetic each
    (OMP_NUM_THREADS=1) is the fastest.

    Args:
        parts: the target as it is loaded already; one process makes do with it, several load their own.

    Raises:
        BadInput: the folder holds the corpus of another target, or of other families or pictures.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _check(target, shards[0], folder, reads, max_new_tokens)
    for name, make, kind in (("answers", _make_answers, _ANSWERS), ("states", _make_states, _STATES)):
        missing = [shard for shard in shards if not shard.file(folder, kind).exists()]
        total, left = (sum(shard.stop - shard.start for shard in some) for some in (shards, missing))
        with tqdm(total=total, initial=total - left, desc=name, disable=quiet, mininterval=5) as bar:
            jobs = [Job(target, device, dtype, shard, folder, reads, max_new_tokens) for shard in missing]
            for shard in _each(make, jobs, workers, parts):
                bar.update(shard.stop - shard.start)
    _parts.cache_clear()


def load_answers(shards: Sequence[Shard], folder: Path) -> list[Answered]:
    """The answers of all shards, in order."""
    return [answered for shard in shards for answered in load_corpus(shard.file(folder, _ANSWERS))]


def load_states(shards: Sequence[Shard], folder: Path) -> list[Row]:
    """The target's states over all answers, in order."""
    return [row for shard in shards for row in load_rows(shard.file(folder, _STATES))]


def _check(target: Path, shard: Shard, folder: Path, reads: Reads, max_new_tokens: int) -> None:
    """Answers belong to one target, families, seed and limit, states to what is read of it: note them, or refuse."""
    weights = hashlib.sha256()
    for file in sorted(local(target).glob("*.safetensors")):
        weights.update(file.read_bytes())
    about = {
        "target": weights.hexdigest(),
        "families": shard.families,
        "seed": shard.seed,
        "max_new_tokens": max_new_tokens,
        "reads": asdict(reads),
    }
    folders = [family for family in shard.families if family not in MAKERS]
    if folders:  # a picture more or less, and a seed stands for another one
        about["pictures"] = hashlib.sha256(repr([listed(Path(one)) for one in folders]).encode()).hexdigest()
    about = json.loads(json.dumps(about))  # tuples are lists there
    note = folder / "corpus.json"
    if not note.exists():
        note.write_text(json.dumps(about, indent=1))
    elif json.loads(note.read_text()) != about:
        raise BadInput(f"The folder {folder} holds answers of another target or recipe; choose another folder.")


@lru_cache(maxsize=1)
def _parts(target: Path, device: str, dtype: str) -> TargetParts:
    return load_target(target, getattr(torch, dtype), device)


def _make_answers(job: Job, parts: TargetParts | None = None) -> Shard:
    shard, parts = job.shard, parts or _parts(job.target, job.device, job.dtype)
    count, seed = shard.stop - shard.start, f"{shard.seed}/{shard.start}"
    made = build_corpus(parts, shard.families, count, seed, shard.split, job.max_new_tokens)
    save_corpus(made, shard.file(job.folder, _ANSWERS))
    return shard


def _make_states(job: Job, parts: TargetParts | None = None) -> Shard:
    parts = parts or _parts(job.target, job.device, job.dtype)
    rows = teacher_forced(parts, load_corpus(job.shard.file(job.folder, _ANSWERS)), job.reads)
    save_rows(rows, job.shard.file(job.folder, _STATES))
    return job.shard


def _each(make: Callable[..., Shard], jobs: Sequence[Job], workers: int, parts: TargetParts | None) -> Iterator[Shard]:
    """Shards as they are finished; one worker means this process."""
    if workers == 1 or len(jobs) < 2:
        yield from (make(job, parts) for job in jobs)
        return
    pool = worker_pool(workers)
    try:
        for job in as_completed([pool.submit(make, job) for job in jobs]):
            yield job.result()
    finally:
        pool.shutdown(cancel_futures=True)  # what failed or was interrupted is said now, not after all the others
