"""The endpoint for programs, on made-up runs."""

import json
import urllib.request
from itertools import pairwise

import pytest
from PIL import Image

from glance import trace

gradio_client = pytest.importorskip("gradio_client")


@pytest.fixture(scope="module")
def client(stub_server):
    return gradio_client.Client(stub_server, verbose=False, httpx_kwargs={"timeout": 180})


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "a.png"
    Image.new("RGB", (80, 60)).save(path)
    return gradio_client.handle_file(str(path))


def test_only_one_endpoint_and_it_is_described(client):
    endpoints = client.view_api(return_format="dict")["named_endpoints"]
    assert list(endpoints) == ["/compare"]
    assert [p["parameter_name"] for p in endpoints["/compare"]["parameters"]] == [
        "image", "question", "page", "max_new_tokens", "budget", "temperature", "seed", "lanes",
    ]  # fmt: skip
    assert not [p["label"] for p in endpoints["/compare"]["parameters"] if "parameter" in p["label"]]


def test_the_page_of_the_api_tells_what_it_does(stub_server):
    with urllib.request.urlopen(f"{stub_server}gradio_api/info") as told:
        endpoints = json.load(told)["named_endpoints"]
    assert endpoints["/compare"]["description"].startswith("Answer a question about an image or a PDF page")
    assert endpoints["/compare"]["returns"][0]["label"] == "The run as NDJSON"


def test_a_run(client, picture):
    read = trace.read(client.predict(image=picture, question="What is it?", budget=8, api_name="/compare"))
    assert [lane.end.identity.verdict for lane in read.lanes] == ["reference", "identical", "identical"]
    assert read.header.settings["budget"] == 8


def test_lanes_can_be_chosen(client, picture):
    text = client.predict(image=picture, question="Which?", lanes="glance, autoregressive", api_name="/compare")
    assert [lane["id"] for lane in trace.read(text).header.lanes] == ["autoregressive", "glance"]


def test_a_job_brings_the_growing_run_and_ends_where_it_is_cancelled(client, picture):
    job = client.submit(image=picture, question="slow", api_name="/compare")
    texts = [text for text in job if text]
    assert len(texts) > 1 and all(later.startswith(earlier) for earlier, later in pairwise(texts))
    assert trace.read(texts[-1]).lanes[-1].end
    job = client.submit(image=picture, question="glacial job", api_name="/compare")
    next(text for text in job if text)
    job.cancel()
    answer = client.predict(image=picture, question="history", api_name="/compare")  # waits for its turn
    assert "glacial job" in trace.read(answer).header.question


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"question": " "}, "question is empty"),
        ({"question": "x", "budget": 0}, "Budget must be"),
        ({"question": "x", "max_new_tokens": 7.5}, "New tokens must be"),
        ({"question": "x", "max_new_tokens": None}, "New tokens must be"),
        ({"question": "refuse"}, "This question is refused"),
        ({"question": "x", "page": 0}, "Page must be"),
        ({"question": "x", "lanes": "glance"}, "One lane alone is no race"),
        ({"question": "x", "lanes": "glance,medusa"}, "There is no lane 'medusa'"),
    ],
)
def test_refusals_are_sentences(client, picture, arguments, words):
    with pytest.raises(gradio_client.exceptions.AppError, match=words):
        client.predict(image=picture, api_name="/compare", **arguments)


def test_files_of_the_server_stay_where_they_are(stub_server, tmp_path):
    Image.new("RGB", (80, 60)).save(tmp_path / "secret.png")
    for path in ("/etc/hostname", str(tmp_path / "secret.png")):
        stolen = {"path": path, "meta": {"_type": "gradio.FileData"}}
        body = json.dumps({"data": [stolen, "x", 1, 8, 8, 0, 0, ""]}).encode()
        request = urllib.request.Request(
            f"{stub_server}gradio_api/call/compare", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            event = json.load(answer)["event_id"]
        with urllib.request.urlopen(f"{stub_server}gradio_api/call/compare/{event}") as answer:
            text = answer.read().decode()
        assert "event: error" in text and "kind" not in text and "neither a picture" not in text


def test_more_jobs_than_the_queue_holds_each_end_with_a_run_or_with_a_sentence(stub_server, client, picture):
    many = gradio_client.Client(stub_server, verbose=False, max_workers=52, httpx_kwargs={"timeout": 180})
    asked = [f"Job {i}?" for i in range(52)]
    jobs = [many.submit(image=picture, question=question, budget=8, api_name="/compare") for question in asked]
    refused = []
    for question, job in zip(asked, jobs, strict=True):
        try:
            assert trace.read(job.result()).header.question == question
        except gradio_client.utils.QueueError as problem:
            refused.append(str(problem))
    assert 0 < len(refused) < len(asked)
    assert set(refused) == {"Queue is full! Please try again."}
    after = client.predict(image=picture, question="After all of them?", api_name="/compare")
    assert trace.read(after).header.question == "After all of them?"
