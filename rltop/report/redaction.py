"""Secrets in text that is to be passed on: blanked and counted, by what they look like and by the names before them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from rltop.regex import regex

BLANK = "[blanked]"
_SECRET_NAME = r"[\w.-]*(?:key|token(?!i[sz])|secret|passw(?:or)?d|passphrase|credential|cookie)[\w.-]*"
_HARMLESS = regex(r"-?\d{1,12}(?:\.\d{1,12})?(?:e[+-]?\d{1,3})?|true|false|none|null", re.IGNORECASE)
"""What stands behind a name such as `max_tokens` and is none."""
_NAME = regex(_SECRET_NAME, re.IGNORECASE)
_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "private keys",
        regex(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL),
    ),
    (
        "authorizations",
        regex(
            r"(?i)(?P<keep>\b(?:proxy-)?authorization[\"']?\s*[:=]\s*[\"']?)(?:(?:bearer|basic|token|digest)\s+)?[^\s\"',}]+"
        ),
    ),
    ("authorizations", regex(r"(?i)(?P<keep>\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/-]{8,}=*")),
    ("users in URLs", regex(r"(?P<keep>\b[A-Za-z][A-Za-z0-9+.-]{1,20}://)[^\s/@\"'<>]+(?=@)")),
    (
        "signatures in URLs",
        regex(
            r"(?i)(?P<keep>[?&;](?:x-(?:amz|goog|ms|oss)-[\w-]+|sig|signature|awsaccesskeyid|policy|code|s[ep]|sv|sr|"
            r"[\w-]*(?:key|token|secret|password|credential)[\w-]*)=)[^&\s\"'<>#]+"
        ),
    ),
    ("JSON web tokens", regex(r"\beyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)?")),
    (
        "keys of known services",
        regex(
            r"\b(?:hf_[A-Za-z0-9]{8,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|"
            r"glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{30,}|wandb_v\d_\w{10,}|"
            r"nvapi-[\w-]{20,}|r8_\w{20,}|pypi-[\w-]{16,})"
        ),
    ),
    ("hexadecimal keys", regex(r"(?i)(?<![0-9a-f])[0-9a-f]{40}(?![0-9a-f])")),
)


class Redactor:
    """Blanks secrets in texts."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def text(self, text: str) -> str:
        """A text without secrets; what stands around them stays."""
        for kind, pattern in _SHAPES:
            text = pattern.sub(self._blank(kind), text)
        return _ASSIGNED.sub(self._assigned, text)

    def value(self, name: str, value: object) -> str:
        """The value of a setting, without what its name or its look tells to be secret."""
        text = str(value)
        if _NAME.fullmatch(name.rpartition("/")[2].rpartition(".")[2]) and text and not _HARMLESS.fullmatch(text):
            self.counts["values by their names"] += 1
            return BLANK
        return self.text(text)

    @property
    def total(self) -> int:
        return self.counts.total()

    def _blank(self, kind: str) -> Callable[[re.Match[str]], str]:
        def blank(match: re.Match[str]) -> str:
            if BLANK in match[0]:
                return match[0]
            self.counts[kind] += 1
            return (match.groupdict().get("keep") or "") + BLANK

        return blank

    def _assigned(self, match: re.Match[str]) -> str:
        if _HARMLESS.fullmatch(match["value"].strip("\"'")) or BLANK in match["value"] or len(match["value"]) < 3:
            return match[0]
        self.counts["values by their names"] += 1
        return f"{match['keep']}{BLANK}"


_ASSIGNED = regex(
    rf"(?P<keep>(?:(?<![\w.-]){_SECRET_NAME}[\"']?\s{{0,3}}(?:=>|[:=])\s{{0,3}}|--{_SECRET_NAME}\s+))"
    r"(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s\"',;}\])]+)",
    re.IGNORECASE,
)
