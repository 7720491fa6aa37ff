// What clicks do, undo, the address, and words.

import assert from "node:assert/strict";
import { test } from "node:test";
import { asRange, choose, chooseRange, exclude, fromHash, History, isSame, release, toHash } from "../src/scenario.ts";
import { moved, oneIn, percent, points, rangeText, rarity, saying, together } from "../src/words.ts";

const nothing = new Map<number, Uint8Array>();
const masks = (evidence: Map<number, Uint8Array>) => [...evidence].map(([c, mask]) => [c, [...mask]]);
const columns = [
  { name: "age & more", labels: ["<40", "[40, 60)", ">=60"], size: 3 },
  { name: "is.target=", labels: ["a,b", "c.d", "é", "~"], size: 4 },
];
const age = {
  name: "age", kind: "number", texts: ["under 40", "40 to 60", "60 to 70", "70 or more"], numbers: null, isDay: false, isDuration: false, isOrdered: true,
};

test("a click sets a value, another one sets another, the same again releases", () => {
  const once = choose(nothing, 0, 1, 3);
  assert.deepEqual(masks(once), [[0, [0, 1, 0]]]);
  assert.deepEqual(masks(choose(once, 0, 2, 3)), [[0, [0, 0, 1]]]);
  assert.equal(choose(once, 0, 1, 3).size, 0);
  assert.equal(nothing.size, 0);
});

test("ruling out leaves the rest, twice is nothing, and the last value stays", () => {
  const once = exclude(nothing, 0, 1, 3);
  assert.deepEqual(masks(once), [[0, [1, 0, 1]]]);
  assert.equal(exclude(once, 0, 1, 3).size, 0);
  const twice = exclude(once, 0, 0, 3);
  assert.deepEqual(masks(exclude(twice, 0, 2, 3)), masks(twice));
});

test("a range goes either way, and the whole range is nothing", () => {
  assert.deepEqual(masks(chooseRange(nothing, 0, 2, 1, 3)), [[0, [0, 1, 1]]]);
  assert.equal(chooseRange(nothing, 0, 0, 2, 3).size, 0);
  assert.deepEqual(asRange(Uint8Array.of(0, 1, 1)), [1, 2]);
  assert.equal(asRange(Uint8Array.of(1, 0, 1)), null);
});

test("undo and redo go back and forth, a new step ends redo, and a drag is one step", () => {
  const start = new History({ evidence: nothing, pinned: null, target: null });
  const one = start.go({ evidence: choose(nothing, 0, 1, 3) });
  const two = one.correct({ evidence: choose(nothing, 0, 2, 3) });
  assert.equal(two.past.length, 1);
  assert.equal(two.undo().now, start.now);
  assert.ok(isSame(two.undo().redo().now.evidence, two.now.evidence));
  assert.equal(two.undo().go({ target: 1 }).future.length, 0);
  assert.equal(start.go({ evidence: release(nothing, 0) }), start);
  assert.equal(start.undo(), start);
});

test("an address brings back any scenario, whatever names and labels are", () => {
  const scenario = {
    evidence: new Map([[0, Uint8Array.of(0, 1, 1)], [1, Uint8Array.of(1, 0, 0, 1)]]),
    pinned: new Map([[1, Uint8Array.of(0, 1, 1, 0)]]),
    target: 1,
  };
  const found = fromHash(`#${toHash(scenario, columns)}`, columns, null);
  assert.ok(isSame(found.evidence, scenario.evidence));
  assert.ok(isSame(found.pinned, scenario.pinned));
  assert.equal(found.target, 1);
  const pinned = fromHash(toHash({ evidence: nothing, pinned: nothing, target: null }, columns), columns, null);
  assert.equal(pinned.pinned?.size, 0);
});

test("an address with nonsense sets nothing", () => {
  for (const hash of ["#", "#is.age=1", "#is.age%20%26%20more=%ZZ", "#not.x", "#is.age%20%26%20more=", "#target=x&&=&pinned.is.y=1"]) {
    assert.equal(fromHash(hash, columns, null).evidence.size, 0);
  }
});

test("probabilities are never rounded to certainty", () => {
  assert.deepEqual([0, 1, 0.5, 0.00001, 0.99999, 0.005, 0.1234].map(percent),
    ["0 %", "100 %", "50.0 %", "<0.01 %", ">99.99 %", "0.50 %", "12.3 %"]);
  assert.deepEqual([0.1, -0.1, 0.0001].map(points), ["+10.0", "−10.0", "±0"]);
});

test("rarity in words", () => {
  const words = (p: number) => `${rarity(Math.log(p))}: ${oneIn(Math.log(p))}`;
  assert.equal(words(0.75), "usual: 75.0 % of all rows");
  assert.equal(words(0.25), "common: about 1 row in 4");
  assert.equal(words(1 / 1234), "very rare: about 1 row in 1,200");
  assert.equal(words(1e-7), "almost never seen: about 1 row in 10 million");
  assert.equal(oneIn(-2302.6), "about 1 row in 10¹⁰⁰⁰");
  assert.equal(together(Math.log(3)), "3.0 times as often as if these columns were unrelated");
  assert.equal(together(-Math.log(20)), "20 times less often than if these columns were unrelated");
});

test("what is set, in words", () => {
  assert.equal(saying(age, Uint8Array.of(1, 1, 0, 0)), "under 60");
  assert.equal(saying(age, Uint8Array.of(0, 1, 1, 0)), "40 to 70");
  assert.equal(saying(age, Uint8Array.of(0, 0, 1, 1)), "60 or more");
  assert.equal(saying(age, Uint8Array.of(1, 0, 1, 1)), "not 40 to 60");
  assert.equal(rangeText({ ...age, texts: ["1", "2", "3", "4"] }, 1, 2), "2 to 3");
  assert.equal(moved(Float64Array.of(0.5, 0.5), Float64Array.of(0.25, 0.75)), 0.25);
});
