"""The rules of a gateway, each with the sentence that a report gives."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec


class Rule(StrEnum):
    """What a gateway must keep to. The numbers are never reused."""

    CANCELLATION = "R1"
    TEXT = "R2"
    CALLING = "R3"
    FAULTS = "R4"
    USAGE = "R5"
    CALLS = "R6"
    INPUT = "R7"
    LATE = "R8"
    ONE_REQUEST = "R9"
    APART = "R10"


RULES: Final[Mapping[Rule, str]] = {
    Rule.CANCELLATION: "A cancellation ends `complete` at once and passes as it is: it is not "
    "swallowed, held up or turned into an error (C21).",
    Rule.TEXT: "The text is shown piece by piece as it comes, is that of the reply, and none is "
    "shown once `complete` has returned.",
    Rule.CALLING: "`emit.calling()` is called when a tool call begins, before any further text "
    "and before the reply, and never without a call (B61).",
    Rule.FAULTS: "What is wrong with the provider or its answer is a `GatewayFailed` with a "
    "sentence, and nothing else.",
    Rule.USAGE: "The usage is what the provider says, and None where it says nothing: never zero "
    "(C33).",
    Rule.CALLS: "The tool calls of a reply are whole and in order, their arguments decoded.",
    Rule.INPUT: "The input is sent as it is: every message and tool, in order, the text verbatim "
    "(C11).",
    Rule.LATE: "Nothing that comes for an interrupted request gets into the next one (C22).",
    Rule.ONE_REQUEST: "There is one request for each call of `complete` and none before; it is "
    "sent again at most as long as nothing of an answer has been shown.",
    Rule.APART: "Requests that are under way at the same time stay apart.",
}


class Breach(msgspec.Struct, frozen=True):
    """A rule that was broken: in which check, and how."""

    rule: Rule
    check: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.rule} {self.check}: {self.sentence}\n    {RULES[self.rule]}"
