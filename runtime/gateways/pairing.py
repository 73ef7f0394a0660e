"""Well-formed inputs: every tool call has its result, and every result its call (C34).

Providers refuse an input in which an assistant's call is not answered, and go on refusing
for as long as it stands there. An interruption, a crash or a skipped call leaves just that,
so the runtime pairs the messages of every request before it is recorded.
"""

from __future__ import annotations

from .protocol import ModelInput, ModelMessage

NO_RESULT = "[no result: the call was interrupted, and whether it took effect is not known]"


def paired(model_input: ModelInput) -> ModelInput:
    """Return the input with a stand-in for each missing result, placed where it belongs, and
    without results that no call asked for or that answer a call once more."""
    messages: list[ModelMessage] = []
    owed: dict[str, None] = {}
    for message in model_input.messages:
        if message.role == "tool":
            if message.call_id in owed:
                del owed[message.call_id]
                messages.append(message)
            continue
        messages += _stand_ins(owed)
        messages.append(message)
        owed = dict.fromkeys(call.call_id for call in message.calls)
    messages += _stand_ins(owed)
    if messages == list(model_input.messages):
        return model_input
    return ModelInput(messages=tuple(messages), tools=model_input.tools)


def _stand_ins(owed: dict[str, None]) -> list[ModelMessage]:
    return [ModelMessage(role="tool", text=NO_RESULT, call_id=call_id) for call_id in owed]
