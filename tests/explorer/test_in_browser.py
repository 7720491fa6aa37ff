"""Pages in a real browser: every number is Python's, and everything that people do works.

Needs chromium and its driver (Debian's packages chromium and chromium-driver) and selenium;
skipped where they are not.
"""

import json
import time
from urllib.parse import quote

import numpy as np
import pandas as pd
import pytest

from browser import CHROMEDRIVER, CHROMIUM, start_browser

pytest.importorskip("selenium", reason="selenium is not installed")
if not (CHROMIUM and CHROMEDRIVER):
    pytest.skip("chromium and chromedriver are not installed", allow_module_level=True)

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from explored_models import Expected, make_models, people
from joint import steep_circuit
from strudel import (
    Strudel,
    StrudelClassifier,
    explore,
    log_marginal,
)
from strudel.circuits import compile_factorized, figure_1_circuit
from strudel.queries.given import circuit_of
from strudel.tables import TableEncoder
from strudel.trees.vtree import balanced_vtree

pytestmark = pytest.mark.compiled

KINDS = [
    "figure 1",
    "circuit",
    "mixture",
    "constrained",
    "class by class",
    "joint classes",
]
DIGITS = 1e-4
HOSTILE = [
    '<img src=x onerror="window.hit=1">',
    "\"quoted\" 'twice' & more",
    "long " * 40,
    "שלום עולם",
]


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    started = start_browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.quit()


@pytest.fixture(scope="module")
def models():
    return make_models()


@pytest.fixture(scope="module")
def expected(models):
    return {name: Expected(model) for name, model in models.items()}


@pytest.fixture(scope="module")
def folder(models, tmp_path_factory):
    place = tmp_path_factory.mktemp("pages")
    for name, model in models.items():
        explore(model, place / f"{name}.html", title=f"People: {name}")
    wide = compile_factorized(balanced_vtree(400))
    wide = wide.with_names(tuple(f"question {v}" for v in range(400)))
    explore(wide, place / "wide.html")
    explore(figure_1_circuit().with_names(tuple(HOSTILE)), place / "hostile.html", title=HOSTILE[0])
    explore(steep_circuit(), place / "steep.html")
    return place


class Page:
    """A page that is open, as a person sees and handles it."""

    def __init__(self, driver, folder):
        self.driver, self.folder = driver, folder

    def open(self, name, **said):
        """Open a page with some columns set: by value, by several, or with `target`."""
        self.driver.get("about:blank")
        url = f"{(self.folder / name).with_suffix('.html').as_uri()}{self.hash(said)}"
        self.driver.get(url)
        return self.wait("answer")

    @staticmethod
    def hash(said):
        parts = []
        for key, values in said.items():
            if key == "target":
                parts.append(f"target={quote(values, safe='')}")
                continue
            texts = [values] if isinstance(values, str) else values
            parts.append(f"is.{quote(key, safe='')}={','.join(quote(t, safe='') for t in texts)}")
        return f"#{'&'.join(parts)}" if parts else ""

    def wait(self, what):
        """Until this much is known about what is set."""
        end = time.monotonic() + 20
        while time.monotonic() < end:
            done = self.js("return document.querySelector('.page')?.dataset.done ?? ''")
            if what in done.split() or (what == "answer" and "clash" in done):
                return self
            time.sleep(0.01)
        raise AssertionError(f"waited for {what}, but the page knows only {done!r}")

    def gone(self, selector):
        """Until nothing of this is left."""
        end = time.monotonic() + 5
        while self.driver.find_elements(By.CSS_SELECTOR, selector):
            assert time.monotonic() < end, f"{selector} is still there"

    def js(self, code, *arguments):
        return self.driver.execute_script(code, *arguments)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return self.find(selector).text

    def bars(self, column, field="p"):
        """Numbers of all values of a column, as drawn."""
        found = self.js(
            "const tile = document.querySelector(`[data-column=${CSS.escape(arguments[0])}]`);"
            "tile.scrollIntoView({block: 'center'});"
            "return new Promise(done => { const look = () => {"
            " const all = [...tile.querySelectorAll('[data-value]')];"
            " if (all.length) done(all.map(x => x.dataset[arguments[1]]));"
            " else setTimeout(look, 10);"
            "}; look(); })",
            column,
            field,
        )
        return np.array([float(text or "nan") for text in found])

    def bar(self, column, value):
        self.bars(column)
        return self.find(f'[data-column="{column}"] [data-value="{value}"]')

    def click(self, column, value, shift=False):
        target = self.bar(column, value)
        chain = ActionChains(self.driver, duration=0)
        chain = chain.key_down(Keys.SHIFT) if shift else chain
        chain.click(target).key_up(Keys.SHIFT).perform()
        return self.wait("answer")

    def press(self, *keys, holding=None):
        chain = ActionChains(self.driver, duration=0)
        chain = chain.key_down(holding) if holding else chain
        chain = chain.send_keys(*keys)
        (chain.key_up(holding) if holding else chain).perform()
        return self.wait("answer")

    def button(self, text):
        self.js(
            "[...document.querySelectorAll('button')].find(x =>"
            " x.textContent === arguments[0] || x.ariaLabel === arguments[0]).click()",
            text,
        )
        return self.wait("answer")

    def set(self):
        """What is set, as the chips say."""
        return [
            chip.text.replace("✕", "").strip()
            for chip in self.driver.find_elements(By.CSS_SELECTOR, ".chip")
        ]


@pytest.fixture
def page(driver, folder):
    yield Page(driver, folder)
    wrong = [
        entry for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")
    ]
    assert wrong == []


def check_bars(page, expected, evidence):
    for c, column in enumerate(expected.columns):
        assert page.bars(column.name) == pytest.approx(expected.posterior(c, evidence), abs=DIGITS)


def one_value_each(expected, n_columns):
    """Evidence that a row has, which is possible: values of the most probable state."""
    state, _ = expected.best({})
    return {c: [state[c]] for c in range(n_columns)}


def as_words(expected, evidence):
    columns = expected.columns
    return {columns[c].name: [columns[c].labels[k] for k in own] for c, own in evidence.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_with_nothing_set_bars_are_the_marginals(page, expected, kind):
    page.open(kind)
    check_bars(page, expected[kind], {})
    assert "Nothing is set" in page.text(".probability")


@pytest.mark.parametrize("kind", KINDS)
def test_set_values_give_the_posteriors_and_their_probability(page, expected, kind):
    evidence = one_value_each(expected[kind], 2)
    page.open(kind, **as_words(expected[kind], evidence))
    check_bars(page, expected[kind], evidence)
    log_p = float(page.find(".probability").get_attribute("data-log-p"))
    assert log_p == pytest.approx(expected[kind].log_p(evidence), abs=DIGITS)


@pytest.mark.parametrize("kind", ["circuit", "mixture", "class by class", "joint classes"])
def test_a_range_and_an_exclusion_give_the_posteriors(page, expected, kind):
    names = expected[kind].names
    age, smoker = names.index("age"), names.index("smoker")
    evidence = {age: [1, 2], smoker: [0, 1]}
    page.open(kind, **as_words(expected[kind], evidence))
    check_bars(page, expected[kind], evidence)
    words = page.set()
    assert words[0].startswith("age: ")
    assert " to " in words[0]
    assert words[1] == "smoker: not yes"


@pytest.mark.parametrize("kind", KINDS)
def test_target_contributions_and_information_are_exact(page, expected, kind):
    own = expected[kind]
    names = own.names
    evidence = one_value_each(own, 2)
    target = len(names) - 1
    page.open(kind, target=names[target], **as_words(own, evidence)).wait("information")
    shown = page.js(
        "return [...document.querySelectorAll('[data-target-value]')].map(x => +x.dataset.p)"
    )
    posterior = own.posterior(target, evidence)
    assert shown == pytest.approx(posterior, abs=DIGITS)
    is_yes_or_no = own.columns[target].kind in ("bit", "boolean")
    focus = 1 if is_yes_or_no else int(np.argmax(posterior))
    for c in evidence:
        rest = {other: values for other, values in evidence.items() if other != c}
        found = page.find(f'[data-contribution="{names[c]}"]').get_attribute("data-without")
        assert float(found) == pytest.approx(own.posterior(target, rest)[focus], abs=DIGITS)
    items = page.js(
        "return [...document.querySelectorAll('[data-next]')]"
        ".map(x => [x.dataset.next, +x.dataset.nats])"
    )
    free = [c for c in range(len(names)) if c != target and c not in evidence]
    nats = {names[c]: own.information(target, c, evidence) for c in free}
    if posterior.max() > 1.0 - 1e-9:  # nothing is left to ask
        assert max(nats.values()) < DIGITS
        nats = {}
    assert dict(items) == pytest.approx(nats, abs=DIGITS)
    assert items == sorted(items, key=lambda item: -item[1])


@pytest.mark.parametrize("kind", ["figure 1", "circuit", "mixture", "constrained"])
def test_the_most_probable_row_is_the_one_of_python(page, expected, kind):
    own = expected[kind]
    evidence = one_value_each(own, 1)
    page.open(kind, **as_words(own, evidence)).wait("completion")
    _, log_p = own.best(evidence)
    found = page.find(".completion")
    assert float(found.get_attribute("data-log-p")) == pytest.approx(log_p, abs=DIGITS)
    assert found.get_attribute("data-proved") == "true"


@pytest.mark.parametrize("kind", ["mixture", "class by class"])
def test_the_strip_has_the_share_of_every_component(page, models, expected, kind):
    page.open(kind)
    shown = page.js(
        "return [...document.querySelectorAll('.strip i')]"
        ".map(x => [+x.dataset.component, +x.dataset.p])"
    )
    share = np.exp(circuit_of(models[kind]).log_weight)
    assert dict(shown) == pytest.approx(dict(enumerate(share)), abs=DIGITS)
    assert sum(p for _, p in shown) == pytest.approx(1.0)


def test_means_of_numbers_and_dates_are_those_of_python(page, expected):
    own = expected["mixture"]
    page.open("mixture", smoker="yes")
    for name in ("age", "income", "joined"):
        page.bars(name)
        shown = page.find(f'[data-column="{name}"] .mean').get_attribute("data-mean")
        place = own.names.index(name)
        mean = own.posterior(place, {1: [2]}) @ own.columns[place].cell_means
        assert float(shown) == pytest.approx(mean, rel=1e-5)


def test_a_click_sets_and_a_second_click_releases(page, expected):
    page.open("circuit").click("smoker", 2)
    assert page.set() == ["smoker: yes"]
    check_bars(page, expected["circuit"], {1: [2]})
    page.click("smoker", 2)
    assert page.set() == []
    check_bars(page, expected["circuit"], {})


def test_a_shift_click_rules_a_value_out_and_allows_it_again(page, expected):
    page.open("circuit").click("smoker", 1, shift=True)
    assert page.set() == ["smoker: not never"]
    check_bars(page, expected["circuit"], {1: [0, 2]})
    page.click("smoker", 1, shift=True)
    assert page.set() == []


def test_a_drag_over_cells_sets_a_range_in_one_step(page, expected):
    page.open("circuit")
    page.bars("age")
    first, last = page.bar("age", 1), page.bar("age", 3)
    chain = ActionChains(page.driver, duration=20).move_to_element(first).click_and_hold()
    chain.move_to_element(page.bar("age", 2)).move_to_element(last).release().perform()
    page.wait("answer")
    check_bars(page, expected["circuit"], {0: [1, 2, 3]})
    page.button("Undo")
    assert page.set() == []


def test_what_a_click_means_can_be_chosen_without_a_keyboard(page, expected):
    page.open("circuit")
    page.driver.find_elements(By.CSS_SELECTOR, ".modes span")[1].click()
    page.click("smoker", 0)
    check_bars(page, expected["circuit"], {1: [1, 2]})
    page.driver.find_elements(By.CSS_SELECTOR, ".modes span")[2].click()
    page.click("age", 1).click("age", 3)
    check_bars(page, expected["circuit"], {0: [1, 2, 3], 1: [1, 2]})


def test_undo_redo_and_reset(page):
    page.open("circuit").click("smoker", 2).click("ill", 1)
    page.button("Undo")
    assert page.set() == ["smoker: yes"]
    page.press("z", holding=Keys.CONTROL)
    assert page.set() == []
    page.button("Redo").button("Redo")
    assert page.set() == ["smoker: yes", "ill: yes"]
    page.button("Reset")
    assert page.set() == []
    page.button("Undo")
    assert page.set() == ["smoker: yes", "ill: yes"]


def test_the_address_brings_everything_back(page, expected):
    page.open("circuit").click("smoker", 2).click("age", 1, shift=True)
    page.find('[data-column="ill"] .aim').click()
    page.wait("answer").button("Pin to compare").click("grade", 2)
    address = page.driver.current_url
    before = page.bars("ill"), page.bars("ill", "pinned"), page.set()
    page.driver.get("about:blank")
    page.driver.get(address)
    page.wait("answer")
    assert (page.bars("ill") == before[0]).all()
    assert (page.bars("ill", "pinned") == before[1]).all()
    assert page.set() == before[2]
    assert page.text(".headline").endswith("%")


def test_two_scenarios_are_side_by_side_with_their_differences(page, expected):
    page.open("mixture").click("smoker", 2).button("Pin to compare")
    page.click("smoker", 1)
    ill = expected["mixture"].names.index("ill")
    now, then = (expected["mixture"].posterior(ill, {1: [k]}) for k in (1, 2))
    assert page.bars("ill") == pytest.approx(now, abs=DIGITS)
    assert page.bars("ill", "pinned") == pytest.approx(then, abs=DIGITS)
    difference = page.text('[data-column="ill"] [data-value="1"] em')
    assert float(difference.replace("\u2212", "-")) == pytest.approx(
        100 * (now[1] - then[1]), abs=0.06
    )
    page.button("Swap the two scenarios")
    assert page.bars("ill") == pytest.approx(then, abs=DIGITS)
    page.button("Unpin")
    assert not page.driver.find_elements(By.CSS_SELECTOR, ".scenarios")


def test_everything_can_be_done_with_the_keyboard(page, expected):
    page.open("circuit")
    page.find("#filter").click()
    page.driver.execute_script("document.querySelector('[data-column=age] [data-value]').focus()")
    page.press(Keys.ARROW_RIGHT).press(Keys.ENTER)
    check_bars(page, expected["circuit"], {0: [1]})
    page.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, holding=Keys.SHIFT)
    check_bars(page, expected["circuit"], {0: [1, 2, 3]})
    page.press(Keys.ESCAPE)
    assert page.set() == []
    page.press(Keys.TAB).press(Keys.TAB)  # the target of age's tile, then smoker's first value
    focused = page.js("return document.activeElement.getAttribute('aria-label')")
    assert focused.startswith(("Ask about", "smoker, "))
    page.driver.execute_script(
        "document.querySelector('[data-column=smoker] [data-value]').focus()"
    )
    page.press(Keys.SPACE, holding=Keys.SHIFT)
    check_bars(page, expected["circuit"], {1: [1, 2]})
    page.press("/")
    assert page.js("return document.activeElement.id") == "filter"


def test_impossible_evidence_is_said_and_named_with_no_nan(page):
    page.open("constrained").click("x2", 1).click("x0", 0).click("x5", 0)
    assert page.text(".clash").startswith("Impossible together: x0: 0 and x5: 0.")
    whole = page.js("return document.getElementById('app').innerHTML")
    assert "NaN" not in whole
    assert "Infinity" not in whole
    page.click("x5", 0)
    assert not page.driver.find_elements(By.CSS_SELECTOR, ".clash")
    assert page.set() == ["x2: 1", "x0: 0"]


def test_improbable_evidence_keeps_its_digits(page):
    circuit = steep_circuit()
    names = [f"x{v}" for v in range(circuit.vtree.n_vars)]
    row = np.full(circuit.vtree.n_vars, np.nan)
    row[:-2] = 1.0
    log_p = float(log_marginal(circuit, [row])[0])
    assert -np.inf < log_p
    page.open("steep", **{names[v]: "1" for v in range(circuit.vtree.n_vars - 2)})
    shown = float(page.find(".probability").get_attribute("data-log-p"))
    assert shown == pytest.approx(log_p, rel=1e-6)
    last = circuit.vtree.n_vars - 1
    both = [row.copy(), row.copy()]
    for value in (0, 1):
        both[value][last] = value
    logs = log_marginal(circuit, both)
    assert page.bars(names[last]) == pytest.approx(np.exp(logs - np.logaddexp(*logs)), abs=DIGITS)


def test_tiles_sort_by_change_name_information_and_as_in_the_table(page, expected):
    def names():
        return page.js("return [...document.querySelectorAll('.tile')].map(x => x.dataset.column)")

    own = expected["circuit"]
    table = own.names
    page.open("circuit", target="ill", smoker="yes").wait("information")
    assert names() == table
    for value, check in (
        ("name", sorted(table)),
        ("change", None),
        ("information", None),
    ):
        page.js(
            "const box = document.querySelector('.tools select'); box.value = arguments[0];"
            "box.dispatchEvent(new Event('change', {bubbles: true}))",
            value,
        )
        time.sleep(0.05)
        if check is not None:
            assert names() == check
    nats = {c: own.information(5, c, {1: [2]}) for c in range(len(table)) if c not in (1, 5)}
    assert names() == ["ill", "smoker", *(table[c] for c in sorted(nats, key=lambda c: -nats[c]))]


def test_a_table_of_400_columns_scrolls_and_filters(page):
    page.open("wide")
    assert page.js("return document.querySelectorAll('.tile').length") == 400
    assert page.js("return document.querySelectorAll('[data-value]').length") < 400
    page.js("window.scrollTo(0, document.body.scrollHeight)")
    assert len(page.bars("question 399")) == 2
    page.find("#filter").send_keys("question 37")
    time.sleep(0.1)
    shown = page.js("return [...document.querySelectorAll('.tile')].map(x => x.dataset.column)")
    assert shown == ["question 37", *(f"question {v}" for v in range(370, 380))]
    page.click("question 37", 1)
    assert page.set() == ["question 37: 1"]


def test_hostile_names_are_shown_as_text(page):
    page.open("hostile", target=HOSTILE[0])
    assert [page.find(f'[data-place="{c}"] h3').text.strip() for c in range(4)] == [
        name.strip() for name in HOSTILE
    ]
    assert page.js("return window.hit") is None
    assert not page.driver.find_elements(By.TAG_NAME, "img")
    assert page.driver.title == HOSTILE[0]
    page.js('document.querySelector(\'[data-place="0"] [data-value="1"]\').click()')
    page.wait("answer")
    page.driver.refresh()
    page.wait("answer")
    assert page.set() == [f"{HOSTILE[0]}: 1"]


def test_no_request_leaves_the_page(page):
    page.driver.get_log("performance")
    page.open("mixture", target="ill", smoker="yes").wait("completion")
    page.button("Pin to compare").click("age", 1)
    asked = []
    for entry in page.driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked.append(message["params"]["request"]["url"].split(":")[0])
    assert set(asked) <= {"file", "blob", "about", "data"}
    assert asked.count("file") == 1


def test_the_page_fits_a_phone_and_follows_dark_colours(page):
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        page.open("mixture", target="ill", smoker="yes", age=["<33"]).wait("completion")
        assert page.js("return document.documentElement.scrollWidth") <= 390
        features = [{"name": "prefers-color-scheme", "value": "dark"}]
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        ground = "return getComputedStyle(document.body).backgroundColor"
        assert page.js(ground) == "rgb(21, 23, 27)"
        page.find(".theme").click()
        assert page.js(ground) == "rgb(246, 245, 242)"  # light was asked for
    finally:
        page.js("localStorage.clear()")
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_everything_that_can_be_pressed_has_a_name_and_changes_are_spoken(page):
    page.open("circuit").click("smoker", 2)
    nameless = page.js(
        "return [...document.querySelectorAll('button, select, input')].filter(x =>"
        " !x.textContent.trim() && !x.ariaLabel && !x.labels?.length).length"
    )
    assert nameless == 0
    assert "Largest change: ill" in page.js("return document.querySelector('.unseen').textContent")
    label = page.bar("smoker", 2).get_attribute("aria-label")
    assert label.startswith("smoker, yes: 100 %")
    assert label.endswith(", set")


def test_where_workers_are_not_allowed_the_page_answers_itself(page, expected):
    source = "window.Worker = class { constructor() { throw new Error('no') } }"
    made = page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})
    try:
        page.open("mixture", target="ill").wait("completion").click("smoker", 2)
        check_bars(page, expected["mixture"], {1: [2]})
    finally:
        page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", made)


def test_a_frame_in_a_notebook_works(page, models, tmp_path):
    frame = models["circuit"].explore(target="ill")._repr_html_()
    (tmp_path / "notebook.html").write_text(
        f"<!doctype html><meta charset=utf-8>{frame}", encoding="utf-8"
    )
    page.driver.get((tmp_path / "notebook.html").as_uri())
    page.driver.switch_to.frame(0)
    page.wait("answer").click("smoker", 2)
    assert page.set() == ["smoker: yes"]
    page.driver.switch_to.default_content()


def corner_models():
    """Tables that are easily forgotten: one column, one value, many values, gaps, loose bits."""
    table = people(200)
    rng = np.random.default_rng(0)
    shop = pd.DataFrame({"item": [f"item {i:03d}" for i in rng.permutation(np.arange(600) % 200)]})
    shop["country"] = "here"
    shop["shelf"] = shop["item"].str[-1].where(rng.random(600) < 0.8, "0")
    gaps = table.drop(columns=["smoker", "ill"]).mask(rng.random((200, 4)) < 0.3)
    fast = {"max_splits": 2, "init": "tree", "pseudocount": 1.0, "class_pseudocount": 1.0}
    return {
        "one column": Strudel(n_components=1, random_state=0).fit(table[["smoker"]]),
        "many values": Strudel(
            n_components=1, columns=TableEncoder(max_categories=200), max_splits=3, random_state=0
        ).fit(shop),
        "classes with gaps": StrudelClassifier(
            2, method="joint", columns=TableEncoder(n_bins=4), random_state=0, **fast
        ).fit(gaps, table["smoker"]),
    }


def test_tables_that_are_easily_forgotten_have_the_numbers_of_python(page, tmp_path):
    page = Page(page.driver, tmp_path)
    for name, model in corner_models().items():
        explore(model, tmp_path / f"{name}.html")
        own = Expected(model)
        last = len(own.sizes) - 1
        for evidence in ({}, {last: [0]}, {last: list(range(own.sizes[last] - 1)), 0: [1]}):
            page.open(name, **as_words(own, evidence))
            if max(own.sizes) > 10:
                page.bars("item")  # drawn
                page.find(".more").click()
                time.sleep(0.05)
            check_bars(page, own, evidence)
