"""A production engine, played by a small server on the loopback: streams, figures, and every way to fail."""

from __future__ import annotations

import base64
import io
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from PIL import Image
from typer.testing import CliRunner

from glance.cli import app
from glance.errors import BadInput
from glance.hosting import engine

WORDS = ["A red", " square", "\u2028and a", " blue circle."]  # with a break that is none of the stream's
VLLM = {
    "metrics": {
        "speculative_decoding": {
            "mean_acceptance_length": 3.5, "num_spec_steps": 4, "num_draft_tokens": 60, "num_accepted_draft_tokens": 10,
        }
    }
}  # fmt: skip
SGLANG = {
    "sglext": {
        "spec_tokens_details": {
            "spec_accept_length": 2.25, "spec_verify_ct": 8, "spec_num_proposed_drafts": 120,
            "spec_num_correct_drafts": 10,
        }
    }
}  # fmt: skip


class Server(ThreadingHTTPServer):
    """Answers as `mode` says, and keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.mode, self.owner, self.asked, self.go = "answer", "vllm", [], threading.Event()
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args) -> None:
        pass

    def _json(self, value, status=200) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(value.encode() if isinstance(value, str) else json.dumps(value).encode())

    def do_GET(self) -> None:
        if self.path != "/v1/models":
            self._json("nothing here", 404)
        elif self.server.mode == "other":
            self._json("<html>a router's page</html>")
        else:
            self._json({"data": [{"id": "org/VL-8B", "owned_by": self.server.owner}]})

    def do_POST(self) -> None:
        assert self.path == "/v1/chat/completions"
        server = self.server
        server.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        if server.mode == "refuse":
            return self._json({"error": {"message": "the picture\nis too large"}}, 400)
        if server.mode == "silent":
            server.go.wait(60)
            return None
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for word in WORDS[: 2 if server.mode in ("break", "error") else None]:
            self._chunk({"choices": [{"delta": {"content": word}}]})
        if server.mode == "error":
            self._chunk({"error": {"message": "out of memory"}})
        if server.mode == "answer":
            self._chunk({"choices": [], "usage": {"completion_tokens": 14}, **(VLLM if server.owner == "vllm" else {})})
            if server.owner == "sglang":
                self._chunk({"choices": [{"delta": {}, **SGLANG}]})
            self.wfile.write(b": a comment\n\ndata: [DONE]\n\n")

    def _chunk(self, value) -> None:
        self.wfile.write(f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode())


@pytest.fixture
def server():
    made = Server()
    yield made
    made.go.set()
    made.shutdown()
    made.server_close()


@pytest.fixture
def picture():
    return Image.new("RGB", (8, 6), "red")


def ask(server, picture, **more):
    return list(engine.ask(engine.address(server.url), picture, "What is it?", 32, **more))


def test_the_text_streams_and_the_figures_close_it(server, picture):
    answers = ask(server, picture)
    assert [a.text for a in answers] == ["A red", "A red square", "A red square\u2028and a", *["".join(WORDS)] * 2]
    assert all("answering" in a.sentence() for a in answers[:-1])
    last = answers[-1]
    assert (last.model, last.tokens, last.tau, last.passes, last.drafted, last.accepted) == (
        "VL-8B",
        14,
        3.5,
        4,
        60,
        10,
    )
    assert last.first_ms > 0 and last.tokens_per_s > 0 and last.tokens_per_s == pytest.approx(13e3 / last.ms)
    assert "14 tokens" in last.sentence() and "τ 3.50 over 4 passes, 10 of 60" in last.sentence()


def test_the_question_goes_out_greedy_with_the_picture(server, picture):
    ask(server, picture)
    body = server.asked[0]
    assert body["temperature"] == 0 and body["stream"] and body["max_tokens"] == 32 and body["model"] == "org/VL-8B"
    image, text = body["messages"][0]["content"]
    assert text["text"] == "What is it?" and "return_spec_tokens_details" not in body
    sent = base64.b64decode(image["image_url"]["url"].removeprefix("data:image/png;base64,"))
    assert Image.open(io.BytesIO(sent)).tobytes() == picture.tobytes()


def test_sglang_is_asked_for_its_figures(server, picture):
    server.owner = "sglang"
    last = ask(server, picture)[-1]
    assert server.asked[0]["return_spec_tokens_details"] is True
    assert (last.tau, last.passes, last.drafted, last.accepted) == (2.25, 8, 120, 10)


def test_a_server_without_figures(server, picture):
    server.owner = "somebody"
    assert "no acceptance reported" in ask(server, picture)[-1].sentence()


@pytest.mark.parametrize("url", ["http://h:port/v1", "http://[::1"])
def test_what_is_no_address_is_said(picture, url):
    with pytest.raises(BadInput, match="is no address; correct GLANCE_ENGINE_URL"):
        list(engine.ask(url, picture, "What?"))


@pytest.mark.parametrize(
    ("mode", "sentence"),
    [
        ("refuse", "refused with 400: the picture is too large"),
        ("break", "broke off after 12 characters"),
        ("error", "stopped with an error: out of memory"),
        ("other", "does not speak OpenAI's protocol; the address ends in /v1"),
        ("silent", "sent nothing for 0.5 seconds"),
    ],
)
def test_every_failure_is_one_sentence(server, picture, mode, sentence):
    server.mode = mode
    with pytest.raises(BadInput) as refusal:
        ask(server, picture, timeout=0.5 if mode == "silent" else 60)
    assert sentence in str(refusal.value) and "\n" not in str(refusal.value)


def test_wrong_addresses(server, picture, monkeypatch):
    with pytest.raises(BadInput, match="usually ends in /v1"):
        list(engine.ask(server.url.removesuffix("/v1"), picture, "?"))
    server.shutdown()  # while its thread waits for connections, a closed port still takes them
    server.server_close()
    with pytest.raises(BadInput, match="No server answers at"):
        list(engine.ask(server.url, picture, "?"))
    monkeypatch.delenv(engine.VARIABLE, raising=False)
    for wrong in (None, "ftp://x", "127.0.0.1:8000"):
        with pytest.raises(BadInput, match=engine.VARIABLE):
            engine.address(wrong)


def test_the_command_prints_text_figures_and_what_is_missing(server, picture, tmp_path):
    picture.save(tmp_path / "a.png")
    words = ["engine", str(tmp_path / "a.png"), "What is it?"]
    result = CliRunner().invoke(app, words, env={engine.VARIABLE: server.url + "/"})
    assert result.exit_code == 0, result.output
    lines = result.output.split("\n")
    assert lines[0] == "".join(WORDS) and "τ 3.50" in lines[1] and lines[2] == engine.NO_TREES
    server.mode = "refuse"
    result = CliRunner().invoke(app, words, env={engine.VARIABLE: server.url})
    assert result.exit_code == 2 and "refused with 400" in result.stderr
