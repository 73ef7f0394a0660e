"""What a host may import from `counterpoint.runtime`, name by name."""

import counterpoint.runtime

PUBLIC_NAMES = [
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


def test_the_public_names_are_this_list() -> None:
    assert sorted(getattr(counterpoint.runtime, "__all__", [])) == sorted(PUBLIC_NAMES)


def test_every_public_name_is_there() -> None:
    assert [name for name in PUBLIC_NAMES if not hasattr(counterpoint.runtime, name)] == []
