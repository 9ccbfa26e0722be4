"""Takes secrets and personal data out of what is contributed, before anything else looks at it.

Every pattern is linear, whatever it is given: it can begin only where a run of
its characters begins, or all it may run over is bounded. A run is never given
back (`++`), so that nothing is read again and again.

Rather too much than too little is taken: a contribution may be read by others,
and what is taken leaves a mark that says what it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

Replace = Callable[[re.Match[str]], str]

SECRET: Final = "[removed: secret]"  # noqa: S105 - the mark that one leaves
EMAIL: Final = "[removed: e-mail]"
PHONE: Final = "[removed: phone number]"
ADDRESS: Final = "[removed: IP address]"
HOME: Final = "[removed: home path]"
MARK: Final = "[removed: "

_NAME: Final = (
    r"(?:pass(?:word|wd|phrase|code)|(?<=[_-])pass|pwd|secret|token|credentials?|authorization|api[ _-]?key"
    r"|access[ _-]?key|auth[ _-]?key|account[ _-]?key|private[ _-]?key|signing[ _-]?key|encryption[ _-]?key"
    r"|passwort|kennwort|contrase(?:ñ|n)a|mot de passe|пароль|密码)"
)
_NAMED: Final = re.compile(rf"(?:.{{0,80}}[^a-z0-9])?{_NAME}", re.IGNORECASE | re.DOTALL)
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

# what shows where a value belongs, in a text that explains
_STAND_IN: Final = re.compile(
    r"\$[{(].*+|<.*+|\{.*+|%\w++%|[*.…xX]{3,}+|your[_-].*+|\|[-+0-9]{0,2}+"
    r"|bearer|basic|none|null|nil|true|false|yes|no|required|optional|string|str|text|env|redacted|removed|hidden|changeme",
    re.IGNORECASE | re.DOTALL,
)
_CODE: Final = re.compile(r"[A-Za-z_][\w.]*+[(\[]")
_CAPITALS: Final = re.compile(r"\$?[A-Z][A-Z_]{2,}+")

_KNOWN_KEYS: Final = re.compile(
    r"""(?<![A-Za-z0-9_-])(?:
      sk-[A-Za-z0-9_-]{20,}+                              # OpenAI, Anthropic and their like
    | (?:gsk|xai|r8|hf|npm|dop_v1|doo_v1|shpat|shpss|shpca|shppa|lin_api|figd|ntn|pat)[_-][A-Za-z0-9_-]{20,}+
    | gh[opsur]_[A-Za-z0-9]{20,}+ | github_pat_[A-Za-z0-9_]{20,}+ | gl[a-z]{2,6}-[A-Za-z0-9_.-]{16,}+
    | xox[a-z]-[A-Za-z0-9-]{8,}+ | xapp-[A-Za-z0-9-]{8,}+
    | (?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}+ | AIza[A-Za-z0-9_-]{30,}+ | ya29\.[A-Za-z0-9_-]{20,}+
    | (?:sk|rk|pk|whsec)_(?:live_|test_)?[A-Za-z0-9]{16,}+ | sq0[a-z]{3}-[A-Za-z0-9_-]{20,}+
    | SG\.[A-Za-z0-9_-]{16,64}+\.[A-Za-z0-9_-]{16,}+ | key-[0-9a-f]{32} | (?:AC|SK)[0-9a-f]{32}
    | pypi-[A-Za-z0-9_-]{30,}+ | dapi[0-9a-f]{32} | AGE-SECRET-KEY-1[0-9A-Z]{40,}+
    | eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+)?  # JSON web tokens
    | [0-9]{8,10}:AA[A-Za-z0-9_-]{30,}+                   # Telegram
    | vs[cl]_[A-Za-z0-9_-]{40,}+                          # our own
    )""",
    re.VERBOSE,
)
_CONNECTION: Final = re.compile(
    r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,30}+://([^\s/?#\"'<>\[\]]{1,512})@[^\s\"'<>]*+"
)
_BEARER: Final = re.compile(r"\b(bearer|basic)\s{1,8}+([A-Za-z0-9._~+/=-]{8,}+)", re.IGNORECASE)
_SCHEME: Final = re.compile(
    r"(authorization\\{0,8}[\"'`]?\s{0,8}+[:=]\s{0,8}+\\{0,8}[\"'`]?[A-Za-z-]{2,20}[ \t]{1,4}+)"
    r"([A-Za-z0-9._~+/=-]{8,}+)",
    re.IGNORECASE,
)
_PAIR: Final = re.compile(
    rf"""({_NAME}\\{{0,8}}["'`]?\s{{0,8}}+(?::=|=>|[:=])\s{{0,8}}+\\{{0,8}}) # the name, up to its value
    (?:"([^"\n]{{1,512}}+)|'([^'\n]{{1,512}}+)|`([^`\n]{{1,512}}+)     # which may be in quotes, these in JSON text
    |([^\s"'`&,;<>(){{}}\[\]][^\s"'`&,;<>]{{0,512}}+))""",
    re.IGNORECASE | re.VERBOSE,
)
_OPTION: Final = re.compile(
    rf"(--?{_NAME}\s{{1,4}}+)([^\s\"'`&,;<>(){{}}\[\]-][^\s\"'`&,;<>]{{0,512}}+)", re.IGNORECASE
)
_BLOCK: Final = re.compile(
    rf"{_NAME}[\"']?[ \t]{{0,8}}+:[ \t]{{0,8}}+[|>][-+0-9]{{0,2}}+[ \t]{{0,8}}+\r?\n", re.IGNORECASE
)
_PRIVATE_KEY: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINES: Final = re.compile(r"(?:(?:\s|\\[nr])*+[A-Za-z0-9+/=]{16,}+)*+")

_EMAIL: Final = re.compile(r"(?<![\w.%+-])[\w.%+-]++@([\w-]++(?:\.[\w-]++)++)")
_PHONE: Final = re.compile(
    r"""(?<![\w.+/-])(?:
      \+[1-9][\d\ ()./-]{6,24}
    | \(\d{3}\)[ ]?\d{3}[-. ]\d{4} | \d{3}([-. ])\d{3}\1\d{4} | 0\d{2,5}[ /-]\d{2,4}[ -]?\d{2,4}[ -]?\d{0,4}
    )(?<=\d)(?![\w.]?\d)""",
    re.VERBOSE,
)
_CALLED: Final = re.compile(
    r"\b((?:tel|telephone|phone|mobile|fax|telefon|handy)\b[.:]?\s{0,4})(\+?[\d ()./-]{6,24}(?<=\d))", re.IGNORECASE
)
_IPV4: Final = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)")
_HOME: Final = re.compile(
    r"(?<![\w.-])(?:(?:[A-Za-z]:)?[\\/]{1,2}(?:home|Users|Documents and Settings)[\\/]{1,2}"
    r"[^\s\\/\"'`:*?<>|,;)\]}]{1,64}+"
    r"|/root(?![\w.-]))"
)


class Scrubber:
    """Scrubs texts and JSON values. `own` are keys of this daemon whose form is not ours; they are shown nowhere."""

    def __init__(self, own: Iterable[str] = ()) -> None:
        self._own = tuple(key for key in own if key)

    def __repr__(self) -> str:
        return "Scrubber()"

    def text(self, text: str, *, personal: bool = True) -> str:
        """The text without secrets and, if `personal`, without e-mail addresses, phone numbers, IPv4 addresses and
        home folders; loopback addresses stay. What was scrubbed before is the same again."""
        for key in self._own:
            text = text.replace(key, SECRET)
        if len(text) < _SHORTEST:
            return text
        text = _without_blocks(_without_private_keys(text))
        for pattern, replace in _SECRETS:
            text = pattern.sub(replace, text)
        if personal:
            for pattern, replace in _PERSONAL:
                text = pattern.sub(replace, text)
        return text

    def json(self, value: Any, *, personal: bool = True) -> Any:
        """The JSON value with every text in it scrubbed, keys included. The value of a key that names a secret goes
        as a whole. Keys that become equal are numbered. Not for values deeper than a few hundred levels."""
        if isinstance(value, str):
            return self.text(value, personal=personal)
        if isinstance(value, list):
            return [self.json(item, personal=personal) for item in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        cleaned: dict[str, Any] = {}
        for key, held in cast("dict[str, Any]", value).items():
            name = self.text(key, personal=personal)
            if name in cleaned:
                name = next(f"{name} {n}" for n in range(2, len(cleaned) + 3) if f"{name} {n}" not in cleaned)
            if isinstance(held, str) and names_secret(key) and not _is_stand_in(held) and MARK not in held:
                cleaned[name] = SECRET
            else:
                cleaned[name] = self.json(held, personal=personal)
        return cleaned


_SHORTEST: Final = 6
"""No pattern finds anything in a shorter text."""


def names_secret(key: str) -> bool:
    """Whether what a key of this name holds is a secret: `password`, `API-Key`, `dbPassword`."""
    return len(key) <= 100 and _NAMED.fullmatch(_HUMP.sub("_", key)) is not None


def _is_stand_in(value: str) -> bool:
    """Whether a value only shows where one belongs."""
    return _STAND_IN.fullmatch(value) is not None or _CAPITALS.fullmatch(value) is not None


def _without_private_keys(text: str) -> str:
    """Blocks up to their end, or as far as lines of a key go."""
    begin = _PRIVATE_KEY.search(text)
    if begin is None:
        return text
    kept: list[str] = []
    at = 0
    has_end = True
    while begin is not None:
        kept += [text[at : begin.start()], SECRET]
        end = _KEY_END.search(text, begin.end()) if has_end else None
        has_end = end is not None  # once there is none, none is looked for again
        lines = end or _KEY_LINES.match(text, begin.end())
        at = lines.end() if lines else begin.end()
        begin = _PRIVATE_KEY.search(text, at)
    return "".join([*kept, text[at:]])


def _without_blocks(text: str) -> str:
    """Texts of YAML that stand below their name, set in: all lines up to the next one that is not set in as far."""
    kept: list[str] = []
    at = 0
    while (name := _BLOCK.search(text, at)) is not None:
        kept.append(text[at : name.end()])
        outer = _indentation(text[text.rfind("\n", 0, name.start()) + 1 : name.start()], "- \t")
        at = end = name.end()
        while end < len(text):
            line_end = text.find("\n", end) + 1 or len(text)
            line = text[end:line_end]
            inner = _indentation(line, " \t")
            if line.strip() and inner <= outer:
                break
            if line.strip():
                kept += [line[:inner], SECRET, "\n"] if at == name.end() else []
                at = line_end if text[line_end - 1] == "\n" else len(text)
            end = line_end
    return "".join([*kept, text[at:]])


def _indentation(line: str, of: str) -> int:
    return len(line) - len(line.lstrip(of))


def _connection(match: re.Match[str]) -> str:
    """Only one with credentials: `user:password@`, or a long name that is a key."""
    user, _, password = match[1].partition(":")
    return SECRET if password or len(user) >= 20 else match[0]


def _bearer(match: re.Match[str]) -> str:
    """Not words: "bearer certificates"."""
    value = match[2].rstrip(".")
    is_word = value.isalpha() and (value.islower() or value.istitle() or value.isupper()) and len(value) <= 24
    return match[0] if is_word else f"{match[1]} {SECRET}"


def _scheme(match: re.Match[str]) -> str:
    """Not words: "Authorization: see chapter"."""
    return match[0] if match[2].isalpha() else match[1] + SECRET


def _pair(match: re.Match[str]) -> str:
    quoted = match[2] or match[3] or match[4]
    if quoted:
        value = quoted.rstrip("\\")  # of a quote inside of JSON text
        return match[0] if _is_stand_in(value) else match[0][: -len(quoted)] + SECRET + quoted[len(value) :]
    value = match[5]
    if _is_stand_in(value) or _CODE.match(value):  # code that gets it from somewhere
        return match[0]
    rest = match.string[match.end() : match.end() + 2]
    if match[1].rstrip("\\").rstrip()[-1] == ":" and value.isalpha() and rest[:1] == " " and rest[1:].isalpha():
        return match[0]  # prose: "Token: the key that …"
    return match[1] + SECRET


def _option(match: re.Match[str]) -> str:
    return match[0] if _is_stand_in(match[2]) else match[1] + SECRET


def _email(match: re.Match[str]) -> str:
    """Not `package@1.2.3`, and not the user `git` of a repository's address."""
    last = match[1].rpartition(".")[2]
    return EMAIL if last.isalpha() and len(last) >= 2 and not match[0].startswith("git@") else match[0]


def _phone(match: re.Match[str]) -> str:
    return PHONE if 7 <= sum(map(str.isdigit, match[0])) <= 15 else match[0]


def _called(match: re.Match[str]) -> str:
    return match[1] + PHONE if 5 <= sum(map(str.isdigit, match[2])) <= 15 else match[0]


def _address(match: re.Match[str]) -> str:
    parts = [int(part) for part in match[0].split(".")]
    stays = max(parts) > 255 or parts[0] == 127 or not any(parts)
    return match[0] if stays else ADDRESS


_SECRETS: Final[tuple[tuple[re.Pattern[str], str | Replace], ...]] = (
    (_CONNECTION, _connection),
    (_KNOWN_KEYS, SECRET),
    (_BEARER, _bearer),
    (_SCHEME, _scheme),
    (_PAIR, _pair),
    (_OPTION, _option),
)
_PERSONAL: Final[tuple[tuple[re.Pattern[str], str | Replace], ...]] = (
    (_EMAIL, _email),
    (_CALLED, _called),
    (_PHONE, _phone),
    (_IPV4, _address),
    (_HOME, HOME),
)
