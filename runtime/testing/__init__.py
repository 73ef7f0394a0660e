"""What a host tests its own parts with. It needs no test framework.

`check_gateway` holds an adapter to the rules of a gateway; `conformance.py` says how to use it.
"""

from .conformance import Report, check_gateway
from .gateway_checks import GATEWAY_CHECKS
from .gateway_rules import RULES, Breach, Rule
from .scenario import Answer, CallPart, Fault, Part, Scenario, Text, UsageTold
from .trial import Check, Make

__all__ = [
    "GATEWAY_CHECKS",
    "RULES",
    "Answer",
    "Breach",
    "CallPart",
    "Check",
    "Fault",
    "Make",
    "Part",
    "Report",
    "Rule",
    "Scenario",
    "Text",
    "UsageTold",
    "check_gateway",
]
