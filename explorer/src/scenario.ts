// What a person has set: clicks, ranges and exclusions as new evidence, undo, and the address.
//
// In:  a click on a value, or the part of the address after #.
// Out: `Scenario`s, which never change, and a `History` of them.

import type { Evidence } from "./engine.ts";

/** The little that is needed to know of a column here. */
export interface Named {
  name: string;
  labels: string[];
  size: number;
}

export interface Scenario {
  evidence: Evidence;
  pinned: Evidence | null;
  target: number | null;
}

/** Set one value; release it if it is what is set already. */
export function choose(evidence: Evidence, column: number, value: number, size: number): Evidence {
  const mask = evidence.get(column);
  const isChosen = mask !== undefined && count(mask) === 1 && mask[value] === 1;
  const next = new Map(evidence);
  if (isChosen) next.delete(column);
  else next.set(column, range(size, value, value));
  return next;
}

/** Rule a value out, or allow it again; the last possible value stays. */
export function exclude(evidence: Evidence, column: number, value: number, size: number): Evidence {
  const mask = evidence.get(column)?.slice() ?? new Uint8Array(size).fill(1);
  mask[value] = 1 - mask[value];
  return withMask(evidence, column, mask);
}

/** Set all values from one to another. */
export function chooseRange(evidence: Evidence, column: number, from: number, to: number, size: number): Evidence {
  return withMask(evidence, column, range(size, Math.min(from, to), Math.max(from, to)));
}

function withMask(evidence: Evidence, column: number, mask: Uint8Array): Evidence {
  const next = new Map(evidence);
  const allowed = count(mask);
  if (allowed === mask.length) next.delete(column);
  else if (allowed > 0) next.set(column, mask);
  return next;
}

export function release(evidence: Evidence, column: number): Evidence {
  const next = new Map(evidence);
  next.delete(column);
  return next;
}

export const count = (mask: Uint8Array): number => mask.reduce((a, b) => a + b, 0);

export function range(size: number, from: number, to: number): Uint8Array {
  return new Uint8Array(size).fill(1, from, to + 1);
}

/** The range that a mask is, or null if it has holes. */
export function asRange(mask: Uint8Array): [number, number] | null {
  const from = mask.indexOf(1);
  const to = mask.lastIndexOf(1);
  return count(mask) === to - from + 1 ? [from, to] : null;
}

export function isSame(a: Evidence | null, b: Evidence | null): boolean {
  if (a === null || b === null) return a === b;
  return a.size === b.size && [...a].every(([column, mask]) => {
    const other = b.get(column);
    return other !== undefined && mask.every((allowed, k) => allowed === other[k]);
  });
}

/** Scenarios one after the other, and where we are among them. */
export class History {
  readonly past: Scenario[];
  readonly now: Scenario;
  readonly future: Scenario[];

  constructor(now: Scenario, past: Scenario[] = [], future: Scenario[] = []) {
    this.now = now;
    this.past = past;
    this.future = future;
  }

  go(next: Partial<Scenario>): History {
    const now = { ...this.now, ...next };
    const isNew = !isSame(now.evidence, this.now.evidence) || !isSame(now.pinned, this.now.pinned)
      || now.target !== this.now.target;
    return isNew ? new History(now, [...this.past, this.now]) : this;
  }

  /** The same step, with another end: a drag is one step, however far it goes. */
  correct(next: Partial<Scenario>): History {
    return new History({ ...this.now, ...next }, this.past);
  }

  undo(): History {
    const last = this.past.at(-1);
    return last ? new History(last, this.past.slice(0, -1), [this.now, ...this.future]) : this;
  }

  redo(): History {
    const [next, ...rest] = this.future;
    return next ? new History(next, [...this.past, this.now], rest) : this;
  }
}

/** The address after #: columns and values by name, so that it can be read, and outlives a new fit. */
export function toHash(scenario: Scenario, columns: Named[]): string {
  const parts: string[] = [];
  if (scenario.target !== null) parts.push(`target=${encode(columns[scenario.target].name)}`);
  for (const [prefix, evidence] of [["", scenario.evidence], ["pinned.", scenario.pinned]] as const) {
    if (evidence === null) continue;
    if (prefix !== "" && evidence.size === 0) parts.push("pinned=nothing");
    for (const [column, mask] of evidence) {
      const { name, labels } = columns[column];
      const isMost = 2 * count(mask) > mask.length && count(mask) > 1;
      const listed = labels.filter((_, k) => (mask[k] === 1) !== isMost).map(encode);
      parts.push(`${prefix}${isMost ? "not" : "is"}.${encode(name)}=${listed.join(",")}`);
    }
  }
  return parts.join("&");
}

/** The scenario in an address; columns and values that the model does not have are left out. */
export function fromHash(hash: string, columns: Named[], target: number | null): Scenario {
  const found: Scenario = { evidence: new Map(), pinned: null, target };
  const place = new Map(columns.map((column, i) => [column.name, i]));
  for (const part of hash.replace(/^#/, "").split("&")) {
    const [key, value = ""] = part.split("=", 2);
    if (key === "target") found.target = place.get(decode(value)) ?? target;
    if (key === "pinned") found.pinned ??= new Map();
    const match = /^(pinned\.)?(is|not)\.(.*)$/.exec(key);
    if (!match) continue;
    const column = place.get(decode(match[3]));
    if (column === undefined) continue;
    const { labels, size } = columns[column];
    const listed = new Set(value.split(",").map(decode));
    const mask = Uint8Array.from(labels, (label) => (listed.has(label) === (match[2] === "is") ? 1 : 0));
    const allowed = count(mask);
    if (allowed === 0 || allowed === size) continue;
    if (match[1]) (found.pinned ??= new Map()).set(column, mask);
    else found.evidence.set(column, mask);
  }
  return found;
}

const encode = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*.~]/g, (c) => `%${c.charCodeAt(0).toString(16).padStart(2, "0")}`);

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
