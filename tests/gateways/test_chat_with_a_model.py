"""The chat over a folder, answered by a model: one process, one provider on loopback."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from subprocess import CompletedProcess

import msgspec
import pytest
import trio

from counterpoint.runtime import cli

from .faulty_provider import answers, ends_with, faulty_provider, refuses, says, took

COMMAND = [sys.executable, "-m", "counterpoint.runtime.cli", "chat", "--json"]


async def ask(store: Path, base_url: str) -> CompletedProcess[bytes]:
    """Say one thing to a chat of its own process, and return what it printed."""
    with trio.fail_after(60):
        return await trio.run_process(
            [*COMMAND, "--store", str(store), "--base-url", base_url, "--model", "small-1"],
            stdin=b'{"id":"m-1","text":"What is the Sharpe ratio?"}\n',
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            env={**os.environ, "COUNTERPOINT_API_KEY": "sesame-opens-it"},
        )


def answer_in(printed: bytes) -> str:
    [answer] = [
        line
        for line in (msgspec.json.decode(text) for text in printed.splitlines())
        if line["type"] == "answer"
    ]
    text: str = answer["text"]
    return text


@pytest.mark.slow
async def test_the_desk_answers_with_the_model_that_the_command_line_names(tmp_path: Path) -> None:
    play = answers(says("From the model."), ends_with("stop"), took(3, 2))
    async with faulty_provider(play) as provider:
        done = await ask(tmp_path / "store", provider.base_url)
        exchange = await provider.request(0)

    assert (done.returncode, done.stderr) == (0, b"")
    assert answer_in(done.stdout) == "From the model."
    assert exchange.headers["authorization"] == "Bearer sesame-opens-it"
    assert {tool["function"]["name"] for tool in exchange.body["tools"]} >= {"search", "read"}
    assert b"sesame" not in done.stdout


@pytest.mark.slow
async def test_a_provider_that_refuses_is_told_and_its_key_is_not(tmp_path: Path) -> None:
    plays = [refuses(401, "who is sesame-opens-it?")] * 8
    async with faulty_provider(*plays) as provider:
        done = await ask(tmp_path / "store", provider.base_url)

    assert done.returncode == 0
    assert b"401" in done.stdout
    assert b"sesame" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "options",
    [["--model", "m"], ["--base-url", "http://x"], ["--base-url", "what", "--model", "m"]],
    ids=["no address", "no model", "no such address"],
)
def test_a_model_that_is_named_wrongly_is_refused_in_a_sentence(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["chat", "--store", str(tmp_path / "store"), *options]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
