"""Find keys in texts: by how they begin, by the word before them, or by looking random."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

HIDDEN = "HIDDEN"
"""What replaces a key."""

# All repetitions are bounded or begin where a run does, so the time is linear in a stranger's text.
_PREFIXES = re.compile(
    r"(?<![A-Za-z0-9_-])(?:"
    r"(?P<GitHub>gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,})"
    r"|(?P<GitLab>glpat-[\w-]{16,})"
    r"|(?P<HuggingFace>hf_[A-Za-z0-9]{20,})"
    r"|(?P<OpenAI_or_Anthropic>sk-[\w-]{20,})"
    r"|(?P<AWS>(?:AKIA|ASIA)[A-Z0-9]{16})"
    r"|(?P<Google>AIza[\w-]{30,})"
    r"|(?P<Slack>xox[abprs]-[\w-]{10,})"
    r"|(?P<npm>npm_[A-Za-z0-9]{30,})"
    r"|(?P<PyPI>pypi-[\w-]{30,})"
    r"|(?P<JSON_Web_Token>eyJ[\w-]{10,}\.[\w-]{10,}(?:\.[\w-]+)?)"
    r"|(?P<private_key>-----BEGIN [A-Z ]{0,30}PRIVATE KEY)"
    r")"
)
_SHORTEST = 15
"""Letters of a key that is known by how it begins, at least."""
_SECRET = re.compile(
    r"(?i)(?:(?:api|access|auth|private|wandb|secret)[_-]?key|secret|passw(?:or)?d|passphrase|token)"
    rf"[\"']?\s{{0,9}}[=:]\s{{0,9}}[\"']?(?!{HIDDEN}\b)(?P<value>[^\s\"',;]{{6,}})"
    r"|\bauthorization[\"']?\s{0,9}[=:]\s{0,9}[\"']?"
    rf"(?!(?:\w{{1,16}}\s{{1,9}})?{HIDDEN}\b)(?:\w{{1,16}}\s{{1,9}})?(?P<sent>[^\s\"',;]{{6,}})"
)
_RUN = re.compile(r"[A-Za-z0-9+/_=-]{24,}")
_PARTS = re.compile(r"[A-Za-z0-9+]{24,}")
# Names that PyTorch and Triton give to compiled code: a SHA-256 in base32.
_COMPILED = re.compile(r"[cf]?[a-z2-7]{51,52}|[A-Z2-7]{52}")
# Hashes that we write ourselves: in a page's policy, and after the source's name.
_OURS = re.compile(r"'sha256-[A-Za-z0-9+/=]{44}'|SHA-256 `?[0-9a-f]{64}")
_HEX = re.compile(r"[0-9a-f]{32,}|[0-9A-F]{32,}")
_LEAST_ENTROPY = 3.8
"""Bits for each character; words and their abbreviations have less, at this length."""

# Options such as --wandb-key, trainer.api_key= and DB_PASSWORD=, but not --max-tokens.
_OPTION = re.compile(
    r"(?i)\A(?P<name>[\w.+/-]{0,128}(?:key|token|passw(?:or)?d|passwd|pwd|passphrase|secret|credentials?))"
    r"(?P<rest>=.*)?$",
    re.DOTALL,
)


def find_keys(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the begin and end of each key in a text, and why it counts as one."""
    for found in _PREFIXES.finditer(text) if len(text) >= _SHORTEST else ():
        kind = (found.lastgroup or "").replace("_", " ")
        yield found.start(), found.end(), f"begins as a key of {kind}"
    if "=" in text or ":" in text:
        for found in _SECRET.finditer(text):
            group = found.lastgroup or ""
            yield found.start(group), found.end(group), "follows a word for a secret"
    runs = [found.span() for found in _RUN.finditer(text) if _is_random(found[0])]
    ours = [found.span() for found in _OURS.finditer(text)] if runs else []
    for begin, end in runs:
        if not any(a < end and begin < b for a, b in ours):
            yield begin, end, f"{end - begin} characters as if at random"


def is_hash(text: str) -> bool:
    """Say whether a text is nothing but a hash in hexadecimal digits."""
    return _HEX.fullmatch(text) is not None


def hide_values(words: list[str]) -> list[str]:
    """Return a command's words without the values of options that are named as secrets are."""
    hidden = []
    follows = False
    for word in words:
        found = _OPTION.match(word)
        if follows and not word.startswith("-"):
            hidden.append(HIDDEN)
            follows = False
            continue
        if found is not None and found["rest"]:
            word = f"{found['name']}={HIDDEN}"
        follows = found is not None and not found["rest"] and word.startswith("-")
        hidden.append(word)
    return hidden


def _is_random(run: str) -> bool:
    """Say whether a run of letters and digits looks like a key: long, mixed, and not words."""
    for part in _PARTS.findall(run):
        if _COMPILED.fullmatch(part) or run.startswith("_Z"):  # C++ names as linkers have them
            continue
        if _HEX.fullmatch(part):
            return bool(re.search(r"\d", part) and re.search(r"[A-Fa-f]", part))
        classes = [len(re.findall(kind, part)) for kind in ("[a-z]", "[A-Z]", "[0-9]")]
        if len(part) >= 32 and min(classes) >= 2 and _entropy(part) >= _LEAST_ENTROPY:
            return True
    return False


def _entropy(text: str) -> float:
    counts = Counter(text)
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values())
