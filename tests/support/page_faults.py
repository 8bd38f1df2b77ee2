"""Faults of a page in a browser: overflow, complaints, and what axe finds serious."""

from pathlib import Path
from typing import Any

from support.browser import Page, Theme

_AXE = Path(__file__).parents[1] / "data" / "axe" / "axe-4.14.1.min.js"
_SERIOUS = """axe.run(document, {resultTypes: ['violations']}).then((found) => JSON.stringify(
  found.violations.filter((each) => ['serious', 'critical'].includes(each.impact))
    .map((each) => [each.id, each.nodes.slice(0, 3).map((node) => node.html.slice(0, 160))])))"""
_OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
WIDTHS = (1280, 400)


async def page_faults(
    page: Page, address: str, theme: Theme, width: int, *, settled: str = "true"
) -> list[Any]:
    """Open a page in a theme and width; return what is wrong with it.

    `settled` is a JavaScript condition to wait for. Afterwards the page's policy is off.
    """
    await page.call("Page.setBypassCSP", enabled=False)
    await page.emulate(width=width, theme=theme)
    await page.open(address)
    await page.wait_until(settled)
    found: list[Any] = list(page.complaints)
    page.complaints.clear()
    overflow = await page.evaluate(_OVERFLOW)
    found += [f"overflows by {overflow}"] if overflow > 0 else []
    await page.call("Page.setBypassCSP", enabled=True)
    await page.evaluate(f"{_AXE.read_text(encoding='utf-8')};true")
    serious = await page.resolve(_SERIOUS)
    return [*found, *([serious] if serious != "[]" else [])]
