"""The pages of the explorer: runs, one run, and two runs side by side."""

import hashlib
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from jinja2 import ChoiceLoader, Environment, PackageLoader
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse

from inferometer_results.compare.wording import explanations, figure_texts, unavailable
from inferometer_results.headline import headline
from inferometer_results.report.facts import moment
from inferometer_results.report.page import (
    page_script,
    page_style,
    report_context,
    template_environment,
)
from inferometer_results.service.answers import (
    LimitQuery,
    OffsetQuery,
    RequestError,
    RetractedQuery,
    SortQuery,
    WhereQuery,
    find_row,
    read_stored,
    read_two,
    search,
)
from inferometer_results.service.comparison_view import overlays
from inferometer_results.service.earlier import earlier_results
from inferometer_results.service.run_list import COLUMNS, RunList, run_list
from inferometer_results.store.query import SearchError
from inferometer_results.store.scenario_rows import short_id, tags
from inferometer_results.store.store import Store
from inferometer_results.suites.page import suite_style

_CACHED = "public, max-age=31536000, immutable"


def page_routes(store: Store, version: str) -> APIRouter:
    """Return the routes of the pages over a store."""
    routes = APIRouter(include_in_schema=False)
    for path, endpoint in (
        ("/", _runs(store, version)),
        ("/results/{id_}", _run(store)),
        ("/compare", _compare(store)),
        ("/assets/{name}", _asset),
    ):
        routes.add_api_route(path, endpoint, response_class=HTMLResponse)
    return routes


def message_page(sentence: str, status: int) -> Response:
    """Return a page that consists of one sentence."""
    return render_page("message.html.j2", status, sentence=sentence)


def _runs(store: Store, version: str) -> Callable[..., Response]:
    def runs(
        where: WhereQuery = "",
        sort: SortQuery = "-started",
        limit: LimitQuery = 50,
        offset: OffsetQuery = 0,
        *,
        retracted: RetractedQuery = False,
    ) -> Response:
        wanted = search(where, sort, limit, offset, retracted=retracted)
        fault, found, total = "", [], 0
        try:
            found, total = store.find(wanted), store.count(wanted)
        except SearchError as error:
            fault = str(error)
        shown: RunList = run_list(wanted, found, total)
        return render_page(
            "runs.html.j2",
            400 if fault else 200,
            runs=shown,
            columns=COLUMNS,
            fault=fault,
            version=version,
        )

    return runs


def _run(store: Store) -> Callable[..., Response]:
    def run(id_: str) -> Response:
        stored, read = read_stored(store, id_)
        row = find_row(store, stored.id)
        return render_page(
            "run.html.j2",
            **report_context(read.document),
            id=stored.id,
            row=row,
            notice=read.notice,
            tags=tags(row),
            earlier=earlier_results(store, row, read.document),
        )

    return run


def _compare(store: Store) -> Callable[..., Response]:
    def compare(id: Annotated[list[str] | None, Query()] = None) -> Response:  # noqa: A002 - the name of the parameter
        if id is None:
            raise RequestError("Choose two results to compare in the list of runs.")
        found = read_two(store, id)
        pairs = [
            (pair, [figure_texts(each) for each in pair.figures], list(unavailable(pair)))
            for pair in found.comparison.pairs
        ]
        return render_page(
            "compare.html.j2",
            found=found,
            sides=[
                (name, id_, document, headline(document))
                for name, id_, document in zip("AB", found.ids, found.documents, strict=True)
            ],
            pairs=pairs,
            explanations=list(explanations(found.comparison)) if pairs else [],
            overlays=overlays(found),
            moment=moment,
        )

    return compare


def _asset(name: str) -> Response:
    """Return the style or the script, under the name that its content has."""
    for kind, media_type in (("css", "text/css"), ("js", "text/javascript")):
        text = _assets()[kind]
        if name == _asset_name(kind):
            return Response(text, media_type=media_type, headers={"cache-control": _CACHED})
    raise HTTPException(404)


@cache
def _assets() -> dict[str, str]:
    own = files("inferometer_results.service").joinpath("explorer.css").read_text(encoding="utf-8")
    return {"css": page_style() + own + suite_style(), "js": page_script()}


@cache
def _asset_name(kind: str) -> str:
    return f"{hashlib.sha256(_assets()[kind].encode()).hexdigest()[:16]}.{kind}"


@cache
def _templates() -> Environment:
    packages = tuple(f"inferometer_results.{name}" for name in ("service", "report", "suites"))
    return template_environment(ChoiceLoader([PackageLoader(name, "") for name in packages]))


def render_page(template: str, status: int = 200, **content: Any) -> Response:
    """Return a page of the explorer."""
    text = (
        _templates()
        .get_template(template)
        .render(
            style_url=f"/assets/{_asset_name('css')}",
            script_url=f"/assets/{_asset_name('js')}",
            short_id=short_id,
            **content,
        )
    )
    return HTMLResponse(text, status)
