"""Asking a production engine (SGLang, vLLM, or whatever else speaks OpenAI's protocol) the same question.

An engine streams text. It shows no trees, no entropies and no single rounds, so its answer is no lane of a trace: it
is text, speed as measured on this side of the wire, and acceptance over the whole answer where the server reports it.
It also resizes the picture in its own way and computes in its own precision, so its text may differ.

Acceptance: vLLM 0.32 puts `metrics.speculative_decoding` beside the usage; SGLang puts `sglext.spec_tokens_details`
into the answer if the request asks for it.
"""

from __future__ import annotations

import base64
import io
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import httpx
from PIL import Image

from ..errors import BadInput

VARIABLE = "GLANCE_ENGINE_URL"
NO_TREES = "An engine shows no trees: this is its text, its speed from here, and what it says about acceptance."


@dataclass(frozen=True)
class Answer:
    """What has arrived.

    Args:
        tokens: of the whole answer, as the server counts them; None until it does.
        first_ms: from the request to the first text: the prefill, the queue and the wire.
        ms: from the first text to the last.
        tau: tokens a verify pass, the target's own included; None where the server does not say.
    """

    model: str
    text: str = ""
    tokens: int | None = None
    first_ms: float | None = None
    ms: float = 0.0
    tau: float | None = None
    passes: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    reason: str | None = None

    @property
    def tokens_per_s(self) -> float | None:
        """Decode speed; None for an answer that came in one piece."""
        return 1e3 * (self.tokens - 1) / self.ms if self.tokens and self.ms else None

    def sentence(self) -> str:
        """Speed and acceptance in words."""
        if self.reason is None:
            return f"{self.model} is answering… {len(self.text)} characters"
        speed = "speed not known" if self.tokens_per_s is None else f"{self.tokens_per_s:.0f} tokens/s"
        taken = "no acceptance reported"
        if self.tau is not None:
            taken = f"τ {self.tau:.2f} over {self.passes} passes, {self.accepted} of {self.drafted} drafts accepted"
        wait = f"first text after {self.first_ms or 0:.0f} ms"
        return f"{self.model}: {self.tokens or '?'} tokens, {speed}, {wait}, {taken}."


def address(url: str | None = None) -> str:
    """The server's address without a slash at its end: as given, or from the environment.

    Raises:
        BadInput: none is set, or it is no web address.
    """
    url = (url or os.environ.get(VARIABLE, "")).rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise BadInput(f"Set {VARIABLE} to the server's address, such as http://127.0.0.1:30000/v1; it is {url!r} now.")
    return url


def ask(
    url: str, image: Image.Image, question: str, max_new_tokens: int = 256, timeout: float = 60.0
) -> Iterator[Answer]:
    """Stream a greedy answer, the last one with the figures. Closing the generator ends the request.

    Args:
        url: as `address` gives it, ending in /v1.
        timeout: seconds without a byte after which the server is given up.

    Raises:
        BadInput: no server, a wrong address, a refusal, silence, or another protocol; one sentence.
    """
    try:
        with httpx.Client(base_url=url + "/", timeout=timeout) as client:
            listed = _checked(client.get("models"), url).json()["data"][0]
            body = _request(listed["id"], image, question, max_new_tokens)
            if listed.get("owned_by") == "sglang":
                body["return_spec_tokens_details"] = True  # a field of its own; others may refuse what they don't know
            asked = time.perf_counter()
            with client.stream("POST", "chat/completions", json=body) as reply:
                if reply.is_error:
                    reply.read()
                yield from _answers(_checked(reply, url), Answer(listed["id"].rsplit("/", 1)[-1]), asked)
    except BadInput:
        raise
    except httpx.TimeoutException:
        raise BadInput(f"The server at {url} sent nothing for {timeout:g} seconds; see whether it is busy.") from None
    except httpx.ConnectError:
        raise BadInput(f"No server answers at {url}; start it, or correct {VARIABLE}.") from None
    except httpx.HTTPError as error:
        raise BadInput(f"The server at {url} broke off ({type(error).__name__}); ask again.") from None
    except httpx.InvalidURL:
        raise BadInput(f"{url} is no address; correct {VARIABLE}.") from None
    except (ValueError, LookupError, TypeError, AttributeError):
        raise BadInput(f"What answers at {url} does not speak OpenAI's protocol; the address ends in /v1.") from None


def _request(model: str, image: Image.Image, question: str, max_new_tokens: int) -> dict[str, Any]:
    png = io.BytesIO()
    image.save(png, "PNG")
    picture = f"data:image/png;base64,{base64.b64encode(png.getvalue()).decode()}"
    content = [{"type": "image_url", "image_url": {"url": picture}}, {"type": "text", "text": question}]
    return {
        "model": model,
        "messages": [{"role": "user", "content": content}],
        "temperature": 0,
        "max_tokens": max_new_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _checked(reply: httpx.Response, url: str) -> httpx.Response:
    if reply.status_code == 404:
        raise BadInput(f"There is no OpenAI-compatible server at {url}; the address usually ends in /v1.")
    if reply.is_error:
        raise BadInput(f"The server at {url} refused with {reply.status_code}: {_words(reply)[:200]}")
    return reply


def _words(reply: httpx.Response) -> str:
    """The server's own words about an error, on one line."""
    try:
        said = reply.json()
        said = said.get("error", said)
        text = said.get("message", said) if isinstance(said, Mapping) else said
    except (ValueError, AttributeError):
        text = reply.text
    return " ".join(str(text).split()) or reply.reason_phrase


def _lines(pieces: Iterable[str]) -> Iterator[str]:
    """Lines that end in a newline and in nothing else: an answer may hold other characters that Unicode breaks at."""
    rest = ""
    for piece in pieces:
        *lines, rest = (rest + piece).split("\n")
        yield from lines
    yield rest


def _answers(reply: httpx.Response, answer: Answer, asked: float) -> Iterator[Answer]:
    """Server-sent events: `data: {chunk}` lines, then `data: [DONE]`."""
    first: float | None = None
    ended = False
    for line in _lines(reply.iter_text()):
        if not line.startswith("data:"):
            continue
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            ended = True
            break
        chunk = json.loads(data)
        if "error" in chunk:
            error = chunk["error"]
            raise BadInput(f"The server stopped with an error: {error.get('message', error)}")
        answer = replace(answer, **_figures(chunk))
        for choice in chunk.get("choices", ())[:1]:
            text = (choice.get("delta") or {}).get("content") or ""
            if text:
                now = time.perf_counter()
                first = now if first is None else first
                answer = replace(
                    answer, text=answer.text + text, first_ms=1e3 * (first - asked), ms=1e3 * (now - first)
                )
                yield answer
    if not ended:
        raise BadInput(f"The server broke off after {len(answer.text)} characters; ask again.")
    yield replace(answer, reason="done")


def _figures(chunk: Mapping[str, Any]) -> dict[str, Any]:
    """Tokens and acceptance of a chunk, where it has any."""
    found: dict[str, Any] = {}
    if chunk.get("usage"):
        found["tokens"] = chunk["usage"]["completion_tokens"]
    vllm = (chunk.get("metrics") or {}).get("speculative_decoding")
    if vllm:
        found |= {"tau": vllm["mean_acceptance_length"], "passes": vllm["num_spec_steps"]}
        found |= {"drafted": vllm["num_draft_tokens"], "accepted": vllm["num_accepted_draft_tokens"]}
    for holder in (chunk, *chunk.get("choices", ())):
        sglang = (holder.get("sglext") or {}).get("spec_tokens_details")
        if sglang:
            found |= {"tau": sglang["spec_accept_length"], "passes": sglang["spec_verify_ct"]}
            found |= {"drafted": sglang["spec_num_proposed_drafts"], "accepted": sglang["spec_num_correct_drafts"]}
    return found
