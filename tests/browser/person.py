"""What a person does on Dagster's page: opens, presses, types, and waits for what is shown.

Playwright waits for what it is asked to press or read, so nothing here sleeps. Names are those a person sees;
a button's name begins with that of its icon.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser import pictures
from tests.worlds.dagster_server import DagsterServer

RUN_MS = 300_000
"""How long a run, or a reload of the code, may take on a busy machine."""
PICTURES = os.environ.get("SCREENSHOTS", "")


@dataclass
class Person:
    """At a page of this Dagster."""

    page: Page
    server: DagsterServer

    def open(self, path: str, shown: str) -> None:
        """Go to a page, and wait until it shows some words."""
        self.page.goto(f"http://127.0.0.1:{self.server.port}/{path}")
        self.sees(shown)

    def sees(self, words: str | re.Pattern[str]) -> None:
        """Wait until these words stand on the page."""
        expect(self.page.get_by_text(words).first).to_be_visible(timeout=RUN_MS)

    def press(self, button: str) -> None:
        """Press the first button of this name."""
        self.page.get_by_role("button", name=re.compile(rf"(^|\s){button}$")).first.click()

    def keep(self, name: str) -> None:
        """Keep a picture of what is shown, where somebody asked for pictures."""
        if PICTURES:
            self.page.wait_for_load_state("networkidle")
            pictures.keep(self.page, Path(PICTURES) / f"{name}.png")

    def run_now(self, job: str) -> None:
        """Press *Materialize* on a job whose asset has no hours, and follow its run to the end."""
        self.open(f"locations/sls_lake/jobs/{job}", "Lands what is new now")
        self.press("Materialize")
        launched = self.page.get_by_text("Launched run").first
        sure = self.page.get_by_role("button", name="Confirm")
        expect(launched.or_(sure).first).to_be_visible()
        if sure.is_visible():
            # Dagster's own question while the table has no hour yet.
            sure.click()
        self.view()
        self.run_succeeds()

    def view(self) -> None:
        """Follow the note about what was launched."""
        self.page.get_by_text("View", exact=True).first.click()

    def run_succeeds(self) -> None:
        """Wait on a run's page until it has ended well."""
        self.page.wait_for_url("**/runs/*")
        status = self.page.get_by_text(re.compile("^(Success|Failure|Canceled)$")).first
        expect(status).to_be_visible(timeout=RUN_MS)
        assert status.inner_text() == "Success"

    def turn_on(self, kind: str, name: str) -> None:
        """Turn a schedule or a sensor on by the switch of its page; `kind` is `schedules` or `sensors`."""
        self.open(f"locations/sls_lake/{kind}/{name}", "Running")
        switch = self.page.get_by_role("checkbox").first
        expect(switch).not_to_be_checked()
        switch.locator("..").click()
        expect(switch).to_be_checked()

    def reload(self) -> None:
        """Have Dagster read the files again."""
        before = self._loaded_at()
        self.open("deployment/locations", "1 code location")
        self.press("Reload")
        while self._loaded_at() == before:
            # The page does not always say that it is done; this waits for the page's next request.
            self.page.wait_for_event("requestfinished", timeout=RUN_MS)

    def _loaded_at(self) -> float:
        query = "{ workspaceOrError { ... on Workspace { locationEntries { updatedTimestamp } } } }"
        (entry,) = self.server.ask(query)["workspaceOrError"]["locationEntries"]
        return float(entry["updatedTimestamp"])

    def materialize(self, table: str, hours: str, *, mode: str, config: str, picture: str = "") -> None:
        """*Materialize* a table: type a range of hours, a mode's tag and the step's config; launch."""
        self.open(f"assets/bronze/{table}", "Latest materialization")
        self.press("Materialize…")
        dialog = self.page.get_by_role("dialog")
        box = dialog.get_by_role("textbox").first
        box.fill(hours)
        box.press("Enter")
        dialog.get_by_text("Tags", exact=True).click()
        self.press("Add tags")
        self.page.get_by_placeholder("Tag Key").fill("sls/mode")
        self.page.get_by_placeholder("Tag Value").fill(mode)
        self.press("Apply")
        if picture:
            self.sees(f"sls/mode: {mode}")
            self.keep(picture)
        dialog.get_by_text("Config", exact=True).click()
        self.press("Add config")
        self.sees("Config Editor")
        self.page.get_by_role("dialog").last.get_by_role("textbox").focus()
        self.page.keyboard.insert_text(config)
        self.press("Save config")
        self.page.get_by_role("button", name=re.compile("^Launch (backfill|1 run)$")).click()

    def check(self, asset: str, name: str, verdict: str) -> None:
        """Open a check of an asset, and wait for its verdict."""
        self.open(f"assets/{asset}?view=checks&checkDetail={name}", "Latest execution")
        expect(self.page.get_by_text(verdict, exact=True).last).to_be_visible()
