"""Plays the scripted provider of tests/provider.py for tests in TypeScript. Standard library only.

The first line on stdout is its address. A line on stdin is {"plays": [step, ...]}, with steps such as ["say", TEXT],
["use", TOOL, ARGUMENTS], ["fail", STATUS, MESSAGE] and ["hang"], or {"asked": true}; each is answered with a line.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.provider import Fail, Hang, Say, Use, provider

STEPS = {
    "say": Say,
    "use": lambda name, arguments: Use([(name, arguments)]),
    "fail": Fail,
    "hang": Hang,
}


def tell(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


with provider() as played:
    tell({"url": played.url})
    for line in sys.stdin:
        wanted = json.loads(line)
        if "plays" in wanted:
            played.plays(*(STEPS[kind](*given) for kind, *given in wanted["plays"]))
            tell({})
        else:
            tell([{"tools": each.tools, "said": each.said, "results": each.results} for each in played.asked])
