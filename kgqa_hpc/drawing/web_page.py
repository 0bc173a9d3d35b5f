"""Self-contained HTML pages, safe whatever names, questions and models hold.

Everything foreign is text: escaped in the page (Jinja2 autoescape), or JSON that no browser runs and that the page's
script shows as text. A content security policy, in the template, lets only the page's own style and script run, by
their hashes, and lets the page load and send nothing.
"""

import base64
import hashlib
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def render_page(package: str, name: str, **values: Any) -> str:
    """The template NAME.html.j2 of a package, with NAME.css as `style` and NAME.js as `script`."""
    jinja = Environment(
        loader=PackageLoader(package, ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters["number"] = lambda value: f"{value:,}"
    jinja.filters["percent"] = lambda share: "" if share is None else f"{100 * share:.1f} %"
    for part, kind in {"style": "css", "script": "js"}.items():
        text = files(package).joinpath(f"{name}.{kind}").read_text(encoding="utf-8")
        values[part] = Markup(text)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        values[f"{part}_hash"] = f"sha256-{digest}"  # how a content security policy names it
    return jinja.get_template(f"{name}.html.j2").render(values)


def json_block(text: str) -> Markup:
    """JSON that cannot end the script element it stands in, nor start a comment there."""
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)
