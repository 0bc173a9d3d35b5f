"""Self-contained HTML pages that are safe with untrusted names, questions and model answers.

Untrusted text is escaped in the page (Jinja2 autoescape), or is JSON that the page's script shows as text. The
template's content security policy allows only the page's own style and script, by their hashes, and forbids the page
to load or send anything.
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
        values[f"{part}_hash"] = f"sha256-{digest}"  # the form of a hash in a content security policy
    return jinja.get_template(f"{name}.html.j2").render(values)


def json_block(text: str) -> Markup:
    """Escape JSON for a script element, so that it can neither close the element nor open a comment."""
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)
