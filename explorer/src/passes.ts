// One pass up and one down, for all components.
//
// In:  a model, and a weight for every value of every slot: 1 where it is possible, 0 where it is not.
// Out: the probability of all that, and how much of it every value and every component has.
//
// Values are plain numbers, which is four times as fast as logarithms. Where the whole is so
// improbable that digits could be lost, everything is done again in logarithms.

import type { Model, Part } from "./model.ts";

const SMALLEST = 1e-250; // below, terms that matter could be lost: numbers end at 1e-308

export interface Weights {
  value: Float64Array; // of every value of every slot
  component: Float64Array; // of every component, with its weight in the mixture
}

/** What two passes leave: shares of `scale`-free size that add up to `total`. */
export interface Shares {
  logTotal: number; // natural log of the probability
  value: Float64Array; // per value of every slot, given the weights
  component: Float64Array; // per component, given the weights
}

export class Passes {
  readonly model: Model;
  private readonly values: Float64Array[]; // per part, [block][node][lane]
  private readonly change: Float64Array;
  private readonly above: (Int32Array | undefined)[][] = [];

  constructor(model: Model) {
    this.model = model;
    this.values = model.parts.map((part) => new Float64Array(part.blocks * part.nodes * part.lanes));
    this.change = new Float64Array(Math.max(...model.parts.map((part) => part.nodes * part.lanes)));
  }

  /** The probability of the weights; -Infinity if they are impossible. */
  logTotal(weights: Weights): number {
    let total = 0;
    this.model.parts.forEach((part, p) => {
      for (let block = 0; block < part.blocks; block++) up(part, block, weights.value, this.values[p], null);
      total += this.rootTotal(p, weights);
    });
    return total >= SMALLEST ? Math.log(total) : this.inLogs(weights, false).logTotal;
  }

  /** The probability, and the share of every value and component. */
  shares(weights: Weights): Shares {
    const value = new Float64Array(this.model.slotStart[this.model.slotStart.length - 1]);
    const component = new Float64Array(this.model.weight.length);
    let total = 0;
    this.model.parts.forEach((part, p) => {
      for (let block = 0; block < part.blocks; block++) {
        up(part, block, weights.value, this.values[p], null);
        total += down(part, block, weights, this.values[p], this.change, value, component);
      }
    });
    if (!(total >= SMALLEST)) return this.inLogs(weights, true);
    for (let g = 0; g < value.length; g++) value[g] /= total;
    for (let c = 0; c < component.length; c++) component[c] /= total;
    return { logTotal: Math.log(total), value, component };
  }

  /**
   * The log-probability of `weights` with other values in some slots, one after the other.
   * Right after `shares` or `logTotal` of the same weights: only nodes above these slots are done again.
   */
  probe(weights: Weights, slots: number[], settings: number[][], logTotal: number): number[] {
    const found: number[] = [];
    const { slotStart, parts } = this.model;
    const before = slots.map((s) => weights.value.slice(slotStart[s], slotStart[s + 1]));
    const isSmall = !(logTotal > Math.log(SMALLEST));
    const saved = isSmall ? [] : parts.map((_, p) => this.saveAbove(p, slots));
    for (const setting of settings) {
      slots.forEach((s, i) => {
        weights.value.fill(0, slotStart[s], slotStart[s + 1]);
        weights.value[slotStart[s] + setting[i]] = before[i][setting[i]];
      });
      if (isSmall) {
        found.push(this.inLogs(weights, false).logTotal);
        continue;
      }
      let total = 0;
      parts.forEach((part, p) => {
        const nodes = this.nodesAbove(p, slots);
        for (let block = 0; block < part.blocks; block++) {
          up(part, block, weights.value, this.values[p], nodes);
        }
        total += this.rootTotal(p, weights);
      });
      found.push(total > 0 ? Math.log(total) : -Infinity);
    }
    slots.forEach((s, i) => weights.value.set(before[i], slotStart[s]));
    if (!isSmall) parts.forEach((_, p) => this.restoreAbove(p, slots, saved[p]));
    return found;
  }

  private rootTotal(p: number, weights: Weights): number {
    const part = this.model.parts[p];
    let total = 0;
    for (let c = 0; c < part.count; c++) {
      const block = Math.floor(c / part.lanes);
      const root = ((block + 1) * part.nodes - 1) * part.lanes + (c - block * part.lanes);
      total += weights.component[part.first + c] * this.values[p][root];
    }
    return total;
  }

  /** The nodes that depend on some slots, children first. */
  private nodesAbove(p: number, slots: number[]): Int32Array {
    const key = slots[0]; // slots belong to one column, and no other column has the first of them
    const cache = (this.above[p] ??= []);
    const known = cache[key];
    if (known) return known;
    const part = this.model.parts[p];
    const isAbove = new Uint8Array(part.nodes);
    const nodes: number[] = [];
    for (let n = 0; n < part.nodes; n++) {
      if (part.slotOf[n] >= 0) {
        isAbove[n] = slots.includes(part.slotOf[n]) ? 1 : 0;
      } else {
        for (let e = part.start[n]; e < part.start[n + 1] && !isAbove[n]; e++) {
          isAbove[n] = isAbove[part.left[e]] | (part.right[e] < 0 ? 0 : isAbove[part.right[e]]);
        }
      }
      if (isAbove[n]) nodes.push(n);
    }
    return (cache[key] = Int32Array.from(nodes));
  }

  private saveAbove(p: number, slots: number[]): Float64Array {
    const part = this.model.parts[p];
    const nodes = this.nodesAbove(p, slots);
    const saved = new Float64Array(part.blocks * nodes.length * part.lanes);
    let to = 0;
    for (let block = 0; block < part.blocks; block++) {
      for (const n of nodes) {
        const at = (block * part.nodes + n) * part.lanes;
        saved.set(this.values[p].subarray(at, at + part.lanes), to);
        to += part.lanes;
      }
    }
    return saved;
  }

  private restoreAbove(p: number, slots: number[], saved: Float64Array): void {
    const part = this.model.parts[p];
    let from = 0;
    for (let block = 0; block < part.blocks; block++) {
      for (const n of this.nodesAbove(p, slots)) {
        const at = (block * part.nodes + n) * part.lanes;
        this.values[p].set(saved.subarray(from, from + part.lanes), at);
        from += part.lanes;
      }
    }
  }

  private inLogs(weights: Weights, withShares: boolean): Shares {
    const { parts } = this.model;
    const logValues = parts.map((part) => upInLogs(part, weights.value));
    const logComponent = new Float64Array(this.model.weight.length).fill(-Infinity);
    parts.forEach((part, p) => {
      for (let c = 0; c < part.count; c++) {
        const block = Math.floor(c / part.lanes);
        const root = ((block + 1) * part.nodes - 1) * part.lanes + (c - block * part.lanes);
        logComponent[part.first + c] = Math.log(weights.component[part.first + c]) + logValues[p][root];
      }
    });
    const logTotal = logSumExp(logComponent);
    const value = new Float64Array(this.model.slotStart[this.model.slotStart.length - 1]);
    const component = new Float64Array(this.model.weight.length);
    if (withShares && logTotal > -Infinity) {
      for (let c = 0; c < component.length; c++) component[c] = Math.exp(logComponent[c] - logTotal);
      parts.forEach((part, p) => downInLogs(part, weights.value, logValues[p], component, value));
    }
    return { logTotal, value, component };
  }
}

export function logSumExp(logs: Float64Array | number[]): number {
  let largest = -Infinity;
  for (const log of logs) if (log > largest) largest = log;
  if (largest === -Infinity) return largest;
  let total = 0;
  for (const log of logs) total += Math.exp(log - largest);
  return largest + Math.log(total);
}

/** Fill the values of all nodes of a block, or of some nodes, children first. */
function up(
  part: Part, block: number, weight: Float64Array, values: Float64Array, nodes: Int32Array | null,
): void {
  if (part.lanes === 1) return upSingle(part, weight, values, nodes);
  const { lanes, start, left, right, slotOf, theta } = part;
  const firstValue = block * part.nodes * lanes;
  const firstTheta = block * part.entries * lanes;
  const count = nodes === null ? part.nodes : nodes.length;
  for (let i = 0; i < count; i++) {
    const n = nodes === null ? i : nodes[i];
    const at = firstValue + n * lanes;
    values.fill(0, at, at + lanes);
    const isLeaf = slotOf[n] >= 0;
    for (let e = start[n], end = start[n + 1]; e < end; e++) {
      const t = firstTheta + e * lanes;
      if (isLeaf) {
        const w = weight[left[e]];
        if (w !== 0) for (let l = 0; l < lanes; l++) values[at + l] += theta[t + l] * w;
        continue;
      }
      const a = firstValue + left[e] * lanes;
      if (right[e] < 0) {
        for (let l = 0; l < lanes; l++) values[at + l] += theta[t + l] * values[a + l];
        continue;
      }
      const b = firstValue + right[e] * lanes;
      for (let l = 0; l < lanes; l++) values[at + l] += theta[t + l] * values[a + l] * values[b + l];
    }
  }
}

function upSingle(part: Part, weight: Float64Array, values: Float64Array, nodes: Int32Array | null): void {
  const { start, left, right, slotOf, theta } = part;
  const count = nodes === null ? part.nodes : nodes.length;
  for (let i = 0; i < count; i++) {
    const n = nodes === null ? i : nodes[i];
    const end = start[n + 1];
    let sum = 0;
    if (slotOf[n] >= 0) {
      for (let e = start[n]; e < end; e++) sum += theta[e] * weight[left[e]];
    } else {
      for (let e = start[n]; e < end; e++) {
        const r = right[e];
        sum += theta[e] * values[left[e]] * (r < 0 ? 1 : values[r]);
      }
    }
    values[n] = sum;
  }
}

/**
 * Add the shares of a block, before they are divided by the total; returns what they add up to.
 * What comes down is how much the total changes with the value of each node.
 */
function down(
  part: Part, block: number, weights: Weights, values: Float64Array, change: Float64Array,
  share: Float64Array, component: Float64Array,
): number {
  if (part.lanes === 1) return downSingle(part, weights, values, change, share, component);
  const { lanes, start, left, right, slotOf, theta } = part;
  const weight = weights.value;
  const firstValue = block * part.nodes * lanes;
  const firstTheta = block * part.entries * lanes;
  const firstComponent = part.first + block * lanes;
  const inUse = Math.min(lanes, part.count - block * lanes);
  change.fill(0, 0, part.nodes * lanes);
  let total = 0;
  const root = (part.nodes - 1) * lanes;
  for (let l = 0; l < inUse; l++) {
    const own = weights.component[firstComponent + l];
    const p = own * values[firstValue + root + l];
    component[firstComponent + l] += p;
    change[root + l] = p > 0 ? own : 0;
    total += p;
  }
  if (total === 0) return 0;
  for (let n = part.nodes - 1; n >= 0; n--) {
    const at = n * lanes;
    const isLeaf = slotOf[n] >= 0;
    for (let e = start[n], end = start[n + 1]; e < end; e++) {
      const t = firstTheta + e * lanes;
      if (isLeaf) {
        const w = weight[left[e]];
        if (w === 0) continue;
        let sum = 0;
        for (let l = 0; l < lanes; l++) sum += change[at + l] * theta[t + l];
        share[left[e]] += sum * w;
        continue;
      }
      const a = left[e] * lanes;
      if (right[e] < 0) {
        for (let l = 0; l < lanes; l++) change[a + l] += change[at + l] * theta[t + l];
        continue;
      }
      const b = right[e] * lanes;
      for (let l = 0; l < lanes; l++) {
        const d = change[at + l] * theta[t + l];
        change[a + l] += d * values[firstValue + b + l];
        change[b + l] += d * values[firstValue + a + l];
      }
    }
  }
  return total;
}

function downSingle(
  part: Part, weights: Weights, values: Float64Array, change: Float64Array, share: Float64Array,
  component: Float64Array,
): number {
  const { start, left, right, slotOf, theta, nodes } = part;
  const weight = weights.value;
  const total = weights.component[part.first] * values[nodes - 1];
  component[part.first] += total;
  if (total === 0) return 0;
  change.fill(0, 0, nodes);
  change[nodes - 1] = weights.component[part.first];
  for (let n = nodes - 1; n >= 0; n--) {
    const own = change[n];
    if (own === 0) continue;
    const end = start[n + 1];
    if (slotOf[n] >= 0) {
      for (let e = start[n]; e < end; e++) share[left[e]] += own * theta[e] * weight[left[e]];
      continue;
    }
    for (let e = start[n]; e < end; e++) {
      const a = left[e];
      const r = right[e];
      const d = own * theta[e];
      if (r < 0) change[a] += d;
      else {
        change[a] += d * values[r];
        change[r] += d * values[a];
      }
    }
  }
  return total;
}

function upInLogs(part: Part, weight: Float64Array): Float64Array {
  const { lanes, start, left, right, slotOf, theta } = part;
  const logValue = new Float64Array(part.blocks * part.nodes * lanes);
  for (let block = 0; block < part.blocks; block++) {
    const firstValue = block * part.nodes * lanes;
    const firstTheta = block * part.entries * lanes;
    for (let n = 0; n < part.nodes; n++) {
      for (let l = 0; l < lanes; l++) {
        let largest = -Infinity;
        let sum = 0;
        for (let e = start[n]; e < start[n + 1]; e++) {
          const t = theta[firstTheta + e * lanes + l];
          if (t === 0) continue;
          if (slotOf[n] >= 0) {
            sum += t * weight[left[e]];
            largest = 0;
            continue;
          }
          const log = Math.log(t) + logValue[firstValue + left[e] * lanes + l]
            + (right[e] < 0 ? 0 : logValue[firstValue + right[e] * lanes + l]);
          if (log === -Infinity) continue;
          if (log > largest) {
            sum = largest === -Infinity ? 1 : sum * Math.exp(largest - log) + 1;
            largest = log;
          } else sum += Math.exp(log - largest);
        }
        logValue[firstValue + n * lanes + l] = sum > 0 ? largest + Math.log(sum) : -Infinity;
      }
    }
  }
  return logValue;
}

function downInLogs(
  part: Part, weight: Float64Array, logValue: Float64Array, component: Float64Array, share: Float64Array,
): void {
  const { lanes, start, left, right, slotOf, theta } = part;
  const flow = new Float64Array(part.nodes);
  for (let c = 0; c < part.count; c++) {
    const block = Math.floor(c / lanes);
    const l = c - block * lanes;
    if (component[part.first + c] === 0) continue;
    const firstValue = block * part.nodes * lanes;
    const firstTheta = block * part.entries * lanes;
    flow.fill(0);
    flow[part.nodes - 1] = component[part.first + c];
    for (let n = part.nodes - 1; n >= 0; n--) {
      if (flow[n] === 0) continue;
      const own = logValue[firstValue + n * lanes + l];
      for (let e = start[n]; e < start[n + 1]; e++) {
        const t = theta[firstTheta + e * lanes + l];
        if (t === 0) continue;
        if (slotOf[n] >= 0) {
          share[left[e]] += (flow[n] * t * weight[left[e]]) / Math.exp(own);
          continue;
        }
        const log = Math.log(t) + logValue[firstValue + left[e] * lanes + l]
          + (right[e] < 0 ? 0 : logValue[firstValue + right[e] * lanes + l]);
        const f = log === -Infinity ? 0 : flow[n] * Math.exp(log - own);
        flow[left[e]] += f;
        if (right[e] >= 0) flow[right[e]] += f;
      }
    }
  }
}
