"""The endpoint for programs, on made-up runs."""

import json
import urllib.request

import pytest
from PIL import Image

from glance import trace

gradio_client = pytest.importorskip("gradio_client")


@pytest.fixture(scope="module")
def client(stub_server):
    return gradio_client.Client(stub_server, verbose=False)


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "a.png"
    Image.new("RGB", (80, 60)).save(path)
    return gradio_client.handle_file(str(path))


def test_only_one_endpoint_and_it_is_described(client):
    endpoints = client.view_api(return_format="dict")["named_endpoints"]
    assert list(endpoints) == ["/compare"]
    assert [p["parameter_name"] for p in endpoints["/compare"]["parameters"]] == [
        "image", "question", "page", "max_new_tokens", "budget", "temperature", "seed",
    ]  # fmt: skip


def test_a_run(client, picture):
    read = trace.read(client.predict(image=picture, question="What is it?", budget=8, api_name="/compare"))
    assert [lane.end.identity.verdict for lane in read.lanes] == ["reference", "identical", "identical"]
    assert read.header.settings["budget"] == 8


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"question": " "}, "question is empty"),
        ({"question": "x", "budget": 0}, "Budget must be"),
        ({"question": "x", "max_new_tokens": 7.5}, "New tokens must be"),
        ({"question": "x", "max_new_tokens": None}, "New tokens must be"),
        ({"question": "refuse"}, "This question is refused"),
        ({"question": "x", "page": 0}, "Page must be"),
    ],
)
def test_refusals_are_sentences(client, picture, arguments, words):
    with pytest.raises(gradio_client.exceptions.AppError, match=words):
        client.predict(image=picture, api_name="/compare", **arguments)


def test_files_of_the_server_stay_where_they_are(stub_server, tmp_path):
    Image.new("RGB", (80, 60)).save(tmp_path / "secret.png")
    for path in ("/etc/hostname", str(tmp_path / "secret.png")):
        stolen = {"path": path, "meta": {"_type": "gradio.FileData"}}
        body = json.dumps({"data": [stolen, "x", 1, 8, 8, 0, 0]}).encode()
        request = urllib.request.Request(
            f"{stub_server}gradio_api/call/compare", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            event = json.load(answer)["event_id"]
        with urllib.request.urlopen(f"{stub_server}gradio_api/call/compare/{event}") as answer:
            text = answer.read().decode()
        assert "event: error" in text and "kind" not in text and "neither a picture" not in text
