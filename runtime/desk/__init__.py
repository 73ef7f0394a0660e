"""The bundled agent: research over a folder of a person's own files.

    desk = make_desk(Path("notes"), index_folder=Path("store"))
    async with open_runtime("store", agents=desk.agents()) as runtime: ...

Reading order: `agent` (the turns), `planner` (what is called next), `brief` (what was asked),
`tools` (what can be called), then `index`, `table`, `window`, `figures`, and `report`.
"""

from .agent import Desk, make_desk, sample_folder
from .folder import FileRefused, FolderLimits
from .planner import OfflinePlanner

__all__ = [
    "Desk",
    "FileRefused",
    "FolderLimits",
    "OfflinePlanner",
    "make_desk",
    "sample_folder",
]
