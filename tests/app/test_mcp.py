"""The endpoint as a tool for language models, asked with the Model Context Protocol's own client, on made-up runs."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from PIL import Image

from app import run
from glance import trace
from tests.app.conftest import HERE, serve

pytest.importorskip("mcp", reason="the package mcp is not installed: pip install -r requirements-mcp.txt")

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import CallToolResult, Tool


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    for server in serve(HERE / "stub_server.py", {"GRADIO_MCP_SERVER": "True"}):
        yield f"{server}gradio_api/mcp/"


@pytest.fixture(scope="module")
def picture() -> str:
    """A PNG as a data URL."""
    file = io.BytesIO()
    Image.new("RGB", (80, 60)).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def ask(address: str, question: Callable[[ClientSession], Awaitable[Any]]) -> Any:
    """What the server answers, asked from a thread of its own: the browser tests' loop may run in this one."""

    async def asked() -> Any:
        async with streamablehttp_client(address) as (read, write, _), ClientSession(read, write) as session:
            await session.initialize()
            return await question(session)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, asked()).result()


def tools(address: str) -> list[Tool]:
    return ask(address, lambda session: session.list_tools()).tools


def call(address: str, **arguments: Any) -> CallToolResult:
    return ask(address, lambda session: session.call_tool("compare", arguments))


def test_compare_is_the_only_tool_and_says_how_it_is_used(address):
    (tool,) = tools(address)
    assert tool.name == "compare" and tool.description.startswith("Answer a question about an image or a PDF page")
    assert "NDJSON" in tool.description
    fields = tool.inputSchema["properties"]
    assert tool.inputSchema["required"] == ["image", "question"] and all(f["description"] for f in fields.values())
    assert fields["budget"]["default"] == 31 and fields["image"]["type"] == "string"
    limits = {"max_new_tokens": run.MAX_NEW_TOKENS, "budget": run.MAX_BUDGET, "temperature": run.MAX_TEMPERATURE}
    assert all(fields[name]["description"].endswith(f"at most {limit}.") for name, limit in limits.items())


def test_a_call_brings_the_run(address, picture):
    result = call(address, image=picture, question="What is it?", budget=8, lanes="autoregressive,glance")
    assert not result.isError, result.content
    told = trace.read(result.content[0].text)
    assert [lane.end.identity.verdict for lane in told.lanes] == ["reference", "identical"]
    assert told.header.question == "What is it?" and told.header.settings["budget"] == 8


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"question": " "}, "question is empty"),
        ({"question": "x", "lanes": "glance"}, "One lane alone is no race"),
        ({"question": "x", "image": "/etc/hostname"}, "provide a url"),
    ],
)
def test_refusals_are_sentences(address, picture, arguments, words):
    result = call(address, **{"image": picture, **arguments})
    assert result.isError and words in result.content[0].text
