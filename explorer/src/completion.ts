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
import type { Part } from "./model.ts";
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
      const { logP, columns } = engine.answer(mask ? others.set(i, mask) : others, i);
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
  const { value, component } = relaxed(engine, evidence);
  const n = model.slotStart[model.slotStart.length - 1];
  const logRoot = new Float64Array(model.weight.length).fill(-Infinity);
  const sum = new Float64Array(n).fill(-Infinity);
  const candidates: { log: number; part: Part; c: number }[] = [];
  for (const part of model.parts) {
    for (let c = 0; c < part.count; c++) {
      const own = part.first + c;
      if (component[own] === 0) continue;
      const { up, columns } = boundPass(part, c, value, n);
      const logWeight = Math.log(component[own]);
      logRoot[own] = logWeight + up[part.nodes - 1];
      for (let g = 0; g < n; g++) sum[g] = logAdd(sum[g], logWeight + columns[g]);
      candidates.push({ log: logRoot[own], part, c });
      yield null;
    }
  }
  candidates.sort((a, b) => b.log - a.log);
  const good = candidates.slice(0, CANDIDATES).filter((one) => one.log > -Infinity);
  return {
    log: logSumExp(logRoot),
    columns: model.columns.map((column, i) => {
      const mask = evidence.get(i);
      return Float64Array.from(column.codes, (code, k) => {
        if (mask && !mask[k]) return -Infinity;
        if (column.slots.length === 0) {
          return logSumExp(logRoot.filter((_, c) => model.componentValue![c] === k));
        }
        return Math.min(...column.slots.map((s, place) => sum[model.slotStart[s] + code[place]]));
      });
    }),
    rows: good.map(({ part, c }) => bestRow(engine, evidence, part, c, value)),
  };
}

/** Weights for a bound: the values in the slots of a scattered column are free of one another. */
function relaxed(engine: Engine, evidence: Evidence) {
  const { model } = engine;
  const whole = [...evidence].filter(([i]) => model.columns[i].slots.length < 2);
  const { weights } = engine.settings(new Map(whole))[0];
  model.slotPatterns.forEach((count, s) => {
    weights.value.fill(0, model.slotStart[s] + count, model.slotStart[s + 1]);
  });
  for (const [i, mask] of evidence) {
    const column = model.columns[i];
    if (column.slots.length < 2) continue;
    column.slots.forEach((s, place) => {
      weights.value.fill(0, model.slotStart[s], model.slotStart[s + 1]);
      column.codes.forEach((code, k) => {
        if (mask[k]) weights.value[model.slotStart[s] + code[place]] = 1;
      });
    });
  }
  return weights;
}

/** The best row of a component: from the root, the best product of every sum. */
function bestRow(engine: Engine, evidence: Evidence, part: Part, c: number, weight: Float64Array): number[] {
  const { model } = engine;
  const { up, first } = boundPass(part, c, weight, 0);
  const logTheta = (e: number) => part.logTheta[first + e * part.lanes];
  const chosen = new Int32Array(model.slotPatterns.length).fill(-1);
  const todo = [part.nodes - 1];
  while (todo.length > 0) {
    const node = todo.pop()!;
    let [most, at] = [-Infinity, part.start[node]];
    const isLeaf = part.slotOf[node] >= 0;
    for (let e = part.start[node]; e < part.start[node + 1]; e++) {
      const r = part.right[e];
      const below = isLeaf ? Math.log(weight[part.left[e]]) : up[part.left[e]] + (r < 0 ? 0 : up[r]);
      if (logTheta(e) + below > most) [most, at] = [logTheta(e) + below, e];
    }
    if (isLeaf) chosen[part.slotOf[node]] = part.left[at] - model.slotStart[part.slotOf[node]];
    else {
      todo.push(part.left[at]);
      if (part.right[at] >= 0) todo.push(part.right[at]);
    }
  }
  return model.columns.map((column, i) => {
    if (column.slots.length === 0) return model.componentValue![part.first + c];
    const mask = evidence.get(i);
    let [most, best] = [-1, 0];
    column.codes.forEach((code, k) => {
      const fits = code.filter((value, place) => value === chosen[column.slots[place]]).length;
      if ((!mask || mask[k]) && fits > most) [most, best] = [fits, k];
    });
    return best;
  });
}

/** For one component: what its nodes reach at best, and its rows with each value; in logs. */
function boundPass(part: Part, c: number, weight: Float64Array, n: number) {
  const { lanes, start, left, right, slotOf, logTheta, isDeterministic } = part;
  const block = Math.floor(c / lanes);
  const first = block * part.entries * lanes + (c - block * lanes);
  const up = new Float64Array(part.nodes);
  for (let node = 0; node < part.nodes; node++) {
    let found = -Infinity;
    const isLeaf = slotOf[node] >= 0;
    for (let e = start[node], end = start[node + 1]; e < end; e++) {
      const own = logTheta[first + e * lanes];
      const r = right[e];
      const log = isLeaf ? (weight[left[e]] > 0 ? own : -Infinity) : own + up[left[e]] + (r < 0 ? 0 : up[r]);
      // Without determinism several products of a sum may hold of one row, which then has their sum.
      if (isDeterministic || isLeaf) found = log > found ? log : found;
      else found = logAdd(found, log);
    }
    up[node] = found;
  }
  const columns = new Float64Array(n).fill(-Infinity);
  if (n === 0) return { up, columns, first };
  const outside = new Float64Array(part.nodes).fill(-Infinity);
  outside[part.nodes - 1] = 0;
  const raise = (array: Float64Array, at: number, log: number) => {
    if (!isDeterministic) array[at] = logAdd(array[at], log);
    else if (log > array[at]) array[at] = log;
  };
  for (let node = part.nodes - 1; node >= 0; node--) {
    if (outside[node] === -Infinity) continue;
    const isLeaf = slotOf[node] >= 0;
    for (let e = start[node], end = start[node + 1]; e < end; e++) {
      const log = outside[node] + logTheta[first + e * lanes];
      if (log === -Infinity) continue;
      const a = left[e];
      if (isLeaf) {
        if (weight[a] > 0) raise(columns, a, log);
        continue;
      }
      const b = right[e];
      raise(outside, a, b < 0 ? log : log + up[b]);
      if (b >= 0) raise(outside, b, log + up[a]);
    }
  }
  return { up, columns, first };
}

function logAdd(a: number, b: number): number {
  if (a === -Infinity) return b;
  if (b === -Infinity) return a;
  return a > b ? a + Math.log1p(Math.exp(b - a)) : b + Math.log1p(Math.exp(a - b));
}
