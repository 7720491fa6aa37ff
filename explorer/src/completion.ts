// The most probable completion: of all rows that agree with the evidence, the one with the highest
// probability.
//
// In:  evidence.
// Out: a value for every column, its probability, and a bound that no row exceeds.
//
// Branch and bound over columns. Within a component that is deterministic, one pass that takes the
// best product instead of the sum gives its best row; the sum of what components reach at best
// bounds the mixture. A single deterministic circuit is done after the first pass. Where the search is
// stopped, the bound says how much better another row could be.

import { Engine, isSingle, oneOf, without, type Evidence } from "./engine.ts";
import type { Model } from "./model.ts";
import { logSumExp } from "./passes.ts";

export interface Completion {
  values: number[]; // of every column
  logP: number; // of the row
  logBound: number; // of any row; equal to logP where the search is complete
}

interface Bounds {
  log: number; // of all rows
  columns: Float64Array[]; // of the rows with each value of each column
  rows: number[][]; // the best rows of the components that reach most
}

interface Branch {
  evidence: Evidence;
  bounds: Bounds;
}

const CLOSE = 1e-7; // relative; the parameters have no more digits
const CANDIDATES = 4;

/** Better and better ones, so that a caller can stop when it likes; null where nothing is new. */
export function* completions(engine: Engine, evidence: Evidence): Generator<Completion | null> {
  const queue: Branch[] = [{ evidence, bounds: yield* boundsOf(engine, evidence) }];
  let best: Completion = { values: [], logP: -Infinity, logBound: queue[0].bounds.log };
  let isClimbed = false;
  while (queue.length > 0) {
    queue.sort((a, b) => a.bounds.log - b.bounds.log);
    const { evidence: given, bounds } = queue.pop()!;
    if (bounds.log <= best.logP + CLOSE) break;
    for (const row of bounds.rows) {
      const logP = engine.logProbability(asEvidence(engine, row));
      if (logP > best.logP) best = { ...best, values: row, logP };
    }
    best.logBound = Math.max(bounds.log, best.logP);
    yield { ...best };
    if (bounds.log <= best.logP + CLOSE) break;
    if (!isClimbed && best.values.length > 0) {
      isClimbed = true;
      for (const better of climb(engine, evidence, best)) yield (best = better);
    }
    const column = branchOn(given, bounds, best.logP);
    if (column < 0) continue; // nothing is open, or nothing is worth a look
    for (let k = 0; k < engine.model.columns[column].size; k++) {
      if (bounds.columns[column][k] <= best.logP + CLOSE) continue;
      const narrower = new Map(given).set(column, oneOf(engine.model.columns[column].size, k));
      const below = yield* boundsOf(engine, narrower);
      below.log = Math.min(below.log, bounds.columns[column][k], bounds.log);
      if (below.log > best.logP + CLOSE) queue.push({ evidence: narrower, bounds: below });
      yield { ...best };
    }
  }
  if (best.values.length > 0) yield { ...best, logBound: best.logP };
}

function asEvidence(engine: Engine, row: number[]): Evidence {
  return new Map(row.map((k, i) => [i, oneOf(engine.model.columns[i].size, k)]));
}

/** The column that leaves the fewest values worth a look, with the lowest bounds. */
function branchOn(given: Evidence, bounds: Bounds, logP: number): number {
  let column = -1;
  let least = Infinity;
  bounds.columns.forEach((own, i) => {
    if (own.length < 2 || isSingle(given.get(i))) return;
    let cost = 0;
    for (const log of own) if (log > logP + CLOSE) cost += Math.exp(log - bounds.log);
    if (cost < least) [least, column] = [cost, i];
  });
  return column;
}

/** The row, changed one column at a time while that makes it more probable. */
function* climb(engine: Engine, evidence: Evidence, from: Completion): Generator<Completion> {
  let best = from;
  for (let isBetter = true; isBetter; ) {
    isBetter = false;
    for (let i = 0; i < best.values.length; i++) {
      const mask = evidence.get(i);
      if (isSingle(mask)) continue;
      const others = without(asEvidence(engine, best.values), i);
      const { logP, columns } = engine.answer(mask ? others.set(i, mask) : others);
      const k = columns[i].indexOf(Math.max(...columns[i]));
      if (columns[i][k] > columns[i][best.values[i]] * (1 + CLOSE)) {
        const values = best.values.with(i, k);
        best = { ...best, values, logP: engine.logProbability(asEvidence(engine, values)) };
        isBetter = true;
      }
      if (logP > -Infinity) yield { ...best, logBound: Math.max(best.logBound, best.logP) };
    }
  }
}

/** Bounds on the rows that agree with the evidence, and some good rows. */
export function* boundsOf(engine: Engine, evidence: Evidence): Generator<null, Bounds> {
  const { model } = engine;
  const weights = engine.weights(evidence);
  const logRoot = new Float64Array(model.weight.length).fill(-Infinity);
  const sum = new Float64Array(weights.length).fill(-Infinity);
  const candidates: { log: number; c: number }[] = [];
  for (let c = 0; c < model.weight.length; c++) {
    if (model.weight[c] === 0) continue;
    const { up, values } = boundPass(model, c, weights, true);
    const logWeight = Math.log(model.weight[c]);
    logRoot[c] = logWeight + up[model.nodes - 1];
    for (let g = 0; g < sum.length; g++) sum[g] = logAdd(sum[g], logWeight + values[g]);
    candidates.push({ log: logRoot[c], c });
    yield null;
  }
  candidates.sort((a, b) => b.log - a.log);
  const good = candidates.slice(0, CANDIDATES).filter((one) => one.log > -Infinity);
  return {
    log: logSumExp(logRoot),
    columns: model.columns.map((_, i) => sum.slice(model.firstValue[i], model.firstValue[i + 1])),
    rows: good.map(({ c }) => bestRow(engine, c, weights)),
  };
}

/** The best row of a component: from the root, the best product of every sum. */
function bestRow({ model }: Engine, c: number, weights: Float64Array): number[] {
  const { up, first } = boundPass(model, c, weights, false);
  const row = model.columns.map(() => 0);
  const todo = [model.nodes - 1];
  while (todo.length > 0) {
    const node = todo.pop()!;
    const isLeaf = node < model.leaves;
    let [most, at] = [-Infinity, model.start[node]];
    for (let e = model.start[node]; e < model.start[node + 1]; e++) {
      const below = isLeaf ? Math.log(weights[model.left[e]]) : up[model.left[e]] + up[model.right[e]];
      const log = model.logTheta[first + e * model.lanes] + below;
      if (log > most) [most, at] = [log, e];
    }
    if (isLeaf) row[model.columnOf[node]] = at - model.start[node];
    else todo.push(model.left[at], model.right[at]);
  }
  return row;
}

/** For one component: what its nodes reach at best, and if asked its rows with each value; in logs. */
function boundPass(model: Model, c: number, weights: Float64Array, withValues: boolean) {
  const { lanes, leaves, nodes, start, left, right, logTheta, isDeterministic } = model;
  const block = Math.floor(c / lanes);
  const first = block * model.entries * lanes + (c - block * lanes);
  const up = new Float64Array(nodes);
  for (let node = 0; node < nodes; node++) {
    let found = -Infinity;
    for (let e = start[node], end = start[node + 1]; e < end; e++) {
      const own = logTheta[first + e * lanes];
      const log = node < leaves ? (weights[left[e]] > 0 ? own : -Infinity) : own + up[left[e]] + up[right[e]];
      // Without determinism several products of a sum may hold of one row, which then has their sum.
      if (isDeterministic || node < leaves) found = log > found ? log : found;
      else found = logAdd(found, log);
    }
    up[node] = found;
  }
  const values = new Float64Array(weights.length).fill(-Infinity);
  if (!withValues) return { up, values, first };
  const outside = new Float64Array(nodes).fill(-Infinity);
  outside[nodes - 1] = 0;
  const raise = (array: Float64Array, at: number, log: number) => {
    if (!isDeterministic) array[at] = logAdd(array[at], log);
    else if (log > array[at]) array[at] = log;
  };
  for (let node = nodes - 1; node >= 0; node--) {
    if (outside[node] === -Infinity) continue;
    for (let e = start[node], end = start[node + 1]; e < end; e++) {
      const log = outside[node] + logTheta[first + e * lanes];
      if (log === -Infinity) continue;
      if (node < leaves) {
        if (weights[left[e]] > 0) raise(values, left[e], log);
        continue;
      }
      raise(outside, left[e], log + up[right[e]]);
      raise(outside, right[e], log + up[left[e]]);
    }
  }
  return { up, values, first };
}

function logAdd(a: number, b: number): number {
  if (a === -Infinity) return b;
  if (b === -Infinity) return a;
  return a > b ? a + Math.log1p(Math.exp(b - a)) : b + Math.log1p(Math.exp(a - b));
}
