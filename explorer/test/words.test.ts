// What is said of cells side by side.

import assert from "node:assert/strict";
import { test } from "node:test";
import { durationText, rangeText } from "../src/words.ts";

const column = (kind: string, texts: string[]) =>
  ({ name: "", kind, texts, numbers: null, isDay: false, isDuration: false, isOrdered: true });

test("whole numbers are in one cell only, and so in one range", () => {
  const age = column("number", ["26 or less", "27 to 34", "35", "36 or more"]);
  assert.equal(rangeText(age, 0, 1), "34 or less");
  assert.equal(rangeText(age, 1, 2), "27 to 35");
  assert.equal(rangeText(age, 2, 3), "35 or more");
});

test("cells of numbers and dates are joined at their ends", () => {
  assert.equal(rangeText(column("number", ["under 1.5", "1.5 to 2", "2 or more"]), 0, 1), "under 2");
  assert.equal(rangeText(column("number", ["under 1.5", "1.5 to 2", "2 or more"]), 1, 2), "1.5 or more");
  const day = column("date", ["before 2025-01-01", "2025-01-01 to 2025-02-01", "from 2025-02-01 on"]);
  assert.equal(rangeText(day, 0, 1), "before 2025-02-01");
  assert.equal(rangeText(day, 1, 2), "from 2025-01-01 on");
});

test("categories in an order keep their words, whatever these are", () => {
  assert.equal(rangeText(column("ordinal", ["school", "2 or more", "up to now"]), 0, 1), "school to 2 or more");
});

test("durations are in days, hours and minutes, never in microseconds", () => {
  assert.equal(durationText(270e6), "00:04:30");
  assert.equal(durationText(3.25 * 3600e6), "03:15");
  assert.equal(durationText(51.25 * 3600e6), "2 days 03:15");
  assert.equal(durationText(-86400e6), "−1 day 00:00");
});
