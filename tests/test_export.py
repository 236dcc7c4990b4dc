"""The rounds as a table and the page that plays by itself."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

from glance import export, saved, trace
from glance.cli import app
from tests.app import fake

HOSTILE = ["=1+1", "</script><script>x()</script>", "<!--", "\u2028", '"', ",", "\n", "\x00", "\u202e", "é", "-->"]


def run(words=HOSTILE) -> str:
    return "".join(fake.lines(words, words, question="</script><!-- \u2028 $& what?"))


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(export.rounds_csv(trace.read(text)), newline="")))


def test_every_round_is_a_row_and_its_numbers_are_those_of_the_trace():
    made = trace.read("".join(fake.lines()))
    table = rows("".join(fake.lines()))
    rounds = [rnd for lane in made.lanes for rnd in lane.rounds]
    assert [(r["lane"], int(r["round"]) - 1) for r in table] == [(x.lane, x.index) for x in rounds]
    for row, rnd in zip(table, rounds, strict=True):
        assert float(row["root_entropy_nats"]) == pytest.approx(rnd.entropy, abs=1e-6)
        assert float(row["total_ms"]) == pytest.approx(rnd.total_ms, abs=1e-6)
        assert [int(row[c]) for c in ("candidates", "accepted", "emitted", "deferred")] == [
            len(rnd.tokens), len(rnd.accepted), len(rnd.emitted), rnd.deferred,
        ]  # fmt: skip
    for lane in made.lanes:
        emitted = sum(int(r["emitted"]) for r in table if r["lane"] == lane.id)
        assert emitted + 1 == lane.end.summary.tokens


def test_texts_survive_and_none_is_a_formula():
    made = trace.read(run())
    eos = set(made.header.settings["eos_ids"])
    table = rows(run())
    for lane in made.lanes:
        said = "".join(json.loads(r["emitted_text"]) for r in table if r["lane"] == lane.id)
        first = made.pieces[made.header.first].decode()
        ended = b"".join(made.pieces[i] for i in lane.end.ids if i in eos).decode()
        assert first + said == lane.end.text + ended
    assert not any(value.startswith(("=", "+", "@")) for r in table for value in r.values())


def test_a_lane_name_is_no_formula_either():
    made = trace.read("".join(fake.lines()))
    odd = replace(made, lanes=tuple(replace(lane, id="=1+1") for lane in made.lanes))
    assert export.rounds_csv(odd).splitlines()[1].startswith('"""=1+1"""')


def test_numbers_are_written_as_javascript_writes_them():
    assert [export._float(x) for x in (0.0078125, -0.0, 1e300, -0.0000006, 12.0)] == [
        "0.007813", "0.000000", "1e+300", "-0.000001", "12.000000",
    ]  # fmt: skip


def test_a_run_without_rounds_is_a_head_alone():
    header = fake.lines()[0]
    assert export.rounds_csv(trace.read(header)) == ",".join(export.COLUMNS) + "\r\n"


def markup(page: str) -> list[tuple[str, dict[str, str | None]]]:
    """The elements of a page as a parser sees them, each tag with its attributes."""
    found = []
    parser = HTMLParser(convert_charrefs=False)
    parser.handle_starttag = lambda tag, attributes: found.append((tag, dict(attributes)))
    parser.handle_comment = lambda text: found.append(("comment", {"text": text}))
    parser.feed(page)
    return found


def test_the_page_holds_everything_and_fetches_nothing():
    page = export.replay_html(run())
    elements = markup(page)
    assert not [tag for tag, attributes in elements if {"src", "href", "srcset"} & set(attributes)]
    assert [tag for tag, _ in elements].count("script") == len(export.scripts()) + 2
    assert "default-src 'none'" in page
    for path in (*export.scripts(), export.PLAYER / "viewer.css"):
        assert path.read_text(encoding="utf-8") in page
    assert "url(" not in (export.PLAYER / "viewer.css").read_text(encoding="utf-8")


def test_no_text_of_a_run_becomes_markup():
    page = export.replay_html(run())
    assert markup(page) == markup(export.replay_html("".join(fake.lines())))
    held = re.search(r'ndjson" id="trace">(.*?)</script>', page, re.DOTALL)[1]
    assert "<" not in held and trace.read(held) == trace.read(run())


def test_scripts_can_stand_inside_a_page():
    for path in export.scripts():
        text = path.read_text(encoding="utf-8").lower()
        assert "</script" not in text and "<!--" not in text, path.name


def test_only_a_trace_becomes_a_page():
    with pytest.raises(trace.TraceError, match="not a JSON object"):
        export.replay_html("hello\n")


def test_a_saved_run_is_read_whole_or_up_to_where_it_was_torn(tmp_path):
    path, text = tmp_path / "run.json", "".join(fake.lines())
    for kept, held in (
        (text, text), (text[:-1], text), (text[:-40], text[: text[:-40].rindex("\n") + 1]),
        ("\ufeff" + text, text), (text.replace("\n", "\r\n"), text), (text + "1", text), (text + "[" * 200_000, text),
    ):  # fmt: skip
        path.write_bytes(kept.encode())
        assert saved.text_of(path) == held
    path.write_bytes(text.encode() + '{"pieces":"é'.encode()[:-1])
    assert saved.text_of(path) == text


def test_a_file_too_large_is_refused_unread(tmp_path):
    path = tmp_path / "run.ndjson"
    path.write_bytes(b"\xff" * 3000)
    with pytest.raises(trace.TraceError, match=r"^The file has 0\.0 MB and 0 fit; choose a trace saved by this app\.$"):
        saved.text_of(path, limit=2999)
    with pytest.raises(trace.TraceError, match="not text"):
        saved.text_of(path, limit=3000)
    with pytest.raises(trace.TraceError, match="could not be opened"):
        saved.text_of(tmp_path / "missing.ndjson")


def test_both_from_the_command_line(tmp_path):
    text = "".join(fake.lines())
    (tmp_path / "run.ndjson").write_text(text, encoding="utf-8")
    for command in (["replay", "run.ndjson", "--out", "a.html"], ["rounds", "run.ndjson", "--csv", "a.csv"]):
        done = CliRunner().invoke(app, [str(tmp_path / x) if "." in x else x for x in command])
        assert done.exit_code == 0, done.output
    assert (tmp_path / "a.html").read_bytes().decode() == export.replay_html(text)
    assert (tmp_path / "a.csv").read_bytes().decode() == export.rounds_csv(trace.read(text))
    (tmp_path / "run.ndjson").write_text("{}\n", encoding="utf-8")
    done = CliRunner().invoke(app, ["replay", str(tmp_path / "run.ndjson")])
    assert done.exit_code == 2 and "not a GLANCE trace" in done.output


def test_neither_gradio_nor_plotly_nor_a_model_is_needed():
    heavy = {"torch", "gradio", "plotly", "transformers"}
    code = f"import sys, glance.export, glance.saved; print({heavy} & {{*sys.modules}})"
    assert subprocess.check_output([sys.executable, "-c", code], cwd=export.PLAYER.parents[1], text=True) == "set()\n"
