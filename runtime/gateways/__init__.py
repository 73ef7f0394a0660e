"""Adapters to model providers."""

from .protocol import (
    Call,
    Gateway,
    GatewayFailed,
    ModelInput,
    ModelMessage,
    Reply,
    ReplyStream,
    Tool,
    Usage,
)
from .quota import WithQuota
from .scripted import Gate, Line, Received, ScriptedGateway, ScriptEnded, fail, mentions, say

__all__ = [
    "Call",
    "Gate",
    "Gateway",
    "GatewayFailed",
    "Line",
    "ModelInput",
    "ModelMessage",
    "Received",
    "Reply",
    "ReplyStream",
    "ScriptEnded",
    "ScriptedGateway",
    "Tool",
    "Usage",
    "WithQuota",
    "fail",
    "mentions",
    "say",
]
