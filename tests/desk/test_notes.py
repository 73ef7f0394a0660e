"""A model is told of the desk's tools as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counterpoint.runtime import Tool
from counterpoint.runtime.desk.folder import Folder
from counterpoint.runtime.desk.index import FolderIndex
from counterpoint.runtime.desk.notes import OFFERED
from counterpoint.runtime.desk.tools import ToolRefused, Tools


def test_every_tool_is_offered_and_no_other(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    tools = Tools(folder, FolderIndex(folder, tmp_path / "index"))
    assert sorted(tool.name for tool in OFFERED) == sorted(tools.by_name)


@pytest.mark.parametrize("tool", OFFERED, ids=lambda tool: tool.name)
def test_a_schema_describes_one_object_and_refers_to_nothing_outside(tool: Tool) -> None:
    schema = tool.parameters
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) <= schema["properties"].keys()
    assert "$ref" not in str(schema)
    assert tool.description.endswith(".")


@pytest.mark.parametrize("tool", OFFERED, ids=lambda tool: tool.name)
async def test_an_argument_that_no_schema_names_is_refused(tool: Tool, tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    tools = Tools(folder, FolderIndex(folder, tmp_path / "index"))
    examples: dict[str, Any] = {"integer": 1, "string": "a", "array": ["a"]}
    arguments = {
        name: examples[tool.parameters["properties"][name]["type"]]
        for name in tool.parameters["required"]
    }
    with pytest.raises(ToolRefused, match="unknown field `more`"):
        await tools.by_name[tool.name]({**arguments, "more": 1})
