// The engine against what Python says of models of every kind.

import assert from "node:assert/strict";
import { test } from "node:test";
import { completions } from "../src/completion.ts";
import { Engine, mutualInformation, oneOf, type Evidence } from "../src/engine.ts";
import { readModel, type PageData } from "../src/model.ts";
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
  const engine = new Engine(readModel(data));
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
      const isCoded = engine.nothing.coded.every((share) => share > 1 - 1e-9);
      if (one.bestLogP !== null && isCoded) near(found.logP, one.bestLogP, "log-probability");
    });
  }
}

test("information of independent columns is zero, of copies the entropy", () => {
  near(mutualInformation(Float64Array.of(0.06, 0.14, 0.24, 0.56), 2, 2), 0, "independent");
  near(mutualInformation(Float64Array.of(0.25, 0, 0, 0.75), 2, 2), -0.25 * Math.log(0.25) - 0.75 * Math.log(0.75), "copies");
});
