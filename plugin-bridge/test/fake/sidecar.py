#!/usr/bin/env python3
"""A scripted stand-in for `vault-sidecar bridge`, for faults that the real one does not have.

FAKE_SIDECAR is a JSON object that says what is odd today: `protocol`, `version`, `mute` (methods that are never
answered), `refuse` (method to error data), `noise` (lines on stdout that are no messages), `deaf` (does not end when
stdin closes), `steps` (how many `state` events the index takes), `hold` (a file of VAULT_SIDECAR_STATE for which the
last of them waits), `overtaken` (`status` is answered as before the index began, though it has told more), `linger`
(a grandchild that holds stdout open), `last_words` (a line on stderr before it ends by itself after `start`), `exit`
(code then), `features`, `runs` (what is not usual of each record). Settings are kept in fake.json of
VAULT_SIDECAR_STATE, each line that comes in is added to fake.log there. Standard library only.
"""

import http.server
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from pathlib import Path

ODD = json.loads(os.environ.get("FAKE_SIDECAR") or "{}")
STATE = Path(os.environ["VAULT_SIDECAR_STATE"])
NOTES = 40
SETTINGS = {
    "port": None,
    "allowWrites": False,
    "surfaces": {"notes": True, "library": True, "databases": True, "knowledge": True},
    "agentsFolder": "Agents",
    "provider": None,
    "baseUrl": None,
    "model": None,
}
TIME = "2026-11-30T11:12:00Z"


class Refuse(Exception):
    def __init__(self, code, reason, fix="", **more):
        self.data = {"code": code, "reason": reason, "fix": fix, **more}


class Kept:
    """What outlives the process."""

    def __init__(self):
        self.file = STATE / "fake.json"
        held = json.loads(self.file.read_text()) if self.file.exists() else {}
        self.settings = held.get("settings", SETTINGS)
        self.token = held.get("token", "vsc_" + secrets.token_urlsafe(36))
        self.store()

    def store(self):
        STATE.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps({"settings": self.settings, "token": self.token}))


class Sidecar:
    def __init__(self):
        self.lock = threading.RLock()
        self.kept = Kept()
        self.server = None
        self.done = 0
        self.refused = None
        self.runs = [run(n, "Scout", "", "done", None) | odd for n, odd in enumerate(ODD.get("runs", ()))]
        self.proposals = [proposal(1, "Tidy the plan"), proposal(2, "Add a note on heating")]
        self.agents = [agent("Scout", "🔭", None), agent("Editor", None, "no persona")]
        self.has_key = False

    def say(self, message):
        with self.lock:
            sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            sys.stdout.buffer.flush()

    def tell(self, event, params):
        self.say({"method": event, "params": params})

    def tell_state(self):
        with self.lock:
            self.tell("state", self.state())

    def answer(self, request):
        with self.lock:  # no state that is newer than the answer goes out before it
            self.do(request)

    def do(self, request):
        method, params = request["method"], request.get("params", {})
        if method in ODD.get("mute", ()):
            return
        try:
            if method in ODD.get("refuse", {}):
                raise Refuse(**ODD["refuse"][method])
            handler = getattr(self, "on_" + method.replace("/", "_"), None)
            if handler is None:
                raise Refuse("unknown-method", f"There is no method {method}.")
            self.say({"id": request["id"], "result": handler(params)})
        except Refuse as refused:
            error = {"code": -32000, "message": refused.data["reason"], "data": refused.data}
            self.say({"id": request["id"], "error": error})
            if method == "start":
                os._exit(3 if refused.data["code"] == "already-running" else 1)
        if method == "start" and "exit" in ODD:
            sys.stderr.write(ODD.get("last_words", "") + "\n")
            sys.stderr.flush()
            os._exit(ODD["exit"])

    def on_hello(self, params):
        return {
            "protocol": ODD.get("protocol", 1),
            "version": ODD.get("version", "0.1.0"),
            "pid": os.getpid(),
            "features": ODD.get("features", ["agents", "proposals", "databases", "knowledge"]),
        }

    def on_start(self, params):
        self.merge(params.get("settings", {}))
        settings = self.kept.settings
        try:
            self.server = Server(("127.0.0.1", settings["port"] or 0), self)
        except OSError as taken:
            port = settings["port"]
            reason = f"Port {port} is used by another program."
            raise Refuse("port", reason, "Choose another port.", suggestPort=port + 1) from taken
        self.merge({"port": self.server.server_port})
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        threading.Thread(target=self.index, daemon=True).start()
        return {"port": self.server.server_port, "url": self.url, "settings": self.kept.settings}

    def index(self):
        steps = ODD.get("steps", 1)
        for step in range(1, steps + 1):
            while step == steps and "hold" in ODD and not (STATE / ODD["hold"]).exists():
                threading.Event().wait(0.01)
            self.done = NOTES * step // steps
            self.tell_state()
            threading.Event().wait(0.01)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}/mcp"

    def state(self):
        return {
            "phase": "running" if self.done >= NOTES else "indexing",
            "port": self.server.server_port,
            "url": self.url,
            "done": self.done,
            "total": NOTES,
            "notes": NOTES,
            "indexed": self.done,
            "byMeaning": self.done,
            "settled": self.done >= NOTES,
            "clients": 1,
            "refused": self.refused,
            "problem": ODD.get("problem"),
        }

    def on_status(self, params):
        state = self.state()
        if ODD.get("overtaken"):
            state |= {"phase": "indexing", "done": 0}
        return state | {
            "version": ODD.get("version", "0.1.0"),
            "pid": os.getpid(),
            "vault": "vault",
            "settings": self.kept.settings,
            "generation": 1,
            "embedder": None,
            "vectors": None,
            "skipped": [{"path": "Big.md", "reason": "larger than 32 MiB"}],
            "skippedInAll": 3,
            "seen": [],
        }

    def merge(self, given):
        settings = self.kept.settings
        surfaces = settings["surfaces"] | given.get("surfaces", {})
        self.kept.settings = settings | given | {"surfaces": surfaces}
        self.kept.store()

    def on_settings_set(self, params):
        was = self.kept.settings["port"]
        self.merge(params)
        return {"settings": self.kept.settings, "restart": self.kept.settings["port"] != was}

    def on_token_get(self, params):
        return {"token": self.kept.token, "keptIn": "a file"}

    def on_token_rotate(self, params):
        self.kept.token = "vsc_" + secrets.token_urlsafe(36)
        self.kept.store()
        return {"keptIn": "a file", "revoked": []}

    def on_connect_get(self, params):
        client, token = params["client"], self.kept.token

        def form(text, title=None):
            masked = text.replace(token, "<token>")
            return {"title": title, "text": text, "masked": masked, "secret": text != masked}

        add = f"claude mcp add --transport http vault-sidecar {self.url} --header "
        entry = {"url": self.url, "headers": {"Authorization": f"Bearer {token}"}}
        forms = {
            "claude-code": [
                form(f'{add}"Authorization: Bearer {token}"\n'),
                form(f'T="$(vault-sidecar token show)"\n{add}"Authorization: Bearer $T"\n', "or:"),
            ],
            "mcp-json": [form(json.dumps({"mcpServers": {"vault-sidecar": entry}}))],
            "stdio-json": [form(json.dumps({"mcpServers": {"vault-sidecar": {"command": "vault-sidecar"}}}))],
        }[client]
        transport = "stdio" if client == "stdio-json" else "http"
        return {
            "client": client, "title": client, "transport": transport, "name": "vault-sidecar", "file": None,
            "forms": forms,
        }  # fmt: skip

    def on_agents_list(self, params):
        provider = {
            "name": "anthropic", "kind": "anthropic", "baseUrl": None, "hasKey": self.has_key, "problem": None,
        }  # fmt: skip
        return {"folder": "Agents", "agents": self.agents, "provider": provider}

    def on_agents_setRemote(self, params):
        for one in self.agents:
            if one["name"] == params["name"]:
                one["remote"] = params["on"]
        self.tell("agents/changed", {})
        return self.on_agents_list({})

    def on_agents_run(self, params):
        found = next((one for one in self.agents if one["name"] == params["name"]), None)
        if found is None or not found["remote"]:
            raise Refuse("agent", f"'{params['name']}' may not be run by clients.")
        made = run(len(self.runs), params["name"], params["task"], "done", params.get("client"))
        self.runs.insert(0, made)
        self.tell("run/finished", {"run": made})
        return {"id": made["id"], "text": f"An answer to: {params['task']}"}

    def on_runs_list(self, params):
        return {"runs": self.runs[: params.get("limit", 20)]}

    def on_runs_cancel(self, params):
        for one in self.runs:
            if one["id"] == params["id"]:
                one |= {"outcome": "cancelled", "ended_at": TIME, "duration_ms": 10}
                self.tell("run/finished", {"run": one})
                return {}
        raise Refuse("no-such", "There is no such run.")

    def on_provider_setKey(self, params):
        self.has_key = params["key"] is not None
        return {}

    def on_proposals_list(self, params):
        found = [one for one in self.proposals if params.get("all") or one["status"] == "open"]
        return {"proposals": found, "unreadable": [{"name": "01KBROKEN", "reason": "no proposal.json"}], "left": 0}

    def on_proposals_show(self, params):
        found = self.proposal(params["id"])
        second = found["id"].endswith("2")
        return {
            "proposal": found,
            "diff": NEW if second else CHANGE,
            "cut": False,
            "checksum": found["id"],
            "problem": "'Heating.md' is there already." if second else None,
        }

    def on_proposals_apply(self, params):
        found = self.proposal(params["id"])
        if params["seen"] != found["id"]:
            raise Refuse("conflict", "The proposal has changed since it was shown.")
        self.settle(found, "applied")
        return {"id": found["id"], "status": "applied", "reason": None}

    def on_proposals_reject(self, params):
        found = self.proposal(params["id"])
        self.settle(found, "rejected")
        return {"id": found["id"], "status": "rejected"}

    def proposal(self, proposal_id):
        found = next((one for one in self.proposals if one["id"] == proposal_id), None)
        if found is None:
            raise Refuse("no-such", "There is no such proposal.")
        return found

    def settle(self, found, status):
        if found["status"] != "open":
            raise Refuse("conflict", "It is settled already.")
        found |= {"status": status, "resolution": {"at": TIME, "by": "plugin", "reason": None}}
        self.tell("proposals/changed", {"open": len(self.on_proposals_list({})["proposals"])})

    def on_index_rebuild(self, params):
        self.done = 0
        threading.Thread(target=self.index, daemon=True).start()
        return {}


class Server(http.server.ThreadingHTTPServer):
    allow_reuse_address = False

    def __init__(self, address, sidecar):
        self.sidecar = sidecar
        super().__init__(address, Door)


class Door(http.server.BaseHTTPRequestHandler):
    """The token opens it; behind it is nothing."""

    def do_POST(self):
        sidecar = self.server.sidecar
        self.rfile.read(int(self.headers.get("Content-Length") or 0))  # else the end may overtake the answer
        given = self.headers.get("Authorization")
        is_open = given == f"Bearer {sidecar.kept.token}"
        if not is_open:
            reason = "wrong_token" if given else "no_token"
            sidecar.refused = {"at": TIME, "agent": "test", "reason": reason, "status": 401}
            sidecar.tell_state()
        self.send_response(200 if is_open else 401)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


CHANGE = """--- a/Projects/Plan.md
+++ b/Projects/Plan.md
@@ -1,4 +1,4 @@
 # Plan
-The pump comes in may.
+The pump comes in May.
+Ask about the \u202etank.
 Water first.
--- not a file name
"""
NEW = """--- /dev/null
+++ b/Heating.md
@@ -0,0 +1,2 @@
+# Heating
+++ two pluses
\\ No newline at end of file
"""


def agent(name, emoji, problem):
    return {
        "name": name, "emoji": emoji, "description": f"{name} does things.", "model": "sonnet", "provider": None,
        "path": f"Agents/{name}.md", "remote": False, "changed": False, "problem": problem, "hints": [],
    }  # fmt: skip


def run(number, name, task, outcome, client):
    return {
        "id": f"01KB00000000000000000000{number:02}", "agent": name, "task": task, "client": client, "caller": "local",
        "way": "plugin", "outcome": outcome, "reason": None, "provider": "anthropic", "model": "sonnet",
        "started_at": TIME,
        "ended_at": TIME, "duration_ms": 9120, "turns": 3, "tools": {"search_notes": 2},
        "usage": {"input_tokens": 4100, "output_tokens": 212}, "chars": 640,
    }  # fmt: skip


def proposal(number, title):
    return {
        "id": f"01KB0000000000000000000A0{number}", "status": "open", "created": TIME, "author": "mcp:claude-code",
        "title": title, "rationale": "It reads better so.", "files": ["Projects/Plan.md"], "resolution": None,
    }  # fmt: skip


def main():
    if sys.argv[1:] != ["bridge"]:
        sys.exit(2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    STATE.mkdir(parents=True, exist_ok=True)
    (STATE / "fake.pid").write_text(str(os.getpid()))
    if ODD.get("linger"):
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"], stdin=subprocess.DEVNULL)
    for line in ODD.get("noise", ()):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    sidecar = Sidecar()
    with (STATE / "fake.log").open("ab") as log:
        for line in sys.stdin.buffer:
            log.write(line)
            log.flush()
            sidecar.answer(json.loads(line))
    if ODD.get("deaf"):
        threading.Event().wait()
    os._exit(0)


main()
