"""Rendering of pages from templates, and the style and scripts that they load."""

import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from inferometer_results.report.page import page_script, page_style, template_environment
from inferometer_results.store.condition import quoted
from inferometer_results.store.scenario_rows import short_id
from inferometer_results.suites.page import suite_style

_CACHED = "public, max-age=31536000, immutable"
_PACKAGE = "inferometer_results.service.pages"
_HTMX = "htmx-2.0.11.min.js"
"""As published in the npm package htmx.org (Zero-Clause BSD), without a change."""


def render_page(template: str, status: int = 200, **content: Any) -> Response:
    """Return a page."""
    assets = _assets()
    text = (
        _templates()
        .get_template(template)
        .render(
            style_url=f"/assets/{_name('explorer.css', assets)}",
            script_urls=[f"/assets/{_name(each, assets)}" for each in ("hover.js", _HTMX)],
            short_id=short_id,
            quoted=quoted,
            **content,
        )
    )
    return HTMLResponse(text, status)


def message_page(sentence: str, status: int) -> Response:
    """Return a page that consists of one sentence."""
    return render_page("message.html.j2", status, sentence=sentence)


def asset(name: str) -> Response:
    """Return the style or a script, under the name that its content has."""
    assets = _assets()
    for file, text in assets.items():
        if name == _name(file, assets):
            media_type = "text/css" if file.endswith(".css") else "text/javascript"
            return Response(text, media_type=media_type, headers={"cache-control": _CACHED})
    raise HTTPException(404)


@cache
def _assets() -> dict[str, str]:
    folder = files(_PACKAGE).joinpath("assets")
    own = folder.joinpath("explorer.css").read_text(encoding="utf-8")
    return {
        "explorer.css": page_style() + own + suite_style(),
        "hover.js": page_script(),
        _HTMX: folder.joinpath(_HTMX).read_text(encoding="utf-8"),
    }


def _name(file: str, assets: dict[str, str]) -> str:
    return _digest_name(file, assets[file])


@cache
def _digest_name(file: str, text: str) -> str:
    return f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.{file.rpartition('.')[2]}"


@cache
def _templates() -> Environment:
    shared = (PackageLoader(f"inferometer_results.{name}", "") for name in ("report", "suites"))
    return template_environment(ChoiceLoader([PackageLoader(_PACKAGE), *shared]))
