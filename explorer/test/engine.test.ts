// The engine against what Python says of models of every kind.

import assert from "node:assert/strict";
import { test } from "node:test";
import { completions } from "../src/completion.ts";
import { Engine, mutualInformation, oneOf, type Evidence } from "../src/engine.ts";
import { read, readModel, type PageData, type ReadData } from "../src/model.ts";
import { all } from "./helpers.ts";
import golden from "./golden.json" with { type: "json" };

interface Case {
  evidence: [number, number[]][];
  logP: number | null;
  posteriors: number[][] | null;
  target: number;
  information: [number, number][];
  bestLogP: number | null;
}

const DIGITS = 1e-5;

function near(found: number, expected: number, what: string): void {
  assert.ok(Math.abs(found - expected) <= DIGITS, `${what}: ${found} instead of ${expected}`);
}

for (const { name, data, cases } of golden as unknown as { name: string; data: PageData; cases: Case[] }[]) {
  const engine = new Engine(readModel(await read(data)));
  const asEvidence = (given: [number, number[]][]): Evidence => new Map(given.map(([c, values]) => {
    const mask = new Uint8Array(engine.model.columns[c].size);
    for (const k of values) mask[k] = 1;
    return [c, mask];
  }));

  for (const one of cases) {
    const evidence = asEvidence(one.evidence);
    const title = `${name}, given ${JSON.stringify(one.evidence)}`;

    test(`${title}: probability and posteriors`, () => {
      const answer = engine.answer(evidence);
      if (one.logP === null) {
        assert.equal(answer.logP, -Infinity);
        return;
      }
      near(answer.logP, one.logP, "log-probability");
      one.posteriors!.forEach((values, c) => values.forEach((p, k) => near(answer.columns[c][k], p, `${c}, ${k}`)));
      near(answer.components.reduce((a, b) => a + b, 0), 1, "components");
      near(engine.logProbability(evidence), one.logP, "log-probability alone");
    });

    test(`${title}: information about column ${one.target}`, () => {
      if (one.logP === null) return;
      const found = new Map(all(engine.information(one.target, evidence)).result.map((x) => [x.column, x.nats]));
      for (const [c, nats] of one.information) near(found.get(c) ?? 0, nats, `column ${c}`);
    });

    test(`${title}: the most probable completion`, () => {
      if (one.logP === null) return;
      const found = all(completions(engine, evidence)).yielded.findLast((one) => one !== null)!;
      assert.ok(found.logP <= found.logBound);
      near(found.logP, engine.logProbability(new Map(
        found.values.map((k, c) => [c, oneOf(engine.model.columns[c].size, k)]),
      )), "its probability");
      for (const [c, mask] of evidence) assert.ok(mask[found.values[c]]);
      if (one.bestLogP !== null) near(found.logP, one.bestLogP, "log-probability");
    });
  }
}

test("information of independent columns is zero, of copies the entropy", () => {
  near(mutualInformation(Float64Array.of(0.06, 0.14, 0.24, 0.56), 2, 2), 0, "independent");
  near(mutualInformation(Float64Array.of(0.25, 0, 0, 0.75), 2, 2), -0.25 * Math.log(0.25) - 0.75 * Math.log(0.75), "copies");
});

/** A chain of coins that all agree with a hidden one, or are rare: one column each. */
function chain(columns: number, rare: number): ReadData {
  // Leaves of column c are 2 c (mostly 0) and 2 c + 1 (mostly 1); then sums with one product each.
  const columnOf = Array.from({ length: 2 * columns }, (_, leaf) => leaf >> 1);
  const values = columnOf.flatMap((_, leaf) => (leaf % 2 ? [rare, 1 - rare] : [1 - rare, rare]));
  const products: [number, number, number][] = [];
  const widths: number[] = [];
  for (let c = 1; c < columns - 1; c++) {
    for (const side of [0, 1]) {
      products.push([c === 1 ? side : 2 * columns + 2 * (c - 2) + side, 2 * c + side, 1]);
      widths.push(1);
    }
  }
  const last = 2 * columns + widths.length;
  products.push([last - 2, 2 * columns - 2, 0.25], [last - 1, 2 * columns - 1, 0.75]);
  widths.push(2);
  const numbers = [
    ...[columnOf, widths, products.map(([left]) => left), products.map(([, right]) => right)].map((array) => Int32Array.from(array)),
    ...[[1], values, products.map(([, , p]) => p)].map((array) => Float32Array.from(array, Math.log)),
  ];
  return {
    format: 2, version: "", title: "", target: null, isDeterministic: false, numbers: "",
    size: { components: 1, leaves: columnOf.length, sums: widths.length, edges: products.length },
    model: { edges: products.length, parameters: 0 },
    columns: Array.from({ length: columns }, (_, c) => ({ name: `x${c}`, kind: "bit" as const, labels: ["0", "1"] })),
    arrays: Uint8Array.from(numbers.flatMap((array) => [...new Uint8Array(array.buffer)])).buffer,
  };
}

test("evidence that is too improbable for plain numbers keeps its digits", () => {
  const engine = new Engine(readModel(chain(401, 1e-3)));
  // 200 columns say high and 200 say low, so both are as improbable: p is known in closed form.
  const evidence: Evidence = new Map(Array.from({ length: 400 }, (_, c) => [c, oneOf(2, c % 2)]));
  const answer = engine.answer(evidence);
  assert.ok(Math.abs(answer.logP - 200 * (Math.log(1e-3) + Math.log(1 - 1e-3))) < 1e-3, String(answer.logP));
  near(answer.columns[400][1], 0.25 * 1e-3 + 0.75 * (1 - 1e-3), "the last column");
  near(answer.components[0], 1, "the only component");
});

test("what is impossible together is a smallest such set", () => {
  const engine = new Engine(readModel(chain(6, 0)));
  const evidence: Evidence = new Map([[0, oneOf(2, 1)], [2, oneOf(2, 1)], [3, oneOf(2, 0)], [5, oneOf(2, 1)]]);
  assert.equal(engine.answer(evidence).logP, -Infinity);
  const clash = engine.clash(evidence);
  assert.equal(clash.length, 2);
  assert.ok(clash.includes(3));
  near(engine.logProbability(new Map([...evidence].filter(([c]) => c !== 3))), Math.log(0.75), "without one of them");
});
