"""The image's promises, read off the Dockerfile. `scripts/docker_replay.sh` runs its steps."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from glance.hosting.space import PARTS, ROOT

LINES = re.sub(r"\\\n", "", (ROOT / "Dockerfile").read_text()).splitlines()
STEPS = [tuple(line.split(maxsplit=1)) for line in LINES if line and not line.startswith("#")]
SCRIPT = ROOT / "scripts" / "docker_replay.sh"


def all_of(name: str) -> list[str]:
    return [rest for step, rest in STEPS if step == name]


def test_it_runs_as_user_1000_on_port_7860_with_a_health_check():
    assert any("--uid 1000 user" in rest for rest in all_of("RUN"))
    assert all_of("USER") == ["user"] and STEPS[-1][0] == "CMD"
    environment = dict(pair.split("=") for pair in all_of("ENV")[0].split())
    assert all_of("EXPOSE") == [environment["GRADIO_SERVER_PORT"]] == ["7860"]
    assert environment["GRADIO_SERVER_NAME"] == "0.0.0.0" and ":7860/" in all_of("HEALTHCHECK")[0]
    assert json.loads(all_of("CMD")[0]) == ["python", "app.py"]


def test_all_that_is_written_goes_into_the_one_volume():
    environment = dict(pair.split("=") for pair in all_of("ENV")[0].split())
    (volume,) = all_of("VOLUME")
    assert all(environment[name].startswith(volume) for name in ("HF_HOME", "GRADIO_TEMP_DIR", "TMPDIR"))
    assert environment["PYTHONDONTWRITEBYTECODE"] == "1"


def test_the_python_is_the_one_of_the_pins():
    image = all_of("FROM")[0]
    assert re.search(r"python(3\.\d+) -m venv", (ROOT / ".ci" / "run").read_text())[1] in image


def test_what_the_app_needs_is_copied():
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert not {*PARTS, "requirements.txt"} & set(ignored)
    assert {".git", "tests"} <= set(ignored)


@pytest.mark.parametrize("step", sorted({step for step, _ in STEPS}))
def test_the_replay_knows_every_instruction(step):
    assert re.search(rf"^\s*{step}\)", SCRIPT.read_text(), re.M)


def test_the_replay_is_a_valid_script():
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True)
