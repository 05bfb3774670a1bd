"""Formulas as MathML, which browsers show without a script: `$…$` in a line, `$$…$$` by itself.

One that cannot be parsed stops the build.
"""

import re
from html import unescape
from importlib.resources import files as package_files
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from fontTools import subset
from fontTools.ttLib import TTFont
from math_core import LatexError, LatexToMathML
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', flags=re.S)
ENTITY = re.compile(r"&(?!amp;|lt;|gt;|quot;)\w+;")
# A long formula in a line may be broken after these, as TeX does it.
BREAKS = set("=≤≥<>≪≫≈∼≡∈⊆⊂→⇒⟹⟺↦≠∝+−,;")
TELEPHONE = 20  # characters: beyond that also within brackets
OPENING, CLOSING = set("([{⟨⌊⌈"), set(")]}⟩⌋⌉")
FONT = "theme/mathematics.woff"
# What a browser draws without being told: single letters as italic ones (Latin, h, Greek), and signs of roots, arrows,
# brackets and bars that it puts together from pieces.
DRAWN = [*range(0x1D434, 0x1D468), 0x210E, *range(0x1D6E2, 0x1D71C), *range(0x2190, 0x2400), *range(0x20, 0x7F)]
NOT_DRAWN = {"\ufe00", "\ufe01"}  # they choose a form of the letter before them
converter = LatexToMathML(fancy_error=False)
characters: set[str] = set()


def on_pre_build(**_: Any) -> None:
    """Forget the last build."""
    characters.clear()


def mathml(latex: str, display: bool) -> str:
    """A formula as a `<math>` element."""
    if r"\tag" in latex and r"\begin{equation}" not in latex:
        latex = rf"\begin{{equation}}{latex}\end{{equation}}"
    return ENTITY.sub(
        lambda entity: unescape(entity[0]), converter.convert_with_local_state(latex, displaystyle=display)
    )


def broken(math: str) -> str:
    """A formula in a line as pieces, between which the line may end."""
    root = ElementTree.fromstring(math)
    pieces, piece, depth = [], ElementTree.Element("math", root.attrib), 0
    for child in root:
        piece.append(child)
        # A bracket with an exponent is inside of a msup, with its exponent.
        sign = next((part.text for part in child.iter() if len(part) == 0), "")
        depth += (sign in OPENING) - (sign in CLOSING)
        fits = depth > 0 and len("".join(piece.itertext())) < TELEPHONE
        if child.tag == "mo" and sign in BREAKS and not fits and child is not root[-1] and len(piece) > 1:
            child.set("form", child.get("form", "infix"))
            pieces.append(piece)
            piece = ElementTree.Element("math", root.attrib)
    pieces.append(piece)
    return "<wbr>".join(ElementTree.tostring(part, encoding="unicode") for part in pieces)


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Turn the formulas of a page into MathML."""
    if any("\\(" in item.title for item in page.toc):
        raise PluginError(f"{page.file.src_uri}: a heading has a formula; write it in words, its address is made of it")

    def shown(match: re.Match[str]) -> str:
        display, latex = match[1] == "div", unescape(match[2]).strip()
        try:
            math = mathml(latex, display)
        except LatexError as error:
            raise PluginError(f"{page.file.src_uri}: {error} in the formula\n  {latex}") from None
        characters.update(unescape(re.sub(r"<[^>]*>", "", math)))
        return f'<div class="formula">{math}</div>' if display else broken(math)

    # No line ends between the formula and the rest of a word: "i-th".
    return re.sub(r"</math>(?=[-\w])", "</math>\u2060", FORMULA.sub(shown, html))


def on_post_build(config: MkDocsConfig, **_: Any) -> None:
    """Store the font of the formulas, without the characters that no page uses."""
    source = package_files("ziamath") / "fonts" / "STIXTwoMath-Regular.ttf"
    font = TTFont(BytesIO(source.read_bytes()))
    unknown = {sign for sign in characters if sign.isprintable() and ord(sign) not in font.getBestCmap()} - NOT_DRAWN
    if unknown:
        raise PluginError(f"the font of formulas lacks {' '.join(sorted(unknown))}")
    subsetter = subset.Subsetter(subset.Options(flavor="woff", layout_features=["*"]))
    subsetter.populate(text="".join(characters), unicodes=DRAWN)
    subsetter.subset(font)
    font.flavor = "woff"
    font.save(Path(config.site_dir) / FONT)
