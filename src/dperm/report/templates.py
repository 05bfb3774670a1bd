"""The templates of all pages: text is escaped, and a name that is missing is an error."""

from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined

from dperm.ledger.accounts import rounded_down, rounded_up
from dperm.report.words import one_in, percent_up, plain


def template(name: str) -> Any:
    """A template of this package, ready to be rendered.

    Parameters
    ----------
    name : str
        Its file.
    """
    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined,
        loader=FunctionLoader(lambda name: (files(__package__) / name).read_text(encoding="utf-8")),
    )  # fmt: skip
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False}
    environment.filters |= {"plain": plain, "percent_up": percent_up, "one_in": one_in}
    environment.filters |= {"rounded_up": rounded_up, "rounded_down": rounded_down}
    return environment.get_template(name)
