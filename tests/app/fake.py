"""A made-up run for the tests of the app, through the same dataclasses that a real one uses."""

from __future__ import annotations

import hashlib
import heapq
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from glance import law
from glance.trace import Header, Identity, LaneEnd, Round, line, summarize


def _words(text: str) -> list[str]:
    return text.split("|")


ANSWER = _words(
    "The| chart| shows| that| total| revenue| rose| from| $|4|.|2| M| in| |2021| to| $|6|.|8| M| in| |2023|,| led|"
    " by| the| cloud| segment|,| which| grew| |41|%| year| over| year|.|\n|Hard|ware| sales| fell| |3|%| while|"
    " services| were| flat| at| $|1|.|1| M|.|\n|The| steep|est| increase| is| between| Q|2| and| Q|3|,| when| the|"
    " bar| la|belled| Cloud| over|takes| Hard|ware| 📈|.| Caf|é| sales| stay| the| same|."
)
DISTRACTORS = _words(
    " a| an| this| of| on| with| up| down| was| are|2020|2022| and| or| but| net| gross| Q|1|4| line| table| row| it"
    " | has| more| less| than| about| nearly| almost|ed|ing|s|:|;| (|)|\n| axis| label| red| blue"
)
# Tokens that would harm a careless page.
HOSTILE = [
    "<img src=x onerror=window.harmed=1>", "<script>window.harmed=1</script>", "${window.harmed=1}", "{{value}}", "`",
    "</script>", "\u202eabc", "\u2066", "\x00\x1b", "<b>bold</b>", "%{customdata[0]}", "&lt;",
    "\u05e9\u05dc\u05d5\u05dd",
    "\U0001f469\u200d\U0001f52c", "a" * 60, "\r\n", " ",
]  # fmt: skip
LANES = (("autoregressive", "Autoregressive"), ("eagle3", "EAGLE-3"), ("glance", "GLANCE"))
STOP = b"<|im_end|>"


class Words:
    """Token ids for byte strings, in the order in which they are first asked for."""

    def __init__(self) -> None:
        self.ids: dict[bytes, int] = {}

    def __call__(self, piece: bytes) -> int:
        return self.ids.setdefault(piece, len(self.ids))

    def pieces(self, ids: Sequence[int]) -> dict[int, bytes]:
        names = list(self.ids)
        return {i: names[i] for i in dict.fromkeys(ids)}


def split(words: Sequence[str]) -> list[bytes]:
    """Words as tokens; characters of four bytes are cut in the middle, as byte-level vocabularies do."""
    out: list[bytes] = []
    for word in words:
        data = word.encode()
        cut = next((i + 2 for i, byte in enumerate(data) if byte >= 0xF0), 0)
        out += [data[:cut], data[cut:]] if cut else [data]
    return out


def tree(rng: random.Random, truth: Sequence[int], other: Sequence[int], budget: int, depth: int, hit: float):
    """A best-first candidate tree that follows the truth with probability `hit` at every depth."""
    tokens, parents, depths, log_q, log_p, on_path = [], [], [], [], [], []
    heap = [(0.0, -1)]
    while heap and len(tokens) < budget:
        score, node = heapq.heappop(heap)
        at = 0 if node < 0 else depths[node]
        if at >= depth:
            continue
        follows = node < 0 or on_path[node]
        rest, drafts = 1.0, rng.sample(list(other), rng.choice((1, 2, 3)))
        if follows and at < len(truth) and rng.random() < hit:
            drafts = [token for token in drafts if token != truth[at]]
            drafts.insert(0 if rng.random() < 0.8 else 1, truth[at])
        for token in drafts:
            if len(tokens) >= budget:
                break
            share = rest * rng.uniform(0.4, 0.93)
            rest -= share
            right = follows and at < len(truth) and token == truth[at]
            tokens.append(token)
            parents.append(node)
            depths.append(at + 1)
            log_q.append(math.log(share))
            log_p.append(math.log(0.9 if right else 0.02))
            on_path.append(right)
            heapq.heappush(heap, (score - math.log(share), len(tokens) - 1))
    path = [i for i, right in enumerate(on_path) if right]
    return tokens, parents, depths, log_q, log_p, path


def looks(rnd: Round, other: Sequence[int]) -> Round:
    """The round with entropies and margins of all its tokens, and what both sides thought at its root."""
    sure = [random.Random(f"{i} {token}") for i, token in enumerate(rnd.emitted)]
    rival = next(token for token in other if token != rnd.emitted[0])
    drafted = [i for i, parent in enumerate(rnd.parents) if parent < 0]
    return replace(
        rnd, entropies=tuple(rng.uniform(0, 2.4) for rng in sure), margins=tuple(rng.uniform(0, 9) for rng in sure),
        draft_top=tuple(rnd.tokens[i] for i in drafted), draft_top_log_q=tuple(rnd.log_q[i] for i in drafted),
        target_top=(rnd.emitted[0], rival), target_top_log_p=(math.log(0.7), math.log(0.2)),
    )  # fmt: skip


def one_lane(lane: str, answer: Sequence[int], other: Sequence[int], budget: int, seed: int) -> Iterator[Round]:
    """The rounds of a lane that writes the answer."""
    rng, at, index = random.Random(f"{lane}{seed}"), 1, 0
    while at < len(answer):
        truth = answer[at : at + 15]
        drafted: tuple = ([], [], [], [], [], [])
        if lane == "eagle3":
            drafted = tree(rng, truth, other, budget, 8, 0.72)
        elif lane == "glance":
            drafted = tree(rng, truth, other, budget, 10, 0.9)
        tokens, parents, depths, log_q, log_p, path = drafted
        path = path[: len(answer) - at]
        bonus = answer[at + len(path)] if at + len(path) < len(answer) else None
        emitted = answer[at : at + len(path)] + ([bonus] if bonus is not None else [])
        ms = {"draft": 0.0, "build": 0.0, "verify": rng.uniform(14, 17), "commit": rng.uniform(0.2, 0.5)}
        if tokens:
            ms.update(draft=rng.uniform(8, 10) if lane == "eagle3" else rng.uniform(2, 3), build=rng.uniform(0.3, 0.8))
        yield Round(
            lane, index, answer[at - 1], 300 + at, *map(tuple, (tokens, parents, depths, log_q, log_p, path)), bonus,
            tuple(emitted), abs(rng.gauss(0.5, 0.7)), rng.uniform(0, 9), lane != "autoregressive" and index == 3,
            {"autoregressive": 0, "eagle3": 8, "glance": 1}[lane], ms,
        )  # fmt: skip
        at += len(emitted)
        index += 1


def lines(
    words: Sequence[str] = tuple(ANSWER),
    distractors: Sequence[str] = tuple(DISTRACTORS),
    question: str = "What does the chart say about revenue?",
    budget: int = 31,
    seed: int = 0,
    run: str = "fake",
    differs: bool = False,
    lanes: Sequence[str] = tuple(dict(LANES)),
    image: str = "1" * 64,
    full: bool = False,
) -> list[str]:
    """The NDJSON lines of a made-up run, in the order of the fair scheduler; `full` with all that a trace can tell."""
    running = [(lane, name) for lane, name in LANES if lane in lanes]
    known = Words()
    answer = [known(piece) for piece in [*split(words), STOP]]
    other = [known(piece) for piece in split(distractors)]
    stop = known(STOP)
    header = Header(
        run, question, {"tokens": 342, "ids_sha256": "0" * 64, "image": [{"sha256": image, "width": 512,
        "height": 384, "tokens": 192}]}, {"max_new_tokens": 256, "budget": budget, "temperature": 0.0, "seed": seed,
        "stop": [], "eos_ids": [stop]}, tuple({"id": i, "name": n, "drafter": i} for i, n in running), answer[0], 412.5,
        {"preset": "made-up", "dtype": "float32", "device": "cpu"},
    )  # fmt: skip
    out = [line(header, known.pieces([answer[0], stop]))]
    rounds = {lane: list(one_lane(lane, answer, other, budget, seed)) for lane, _ in running}
    if full:
        rounds = {lane: [looks(rnd, other) for rnd in made] for lane, made in rounds.items()}
    clock, todo = dict.fromkeys(rounds, 0.0), {lane: list(r) for lane, r in rounds.items()}
    while any(todo.values()):
        lane = min((i for i in todo if todo[i]), key=clock.__getitem__)
        rnd = todo[lane].pop(0)
        clock[lane] += rnd.total_ms
        out.append(line(rnd, known.pieces([rnd.root, *rnd.tokens, *rnd.emitted, *rnd.target_top])))
    text = b"".join(split(words))
    for lane, name in running:
        verdict = Identity("identical", running[0][1], len(answer), sentence="All tokens are byte-identical.")
        if lane == running[0][0]:
            verdict = Identity("reference", name, len(answer))
        elif differs and lane == "eagle3":
            verdict = Identity("differs", running[0][1], 9, 9, answer[9], other[0], 0.0021, "Differs at token 9.", True)
        ids = (*answer[:9], other[0], *answer[10:]) if verdict.verdict == "differs" else tuple(answer)
        sha = hashlib.sha256(text if verdict.verdict != "differs" else text + b"!").hexdigest()
        fitted = law.of_rounds(rounds[lane], {"eagle3": 8}.get(lane, 15)) if full else None
        out.append(line(LaneEnd(
            lane, ids, text.decode(), sha, "eos", 1.5, summarize(rounds[lane]), verdict, law=fitted,
        )))  # fmt: skip
    return out
