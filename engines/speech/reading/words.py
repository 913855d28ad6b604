"""English words that are not said as they are written: abbreviations, initials, numerals."""

from __future__ import annotations

import re

from .dates import ends_sentence
from .numbers import ordinal, roman
from .tokens import Place, Said, Word

_TITLES = {
    "Dr": "Doctor",
    "Mr": "Mister",
    "Mrs": "Missus",
    "Ms": "Miz",
    "Messrs": "Messieurs",
    "Prof": "Professor",
}
"""Read so before a name, with and without a full stop."""

_RANKS = {
    "Gen": "General",
    "Col": "Colonel",
    "Maj": "Major",
    "Sgt": "Sergeant",
    "Capt": "Captain",
    "Cpt": "Captain",
    "Lt": "Lieutenant",
    "Cmdr": "Commander",
    "Rep": "Representative",
    "Sen": "Senator",
    "Gov": "Governor",
    "Pres": "President",
    "Rev": "Reverend",
    "Hon": "Honorable",
    "Mt": "Mount",
    "Ft": "Fort",
}
"""Read so before a name, with a full stop."""

_ROADS = {"Ave": "Avenue", "Rd": "Road", "Blvd": "Boulevard", "Ln": "Lane", "Hwy": "Highway"}

_LAST = {
    "etc": "et cetera",
    "Jr": "Junior",
    "Sr": "Senior",
    "Inc": "Incorporated",
    "Ltd": "Limited",
    "Corp": "Corporation",
    "Co": "Company",
    "Bros": "Brothers",
    "al": "al",
}
"""Their full stop may also end a sentence."""

_SHORT = {
    "e.g": "for example",
    "i.e": "that is",
    "a.k.a": "also known as",
    "vs": "versus",
    "approx": "approximately",
    "Approx": "Approximately",
    "cf": "compare",
    "viz": "namely",
    "dept": "department",
    "Dept": "Department",
    "govt": "government",
    "incl": "including",
    "excl": "excluding",
    "esp": "especially",
    "resp": "respectively",
    "Ph.D": "P-H-D",
    "w.r.t": "with respect to",
}
"""Their full stop never ends a sentence."""

_BARE = frozenset("vs e.g i.e a.k.a Ph.D w.r.t".split())
"""Of these, what is one without its full stop too."""

_COUNTED = {
    "no": "number",
    "nos": "numbers",
    "p": "page",
    "pp": "pages",
    "vol": "volume",
    "fig": "figure",
    "figs": "figures",
    "ch": "chapter",
    "sec": "section",
    "eq": "equation",
    "art": "article",
    "ca": "circa",
    "c": "circa",
    "est": "established",
}
"""Read so before a figure, with a full stop."""

_SPELLED = frozenset(
    "AAA ABC ABS ACL ADC AFC AGI AKA ANC AOC APR APU APY ASL ASR ATF ATP AUM AWS BAU CAGR CLI COO "
    "DOA DOB EBU ECB ECG EDM EDT EEA EEG EFT EIA EIN EKG EMT ENT EOD EPA EPC ERP ESA ESG ESL ETA "
    "ETF EUR EV EVP FAA FAQ GOP HOA ICC ICU IDE IDF IEC IMF IOC IOU IPO IQ IRA IRL ISO ITV IUD IVF "
    "LOL MIA MOU NGO NYC NYU OAS OED OEM OOP ORM OTP PA POV POW PTA PTO QA ROI SEO SOS STI UAE UAV "
    "UFC UHF UPS URI UX VIP YMCA".split()
)
"""Initials that espeak would read as a word; most others it spells by itself."""

_THE = frozenset("the by from of".split())

_INITIALS = re.compile(r"([A-Z]{2,5})(['’]?s)?")

_NUMBERED = frozenset(
    "chapter part act scene book volume section article phase type class appendix war stage tier "
    "level grade title round vol annex category factor bowl figure table lesson unit".split()
)
"""What is counted with Roman numerals."""

_REIGNED = frozenset(
    "Henry Louis Elizabeth Charles George James Edward William Richard Mary Pius John Paul Benedict "
    "Francis Leo Alexander Catherine Peter Nicholas Frederick Philip Ferdinand Napoleon Wilhelm "
    "Ramesses Ptolemy Gustav Christian Felipe Juan Carlos Harald Margrethe Olav Haakon Baldwin Otto "
    "Constantine Theodosius Innocent Gregory Clement Urban Boniface Celestine Sixtus Rudolf Ivan "
    "Umberto Mehmed Murad Selim Darius Xerxes Cyrus Robert David Stephen Philippe Albert "
    "Leopold Joseph Rama Antiochus Tutmose Thutmose Amenhotep Seti Julius Urban Sylvester".split()
)

_FUNCTION = frozenset(
    "in at on to from of by near the a an and or for with visit see via through around".split()
)


def abbreviation(core: str, place: Place) -> Said | None:
    """``Dr.``, ``St.``, ``e.g.``, ``No. 5``, ``etc.``"""
    tail = place.word.tail
    stopped = tail.startswith(".") and not tail.startswith("..")
    rest = tail[1:] if stopped else tail
    if core in _SHORT and (stopped or core in _BARE):
        return Said(_SHORT[core], 0, rest)
    if core in _TITLES and tail in ("", "."):
        return Said(_TITLES[core], 0, "") if _is_name(place.peek()) else None
    if core == "St" and (stopped or not tail):
        return _saint_or_street(place, stopped)
    if not stopped:
        return None
    if core in _RANKS:
        return Said(_RANKS[core], 0, "") if _is_name(place.peek()) else None
    return _ending(core, place) or _counting(core, place)


def _ending(core: str, place: Place) -> Said | None:
    name = _LAST.get(core)
    before = place.before()
    if core in _ROADS and before and (_is_name(before) or before.core[:1].isdigit()):
        name = _ROADS[core]
    if name is None or (core == "al" and not (before and before.core == "et")):
        return None
    return Said(name, 0, _kept(place))


def _kept(place: Place) -> str:
    """The tail without its full stop, unless a sentence ends there."""
    tail = place.word.tail
    return tail if len(tail) == 1 and ends_sentence(place) else tail[1:]


def _counting(core: str, place: Place) -> Said | None:
    name = _COUNTED.get(core.lower())
    after = place.peek() if name and place.word.tail == "." else None
    if not name or not after or not after.core[:1].isdigit():
        return None
    return Said(name.capitalize() if core[0].isupper() else name, 0, "")


def _saint_or_street(place: Place, stopped: bool) -> Said | None:
    before, after = place.before(), place.peek()
    named = _is_name(before) and before is not None and before.core.lower() not in _FUNCTION
    if _is_name(after) and not (named and before and not before.starts and stopped):
        return Said("Saint", 0, "")
    if not named:
        return None
    return Said("Street", 0, _kept(place) if stopped else None)


def _is_name(word: Word | None) -> bool:
    return bool(word and word.core[:1].isupper())


def initials(core: str, place: Place) -> Said | None:
    """``AWS``, ``FAQs``, ``the WHO``: with hyphens, so that each is still one word."""
    found = _INITIALS.fullmatch(core)
    if not found:
        return None
    before = place.before()
    letters, ending = found[1], found[2]
    world = letters == "WHO" and before and before.core.lower() in _THE
    if letters not in _SPELLED and not world:
        return None
    # espeak reads an A between others as the article, and a bare s as part of a word.
    inner = letters[1:-1].replace("A", "a")
    said = "-".join((letters[0], *inner, letters[-1])).replace("-a-", "-eigh-")
    return Said(said.replace("-a-", "-eigh-") + ("'s" if ending else ""))


def numeral(core: str, place: Place) -> Said | None:
    """The Roman numeral in ``Henry VIII``, ``Chapter IV``, ``World War II``."""
    value = roman(core)
    before = place.before()
    if not value or not before or before.tail:
        return None
    if before.core.lower() in _NUMBERED:
        return Said(str(value))
    if before.core in _REIGNED:
        sure = len(core) > 1 or core in "VX" or bool(place.word.tail)
        return Said(f"the {ordinal(value)}") if sure else None
    named = before.core[:1].isupper() and not before.core.isupper()
    return Said(str(value)) if named and len(core) > 1 and set(core) <= set("IVX") else None
