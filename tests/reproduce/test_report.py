"""All experiments on two small tables, and the report of them."""

import base64
import re
from html.parser import HTMLParser

import pytest
from reproduce.plan import make_plan
from reproduce.report import write_markdown, write_report
from reproduce.store import Outcome
from reproduce.tasks import EXPERIMENTS

pytestmark = pytest.mark.compiled

TABLES = ("generated-10", "generated-20")


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """All items, computed in this process."""
    out = tmp_path_factory.mktemp("reproduction")
    plan = make_plan([], out, datasets=TABLES, seconds=0.4, is_quick=True, can_download=False)
    for task in plan.tasks:
        name = task.experiment.name
        if name == "expectations":  # needs files; it is tried elsewhere
            continue
        result = task.experiment.module.run(task.dataset, task.settings)
        plan.store.write(Outcome(name, task.dataset, task.settings.as_dict(), result))
    return plan


@pytest.fixture(scope="module")
def report(plan):
    return plan.report()


def test_every_experiment_gave_a_result(plan):
    done = {(one.experiment.name, one.dataset) for one in plan.tasks} - {
        (one.experiment.name, one.dataset) for one in plan.unfinished()
    }
    wanted = [name for name, one in EXPERIMENTS.items() if one.on == "tables"]
    assert done >= {(name, table) for name in wanted for table in TABLES}


class Page(HTMLParser):
    """Collects what a page shows and where it would look for more."""

    def __init__(self):
        super().__init__()
        self.sources, self.text, self.rows = [], [], []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "src" in attributes:
            self.sources.append(attributes["src"])
        if tag == "tr":
            self.rows.append(0)
        if tag in ("td", "th"):
            self.rows[-1] += 1

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_holds_everything(plan, report, tmp_path):
    path = write_report(report, tmp_path)
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    pictures = [picture for section in report.sections for picture in section.pictures]
    assert len(page.sources) == len(pictures) >= 9
    for source, picture in zip(page.sources, pictures, strict=True):
        kind, _, content = source.partition(",")
        assert kind == "data:image/png;base64"
        assert base64.b64decode(content) == picture.png
        assert picture.png.startswith(b"\x89PNG")
    text = " ".join(page.text)
    for item in plan.items:
        assert item.name in text
    assert "numpy" in text
    assert "http" not in path.read_text(encoding="utf-8").replace("https://", "http")[:2000]


def test_markdown_tables_are_rectangles_and_links_lead_somewhere(report, tmp_path):
    page, folder = tmp_path / "reproduction.md", tmp_path / "reproduction"
    write_markdown(report, page, folder)
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"(?:^\|.*\|$\n?)+", text, flags=re.M):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1, block
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 15
    assert all((tmp_path / link).is_file() for link in links)
