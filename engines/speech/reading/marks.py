"""What is seen and not said in any language: markup, emoji, and most of a web address."""

from __future__ import annotations

import html
import re
import unicodedata

from ..clauses import is_speakable

_BULLETS = frozenset("- * + > | • ◦ ▪ ‣ · –".split())
_RULE = re.compile(r"[-*_=~`]{3,}|\|?[|:=+-]*[-=]{2,}[|:=+-]*")
_SMILEYS = re.compile(r"[:;=]['’]?-?[)(DPpOo/|\\*3]|<3|\^_?\^")
_TAG = re.compile(r"</?(?:br|p|b|i|u|em|strong|code|pre|sub|sup|span|div|li|ul|ol|hr)\s?/?>")
_NOTE = re.compile(r"\[\^[^\]]*\]|(?<=[^\s\[])\[[0-9]{1,3}\](?!\()")
_SCHEME = re.compile(r"(?i)(?:https?|ftp|wss?)://(?:[^\s/@]*@)?|mailto:|(?=www\.)")
_TOP = (
    "com org net edu gov mil int info biz io ai dev app co me tv uk us ca au nz ie de fr es it nl "
    "be ch at se no dk fi pl cz pt gr ru jp cn in br mx za eu gg ly xyz tech online site cloud"
).split()
_HOST = re.compile(
    rf"(?i)(?:[\w-]{{1,63}}\.){{1,6}}(?:{'|'.join(_TOP)})(?::\d{{2,5}})?(?P<path>[/?#]\S*)?"
)
_MAIL = re.compile(r"[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,6}[A-Za-z]{2,24}")


def is_mark(text: str, opens: bool) -> bool:
    """Whether a whole token is markup: a list's bullet, a heading's signs, a ruler."""
    if opens and (
        text in _BULLETS or text in ("[x]", "[X]") or (not text.strip("#") and len(text) <= 6)
    ):
        return True
    return any(mark.fullmatch(text) for mark in (_RULE, _SMILEYS, _TAG))


def clean(text: str) -> str:
    """A token without markup and emoji; what has letters or digits keeps some.

    Emoji are dropped, not named: they repeat what the words say, their names are long, and
    a voice that reads "smiling face with smiling eyes" out loud is no help.
    """
    if text.isalnum() or text == "*":
        return text
    if text == "|":
        # Between the cells of a table.
        return ","
    text = html.unescape(_TAG.sub(" ", text)) if "&" in text or "<" in text else text
    bare = _without_targets(_NOTE.sub("", text))
    bare = bare.replace("![", "[").replace("**", "").replace("__", "")
    bare = "".join(char for char in bare.replace("~~", "") if not _is_dropped(char))
    bare = " ".join(_without_stars(bare).strip("_").split())
    if not is_speakable(bare) and is_speakable(text):
        # Nothing but an address, for instance: then that is what the writer wanted to say.
        return " ".join("".join(c if c.isalnum() else " " for c in text).split())
    # A full stop that an emoji leaves alone would not be one to the voice.
    return "!" if bare == "." and len(text) > 1 else bare


def _without_targets(text: str) -> str:
    """Text without the addresses of its links: ``[text](address)``."""
    kept: list[str] = []
    at = 0
    while (start := text.find("](", at)) >= 0:
        kept.append(text[at:start])
        depth = 1
        at = start + 2
        while at < len(text) and depth:
            depth += (text[at] == "(") - (text[at] == ")")
            at += 1
    return "".join([*kept, text[at:]])


def _without_stars(text: str) -> str:
    """Text without the stars of emphasis; one between two figures means times."""
    if "*" not in text:
        return text
    around = zip(f" {text}", text, f"{text[1:]} ", strict=False)
    return "".join(
        char
        for left, char, right in around
        if char != "*"
        or ((left.isdecimal() or left == ")") and (right.isdecimal() or right == "("))
    )


def _is_dropped(char: str) -> bool:
    if char < "\x7f":
        return char in "`|[]" or char < " "
    kind = unicodedata.category(char)
    if kind in ("So", "Sk"):
        # Signs such as degrees are below; arrows, dingbats and emoji begin here.
        return ord(char) >= 0x2190 and not char.isalnum()
    if kind == "Me":
        return True
    # Among them what joins emoji and chooses their look.
    return kind in ("Cc", "Cf", "Co", "Cs", "Cn") or 0xFE00 <= ord(char) <= 0xFE0F


def host(core: str) -> str | None:
    """The name of a web address, or a mail address whole; ``None`` if it is neither."""
    if "." not in core and "://" not in core:
        return None
    scheme = _SCHEME.match(core)
    if scheme:
        rest = core[scheme.end() :]
        if _MAIL.fullmatch(rest):
            return rest
        name = re.split(r"[/?#]", rest, maxsplit=1)[0]
    elif _MAIL.fullmatch(core):
        return core
    else:
        found = _HOST.fullmatch(core)
        name = core[: found.start("path")] if found and found["path"] else core if found else ""
    name = re.sub(r":\d+$", "", name).removeprefix("www.")
    return name if is_speakable(name) else None
