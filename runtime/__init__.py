"""What performs: the public API, the agent-facing API, gateways, the command and the desk."""

from ..store.limits import Limits
from ..store.revisions import Words as Revision
from .agent import Agent, AgentFunction, RevisionNotCarried, RunContext, Turn
from .config import Config
from .effect import DidNotHappen, EffectResult, Happened
from .errors import (
    BudgetSpent,
    Code,
    Damaged,
    GateClosed,
    OutcomeUnknown,
    OwnerLost,
    Refused,
    RuntimeFailed,
    StoreUnusable,
)
from .gateways.protocol import (
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
from .opening import open_runtime
from .reading import StreamedText
from .runtime import Receipt, Runtime

__all__ = [
    "Agent",
    "AgentFunction",
    "BudgetSpent",
    "Call",
    "Code",
    "Config",
    "Damaged",
    "DidNotHappen",
    "EffectResult",
    "GateClosed",
    "Gateway",
    "GatewayFailed",
    "Happened",
    "Limits",
    "ModelInput",
    "ModelMessage",
    "OutcomeUnknown",
    "OwnerLost",
    "Receipt",
    "Refused",
    "Reply",
    "ReplyStream",
    "Revision",
    "RevisionNotCarried",
    "RunContext",
    "Runtime",
    "RuntimeFailed",
    "StoreUnusable",
    "StreamedText",
    "Tool",
    "Turn",
    "Usage",
    "open_runtime",
]
